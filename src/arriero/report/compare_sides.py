"""What a comparison says of its sides: what served, how it was started, and whether its flags are its best ones."""

import shlex
from collections.abc import Iterator
from typing import Final

from arriero.record.bench_compare import CompareResult
from arriero.record.bench_compare_parts import SideName
from arriero.record.bench_parts import TargetFacts
from arriero.report.bench_view import setting_words

SIDES: Final[tuple[SideName, ...]] = ("a", "b")
_MB: Final = 1_000_000


def side_lines(result: CompareResult) -> Iterator[str]:
    """Each side with its version and threads, then the model file that they were started with."""
    for side in SIDES:
        target = _target(result, side)
        parts = [f"`{target.name}`"]
        if target.command is None:
            parts.append(f"running already at {target.facts.get('url', 'an address')}")
        parts.append(str(target.facts.get("version") or _build(target) or "version unknown"))
        if "threads" in target.facts:
            parts.append(f"{target.facts['threads']} threads")
        yield f"{side.upper()} is {', '.join(parts)}"
    models = dict.fromkeys(line for side in SIDES if (line := _model(_target(result, side))) is not None)
    yield from (f"Model: {line}" for line in models)


def command_lines(result: CompareResult) -> Iterator[str]:
    """The command that started each side, as it was executed; one for each cell, since cells differ in slots."""
    for side in SIDES:
        command = _target(result, side).command
        if command is None:
            continue
        started = False
        for cell in result.cells:
            run = next((run for run in cell.servers if run.side == side), None)
            if run is not None:
                started = True
                yield f"{side.upper()} at {setting_words(cell.setting)}: `{shlex.join(run.command)}`"
        if not started:
            yield f"{side.upper()} was not started: `{shlex.join(command)}`"


def flag_lines(result: CompareResult) -> Iterator[str]:
    """What stands below each table of verdicts: flags that were given, and those that nobody searched."""
    searched = {search.side for search in result.searches}
    for side in SIDES:
        facts = _target(result, side).facts
        peer, given = facts.get("peer"), facts.get("flags")
        if peer is None:
            continue
        shown = f"given: `{given}`" if given else "none given"
        if side not in searched:
            remedy = f"`--{side}-search default` does it"
            yield f"{side.upper()}: the flags of {peer} were not searched ({remedy}); {shown}"
        elif given:
            yield f"{side.upper()}: {peer} got flags beside those that were searched; {shown}"


def _target(result: CompareResult, side: SideName) -> TargetFacts:
    return result.a if side == "a" else result.b


def _build(target: TargetFacts) -> str | None:
    """What a running llama-server tells of itself."""
    return f"build {target.facts['build']}" if "build" in target.facts else None


def _model(target: TargetFacts) -> str | None:
    if "model_sha256" in target.facts:
        size = f"{target.facts['model_bytes'] / _MB:,.1f} MB"
        return f"{target.facts['model_file']}, {size}, sha256 {target.facts['model_sha256']}"
    return None if target.model is None else f"{target.model}, size and hash unknown"
