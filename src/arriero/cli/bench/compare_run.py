"""Runs a comparison: on a quiet machine, with Ctrl-C as an orderly end, and always with a file of what was measured."""

import argparse
import asyncio
import signal
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from arriero.bench.calibration import calibrate
from arriero.bench.client_loop import run
from arriero.bench.compare import Compared, compare
from arriero.bench.compare_instrument import Generator, http_driver
from arriero.bench.compare_plan import ComparePlan
from arriero.bench.compare_result import Circumstances, ModelFile, assemble, model_file, versions_of
from arriero.bench.runner import calibration_facts
from arriero.bench.runner_points import Rules
from arriero.cli.bench.compare_view import Lines, markdown
from arriero.cli.quiet import busy_or_refused
from arriero.cli.simulation.output import new_file, require_absent
from arriero.record.bench_compare import encode_comparison
from arriero.record.bench_parts import CalibrationFacts
from arriero.record.machine import machine_facts

EXIT_INTERRUPTED: Final = 130


def run_comparison(plan: ComparePlan, flags: argparse.Namespace, command: Sequence[str]) -> int:
    """Measure, write, print; the exit status.

    Raises:
        ConfigError: the machine is busy, the result exists already, or nobody answers at an address.
    """
    out = Path(flags.out)
    require_absent([out], force=flags.force)
    busy = busy_or_refused("or use --busy-ok for a degraded result", busy_ok=flags.busy_ok)
    if busy is not None:
        print(f"arriero: {busy}", file=sys.stderr)
    model, versions = _model_of(plan), versions_of(plan)
    machine, started_at, began_at = machine_facts(), datetime.now(UTC), time.monotonic()
    compared, calibration = run(_measure(plan, flags))
    seconds = time.monotonic() - began_at
    circumstances = Circumstances(command, started_at, seconds, machine, calibration, model, versions)
    result = assemble(plan, compared, circumstances)
    with new_file(out, force=flags.force) as file:
        file.write(encode_comparison(result, file=str(out)))
    sys.stdout.write(markdown(result))
    print(f"result: {out}", file=sys.stderr)
    if compared.error is not None:
        print(f"arriero: {compared.error}", file=sys.stderr)
    return EXIT_INTERRUPTED if compared.status == "interrupted" else int(compared.verdict(plan))


async def _measure(plan: ComparePlan, flags: argparse.Namespace) -> tuple[Compared, CalibrationFacts | None]:
    """Everything that needs an event loop; the first Ctrl-C ends the round that runs, the second one at once."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def begin_the_end() -> None:
        print("stopping; once more ends at once", file=sys.stderr)
        stop.set()
        loop.remove_signal_handler(signal.SIGINT)

    calibration = None if flags.no_calibration else calibration_facts(await calibrate())
    loop.add_signal_handler(signal.SIGINT, begin_the_end)
    try:
        generator = Generator(Rules(keep_raw=flags.raw), stop)
        return await compare(plan, generator, http_driver, Lines(plan.rules.decides[0])), calibration
    finally:
        loop.remove_signal_handler(signal.SIGINT)


def _model_of(plan: ComparePlan) -> ModelFile | None:
    """The file behind `--model`, which may be one of the names that `arriero serve` knows.

    Raises:
        ConfigError: the name is known, and the file cannot be had. DataError: it cannot be read.
    """
    if plan.hold.model is None:
        return None
    path = Path(plan.hold.model)
    if not path.exists():
        from arriero.backend.models import resolve_model

        path = resolve_model(plan.hold.model)
    return model_file(path)
