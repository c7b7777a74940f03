"""Document of a run of the kernel workbench: verdicts, times, gates, instructions, and where it was measured."""

from collections.abc import Iterator, Mapping
from typing import Final

from arriero.record.cpu_lab.kernels import CandidateResult, GateRow, KernelsResult, TimedKernel, TimedSize
from arriero.report.bench_facts import machine_rows, run_rows
from arriero.report.cpu_lab.code_table import code_table
from arriero.report.document import (
    Alert,
    Badge,
    Column,
    Document,
    Facts,
    Fold,
    Level,
    Part,
    Picture,
    Section,
    Table,
    Text,
    present,
)
from arriero.report.written import UNDEFINED, Unit, written

MADE_BY: Final = "Made by `arriero lab kernels`."
LIMITS: Final = (
    "MICROBENCHMARK: small kernels on data that stays in the first-level cache. "
    "A gain here is a reason to try the change in the whole library, and says nothing about its speed."
)
_TIMES: Final = (
    "A ratio and its interval stand in the row of the candidate. The largest difference is that from the baseline's "
    "result, relative to the sum of the absolute terms."
)
_GATES: Final = "Gates of the candidate (results compared; the gate of time is a MICROBENCHMARK)"
_IN_LIBRARY: Final = "The library in use on the same cases (results compared): no part of the verdict on the candidate"
_LEVELS: Final = {"passed": Level.GOOD, "rejected": Level.BAD, "skipped": Level.NOTE}


def kernels_document(result: KernelsResult, pictures: Mapping[str, Picture]) -> Document:
    """The whole report.

    Args:
        result: read or just made.
        pictures: by key, as `kernels_drawn` draws them; those that are missing are left out.
    """
    return Document(
        title="Extracted kernels",
        badges=(
            Badge(Level.NOTE, result.evidence.value),
            *(Badge(_LEVELS[each.verdict], f"{_name(each)}: {each.verdict}") for each in result.candidates),
        ),
        lead=present([
            Alert(Level.NOTE, LIMITS),
            Alert(Level.WARNING, "A quick run: fewer cases and calls than the full one.") if result.is_quick else None,
            Alert(Level.WARNING, f"Doubtful: {result.busy}.") if result.busy is not None else None,
            _verdicts(result),
            pictures.get("kernel-ratios"),
        ]),
        sections=(*(_section(each) for each in result.candidates if each.skipped is None), _origin(result)),
        made_by=MADE_BY,
    )


def _name(candidate: CandidateResult) -> str:
    return f"{candidate.experiment}, {candidate.compiler_name}"


def _verdicts(result: KernelsResult) -> Table:
    columns = (
        Column("kernel", is_number=False), Column("candidate", is_number=False), Column("compiler", is_number=False),
        Column("gates passed"), Column("verdict", is_number=False), Column("why", is_number=False, is_small=True),
    )  # fmt: skip
    rows = tuple(
        (
            each.experiment,
            each.says,
            each.compiler or each.compiler_name,
            written(sum(gate.passed for gate in each.gates), Unit.COUNT) if each.skipped is None else UNDEFINED,
            each.verdict,
            _why(each),
        )
        for each in result.candidates
    )
    return Table(columns, rows, "Verdicts (MICROBENCHMARK): a candidate stops at its first failed gate")


def _why(candidate: CandidateResult) -> str:
    if candidate.skipped is not None:
        return candidate.skipped
    last = candidate.failed or candidate.gates[-1]
    return f"{last.name}: {last.says}"


def _section(candidate: CandidateResult) -> Section:
    key = f"{candidate.experiment}-{candidate.compiler_name}"
    parts: list[Part] = [Text(f"The candidate {candidate.says}.")]
    if candidate.sizes:
        parts += [_times(candidate), Text(_TIMES)]
        parts.extend(_beside(candidate))
    else:
        parts.append(Text(f"No times: {candidate.reasons.get('sizes', 'none were taken')}."))
    parts.append(Fold("Gates, in their order", (_gates(candidate.gates, _GATES),)))
    if candidate.in_library:
        parts.append(_gates(candidate.in_library, _IN_LIBRARY))
    parts.append(_code(candidate))
    parts.append(
        Facts(
            "How it was built",
            (
                ("compiler", candidate.compiler or candidate.compiler_name),
                ("flags", " ".join(candidate.flags)),
                ("sha256 of the library", candidate.library_sha256 or UNDEFINED),
            ),
        )
    )
    return Section(key=key, heading=_name(candidate), parts=tuple(parts))


