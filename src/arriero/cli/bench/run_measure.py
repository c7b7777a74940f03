"""One `arriero bench run`: calibrate, run the points, write the file, print the tables."""

import asyncio
import os
import signal
import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from arriero.bench.calibration import Calibration, calibrate
from arriero.bench.client_loop import run as run_on_loop
from arriero.bench.loops_pace import REAL_PACE
from arriero.bench.loops_watch import RunWatch
from arriero.bench.runner import BenchRun, assemble, run_bench
from arriero.cli.bench.run_plan import RunPlan
from arriero.cli.bench.run_progress import live_progress
from arriero.cli.bench.run_targets import OpenTarget, opened_target
from arriero.cli.bench.view import show
from arriero.cli.simulation.output import ROOT, new_file, require_absent
from arriero.metrics.definitions import DEFINITIONS
from arriero.metrics.validity import Flag
from arriero.record.bench_parts import Point, TargetFacts
from arriero.record.bench_result import BenchResult, encode_result
from arriero.record.bench_result_run import run_facts
from arriero.record.machine import machine_facts

EXIT_OK: Final = 0
EXIT_NOTHING_FINISHED: Final = 1
EXIT_INVALID: Final = 3
EXIT_INTERRUPTED: Final = 130
_HIDDEN: Final = frozenset({"--api-key", "--header"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    run: BenchRun
    target: TargetFacts
    opened: OpenTarget
    calibration: Calibration | None


def measure_and_tell(plan: RunPlan, flags: Namespace, command: Sequence[str]) -> int:
    """Measure, write, print; the exit status.

    Raises:
        ConfigError: the target cannot be had, or the file not be written.
    """
    out = Path(flags.out) if flags.out else _default_out()
    require_absent([out], force=flags.force)
    started_at, began_at = datetime.now(UTC), time.monotonic()
    measured = run_on_loop(_measure(plan, flags))
    if measured is None:
        print("arriero: interrupted before anything was measured; nothing was written", file=sys.stderr)
        return EXIT_INTERRUPTED
    result = assemble(
        measured.run,
        evidence=measured.opened.driver.evidence,
        facts=run_facts(
            without_secrets(command),
            started_at=started_at,
            seconds=time.monotonic() - began_at,
            was_interrupted=measured.run.interrupted,
        ),
        machine=machine_facts(),
        target=measured.target,
        calibration=measured.calibration,
    )
    kept = _without_raw(result) if flags.no_raw else result
    with new_file(out, force=flags.force) as file:
        file.write(encode_result(kept, file=str(out)))
    if flags.json:
        sys.stdout.buffer.write(encode_result(_without_raw(result)))
    else:
        show(result, DEFINITIONS[flags.definitions])
    print(f"{out}: written{'; interrupted' if measured.run.interrupted else ''}", file=sys.stderr)
    return status_of(result)


def status_of(result: BenchResult) -> int:
    """The exit status of a result: how it ended, then whether it may be believed, then whether anything worked."""
    if result.run.was_interrupted:
        return EXIT_INTERRUPTED
    if result.validity.flag is Flag.INVALID:
        return EXIT_INVALID
    finished = sum(point.summary.counts.finished for point in result.points)
    return EXIT_OK if finished else EXIT_NOTHING_FINISHED


def without_secrets(command: Sequence[str]) -> list[str]:
    """The words of a command with the values of secret flags taken out."""
    shown: list[str] = []
    hides = False
    for word in command:
        flag, equals, _ = word.partition("=")
        if hides:
            shown.append("HIDDEN")
        elif equals and flag in _HIDDEN:
            shown.append(f"{flag}=HIDDEN")
        else:
            shown.append(word)
        hides = not hides and word in _HIDDEN
    return shown


async def _measure(plan: RunPlan, flags: Namespace) -> _Measured | None:
    """Everything that needs the event loop; None if it was interrupted before the first point."""
    stop = asyncio.Event()
    _stop_at_interrupt(stop)
    async with opened_target(flags) as opened:
        points = plan.points(opened.vocabulary if flags.vocabulary is None else None)
        calibration = None
        if opened.is_live and not flags.no_calibration:
            calibration = await calibrate()
        if stop.is_set():
            return None
        watch = RunWatch()
        done: list[Point] = []

        def title() -> str:
            number = min(len(done), len(points) - 1)
            setting = ", ".join(f"{name} {value:g}" for name, value in points[number].setting.items())
            return f"{number + 1}/{len(points)} {setting or opened.driver.name}"

        async with live_progress(watch, REAL_PACE.clock, title):
            run = await run_bench(opened.driver, points, plan.rules, stop=stop, watch=watch, on_point=done.append)
        target = TargetFacts(
            name=opened.driver.name,
            kind=opened.driver.kind,
            model=opened.model,
            facts=await opened.driver.facts(),
        )
        return _Measured(run=run, target=target, opened=opened, calibration=calibration)


def _stop_at_interrupt(stop: asyncio.Event) -> None:
    """The first Ctrl-C ends the run and keeps what was measured, a second one ends the program."""

    def on_signal() -> None:
        if stop.is_set():
            os._exit(EXIT_INTERRUPTED)
        stop.set()
        sys.stderr.write("\narriero: stopping; what was measured is kept (once more to quit at once)\n")

    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, on_signal)


def _without_raw(result: BenchResult) -> BenchResult:
    points = tuple(msgspec.structs.replace(point, lives=(), keeps_lives=False) for point in result.points)
    return msgspec.structs.replace(result, points=points)


def _default_out() -> Path:
    return Path(ROOT) / "bench" / f"run-{datetime.now(UTC):%Y%m%d-%H%M%S}.json"
