"""Screening: the numbers of threads that look best for each file; what looks best is not yet believed."""

from collections.abc import Iterable, Sequence

from arriero.lab.recommend.rounds import RecommendRecord, Stage
from arriero.metrics.spread import Spread, spread
from arriero.record.cpu_lab.recommendation import CandidateFile, Counts, Mix, Screened
from arriero.record.cpu_lab.run_log import Status


def screen(
    records: Iterable[RecommendRecord], files: Sequence[CandidateFile], counts: Sequence[int]
) -> tuple[Screened, ...]:
    """The figures of the first rounds, by file, then by number of threads."""
    rates: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for record in records:
        result = record.result
        if record.stage is not Stage.SCREENING or record.status is not Status.SUCCESS or result is None:
            continue
        prefill, decode = result.prompt_tokens_per_s, result.generated_tokens_per_s
        if prefill and decode:
            rates.setdefault((record.file, record.counts.decode), []).append((prefill, decode))
    return tuple(
        Screened(
            file=file.name,
            threads=number,
            prefill=_spread([rate for rate, _ in rates.get((file.name, number), [])]),
            decode=_spread([rate for _, rate in rates.get((file.name, number), [])]),
        )
        for file in files
        for number in counts
    )


def best_counts(screened: Iterable[Screened], file: str, present: Counts, mix: Mix) -> Counts:
    """The numbers with the highest median rates; the present ones where nothing was measured, or at a tie.

    Steps of several requests have several rows, so both phases are computed with the second number then: there is one
    question instead of two.
    """
    own = [each for each in screened if each.file == file]
    prefill = {each.threads: each.prefill.median for each in own if each.prefill is not None}
    decode = {each.threads: each.decode.median for each in own if each.decode is not None}
    if not prefill or not decode:
        return present
    if mix.requests > 1:
        both = {threads: mix.seconds(prefill[threads], decode[threads]) for threads in prefill if threads in decode}
        best = min(both, key=lambda threads: (both[threads], threads != present.prefill, threads))
        return Counts(decode=best, prefill=best)
    return Counts(
        decode=max(decode, key=lambda threads: (decode[threads], threads == present.decode, -threads)),
        prefill=max(prefill, key=lambda threads: (prefill[threads], threads == present.prefill, -threads)),
    )


def expected_seconds(screened: Iterable[Screened], file: str, counts: Counts, mix: Mix) -> float | None:
    """What the objective would be with a pair of numbers; None where one of them was not measured."""
    by_threads = {each.threads: each for each in screened if each.file == file}
    many = by_threads.get(counts.prefill)
    one = many if mix.requests > 1 else by_threads.get(counts.decode)
    if one is None or many is None or one.decode is None or many.prefill is None:
        return None
    return mix.seconds(many.prefill.median, one.decode.median)


def _spread(values: Sequence[float]) -> Spread | None:
    return spread(values) if values else None