def _times(candidate: CandidateResult) -> Table:
    columns = (
        Column("size (blocks)"), Column("kernel", is_number=False), Column("median (ns)"), Column("least (ns)"),
        Column("CV"), Column("baseline / candidate"), Column("95 % interval"),
        Column("bits as the baseline", is_number=False), Column("largest difference (relative)"),
    )  # fmt: skip
    rows = tuple(_time_row(size, kernel) for size in candidate.sizes for kernel in size.kernels)
    first = candidate.sizes[0]
    repetitions = len(first.kernels[0].nanoseconds)
    calls = ", ".join(f"{size.calls:,} at {size.size}" for size in candidate.sizes)
    caption = (
        f"Time of one call (MICROBENCHMARK): {repetitions} repetitions in turns, {first.warm_ups:,} calls to warm up, "
        f"calls a repetition: {calls}"
    )
    return Table(columns, rows, caption)


def _time_row(size: TimedSize, kernel: TimedKernel) -> tuple[str, ...]:
    figures = kernel.figures
    is_candidate = kernel.role == "candidate"
    return (
        written(size.size, Unit.COUNT),
        kernel.label,
        f"{figures.median_ns:,.1f}",
        f"{figures.least_ns:,.1f}",
        UNDEFINED if figures.cv is None else f"{100 * figures.cv:.2f} %",
        f"{size.ratio.value:.3f}" if is_candidate else "",
        f"{size.ratio.low:.3f} to {size.ratio.high:.3f}" if is_candidate else "",
        "yes" if kernel.equal_bits else "no",
        f"{kernel.largest_difference:.2g}",
    )


def _beside(candidate: CandidateResult) -> Iterator[Text]:
    if any(kernel.role == "ggml" for size in candidate.sizes for kernel in size.kernels):
        yield Text(
            "Rows named ggml are the same operation as the library in use performs it, with its own instruction sets "
            "and flags: they are timed beside the others and take no part in any ratio."
        )
    elif "ggml" in candidate.reasons:
        yield Text(f"ggml's own kernels are not beside them: {candidate.reasons['ggml']}.")


def _gates(gates: tuple[GateRow, ...], caption: str) -> Table:
    columns = (
        Column("gate", is_number=False),
        Column("result", is_number=False),
        Column("what was compared", is_number=False),
    )
    rows = tuple((gate.name, "passed" if gate.passed else "failed", gate.says) for gate in gates)
    return Table(columns, rows, caption)


def _code(candidate: CandidateResult) -> Part:
    if candidate.code is None:
        return Text(f"No comparison of the instructions: {candidate.reasons.get('code', 'it was not made')}.")
    return code_table((candidate.code,), "Instructions of baseline and candidate (compiled code, not a time)")


def _origin(result: KernelsResult) -> Section:
    library = result.environment.library
    files = () if library is None else tuple((file.name, f"sha256 {file.sha256}") for file in library.files)
    return Section(
        key="origin",
        heading="Where this comes from",
        parts=(
            Facts(
                "Run", (("format", result.schema_version), ("evidence", result.evidence.value), *run_rows(result.run))
            ),
            Facts("Machine", machine_rows(result.environment.machine)),
            Facts("llama.cpp in use", files or (("none", result.environment.reasons.get("library", UNDEFINED)),)),
            Facts("Sources of the kernels", tuple((name, f"sha256 {sha}") for name, sha in result.sources.items())),
            Facts(
                "Statistics",
                (("seed", str(result.seed)), ("resamples of each interval", f"{result.resamples:,}")),
            ),
        ),
    )
