"""A cost profile for one server: `arriero calibrate` with the flags that the server will get, in a process of its own.

A calibration computes for a minute or two without a pause, which is nothing for the event loop of whoever measures.
"""

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from arriero.core.errors import ConfigError
from arriero.record.cost_profile import CostProfile, read_cost_profile


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationPlan:
    """What is calibrated: the same that the server is started with.

    Attributes:
        model: a reference, for llama.cpp only.
        backend: `llama` or `synthetic`.
        flash_attention: `auto`, `on` or `off`.
        slots: requests that run at once.
        slot_tokens: KV positions of each; the profile is valid up to there.
        batch_rows: rows of one decode call.
        micro_batch: rows that are computed together.
        threads: compute threads of the server; 0: every CPU. Fewer are measured too, for when it has to yield.
        seconds: to measure.
        itl_target_ms: of the server; it decides about attention, where that is open; 0: none.
    """

    model: str
    backend: str
    flash_attention: str
    slots: int
    slot_tokens: int
    batch_rows: int
    micro_batch: int
    threads: int
    seconds: float
    itl_target_ms: float = 0

    def words(self, out: Path) -> tuple[str, ...]:
        """The command; it starts beside busy processes too, and the profile says so."""
        threads = ("--threads", ",".join(map(str, sorted({1, self.threads})))) if self.threads else ()
        target = ("--itl-target", f"{self.itl_target_ms:g}") if self.itl_target_ms else ()
        return (
            *(sys.executable, "-m", "arriero", "calibrate", "--model", self.model, "--backend", self.backend),
            *("--flash-attn", self.flash_attention, "--batch", str(self.batch_rows)),
            *("--micro-batch", str(self.micro_batch), "--sequences", str(self.slots)),
            *("--ctx-size", str(self.slots * self.slot_tokens), *threads, *target),
            *("--seconds", f"{self.seconds:g}", "--busy-ok", "--log-level", "warning", "--out", str(out)),
        )


async def calibrated(plan: CalibrationPlan, out: Path) -> CostProfile:
    """Calibrate, and read what was written.

    Args:
        plan: what.
        out: the profile; must not exist yet.

    Raises:
        ConfigError: it could not be calibrated; with the last line that was said.
        DataError: the profile cannot be read.
    """
    process = await asyncio.create_subprocess_exec(
        *plan.words(out),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        _, said = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        lines = said.decode(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
        raise ConfigError(f"no cost profile: {last.removeprefix('arriero: ')}")
    return read_cost_profile(out)


def profile_facts(profile: CostProfile) -> dict[str, Any]:
    """How far a profile is to be trusted, as JSON: a figure for each number of threads and kind of step."""
    return {
        "name": profile.name,
        "seconds": profile.measuring.seconds,
        "samples": profile.measuring.num_samples,
        "busy": profile.measuring.busy,
        "context": dict(profile.fingerprint.context),
        "typical_error_of_new_shapes": {
            f"{each.threads} threads, {each.kind}": each.typical for each in profile.residuals if each.held_out
        },
    }
