"""The document of a recommendation: what to use, how sure that is, and everything it rests on."""

from collections.abc import Iterator, Mapping
from typing import Final

from arriero.core.version import VERSION
from arriero.record.cpu_lab.recommendation import CandidateFile, Judgement, RecommendationRun
from arriero.report.cpu_lab.cells import cv_of, number, percent, with_end
from arriero.report.document import (
    Alert,
    Badge,
    Column,
    Document,
    Facts,
    Level,
    Part,
    Picture,
    Section,
    Table,
    Text,
    present,
)
from arriero.report.written import UNDEFINED

MADE_BY: Final = f"Made by arriero {VERSION}."
_HOW: Final = (
    (
        "The objective is the time of one request of the stated mix, computed alone: prompt tokens / prefill rate + "
        "generated tokens / decode rate. The first rounds pick a candidate; the later ones, in which every setting "
        "comes once in a drawn order and in the reverse of it, judge it against what is used now."
    ),
    (
        "A ratio is of seconds, the median over rounds; below 1 the candidate is faster. It is believed if the "
        "interval lies below 1 and the median outside the noise floor, which is what the present setting differs from "
        "itself by in the same rounds. With several questions each interval is wider, so that all verdicts together "
        "are wrong in at most 5 % of runs without any difference. Not resolved keeps what is there."
    ),
    (
        "llama.cpp computes passes of one row with the first number of threads and all others with the second. It was "
        "measured alone, one request at a time: a server that decodes for many at once computes mostly with the "
        "second. The recommendation holds for this machine, this build and these files, and is used for no others."
    ),
)


def recommend_document(run: RecommendationRun, pictures: Mapping[str, Picture]) -> Document:
    """Everything about one run; pictures that are missing are left out."""
    sections = (
        Section(key="verdicts", heading="Verdicts", parts=present([_verdict_table(run), *_reasons(run)])),
        Section(key="files", heading="Model files", parts=present([pictures.get("recommend-files"), _file_table(run)])),
        Section(key="screening", heading="First rounds", parts=present([
            pictures.get("recommend-threads"), _screening_table(run),
        ])),
        Section(key="sources", heading="Where this comes from", parts=(Facts("Run", _run_rows(run)),
                                                                       Facts("Machine", tuple(run.machine.items())))),
        Section(key="reading", heading="How to read this", parts=tuple(map(Text, _HOW))),
    )  # fmt: skip
    return Document(
        title=f"Recommendation: {run.file(run.best).weights}, {run.choice(run.best).counts.words} threads",
        badges=(Badge(Level.NOTE, run.evidence.value),),
        lead=tuple(_lead(run)),
        sections=sections,
        made_by=MADE_BY,
    )


def _lead(run: RecommendationRun) -> Iterator[Part]:
    counts = run.choice(run.best).counts
    yield Text(f"For {run.mix.words}: `{run.best}` with `--threads {counts.words}`.")
    if run.busy is not None:
        yield Alert(Level.BAD, f"Doubtful: {run.busy}.")
    judgements = list(_judgements(run))
    if not any(judged.is_better for judged in judgements):
        yield Alert(Level.NOTE, "Nothing was faster beyond the noise, so this is what a server does anyway.")
    if run.failures:
        words = "1 run failed; it is" if run.failures == 1 else f"{run.failures} runs failed; they are"
        yield Alert(Level.WARNING, f"{words} in the log and in no figure.")


def _judgements(run: RecommendationRun) -> Iterator[Judgement]:
    yield from (choice.judged for choice in run.choices if choice.judged is not None)
    if run.judged is not None:
        yield run.judged


def _verdict_table(run: RecommendationRun) -> Table:
    named = [(choice.file, choice.judged) for choice in run.choices if choice.judged is not None]
    if run.judged is not None:
        named.append(("file", run.judged))
    rows = tuple(
        (
            name,
            judged.baseline,
            judged.candidate,
            number(judged.ratio, ".4f"),
            UNDEFINED if judged.low is None or judged.high is None else f"{judged.low:.4f} to {judged.high:.4f}",
            percent(judged.floor),
            percent(judged.confidence, ".1f"),
            f"{judged.num_pairs}",
            "faster" if judged.is_better else judged.verdict.replace("_", " "),
        )
        for name, judged in named
    )
    heads = (
        Column("about", is_number=False), Column("now", is_number=False), Column("candidate", is_number=False),
        Column("seconds, candidate / now"), Column("interval"), Column("noise floor"), Column("confidence"),
        Column("pairs"), Column("verdict", is_number=False),
    )  # fmt: skip
    return Table(heads, rows, f"Candidates against what is used now ({run.evidence.value})")


def _reasons(run: RecommendationRun) -> Iterator[Part]:
    for judged in _judgements(run):
        for reason in judged.reasons:
            yield Text(f"{judged.candidate}: {reason}.")


def _file_table(run: RecommendationRun) -> Table:
    heads = (
        Column("file", is_number=False), Column("format", is_number=False), Column("MB"), Column("KL (nats)"),
        Column("perplexity / reference"), Column("same answers"), Column("best threads", is_number=False),
        Column("status", is_number=False), Column("sha256", is_number=False, is_small=True),
    )  # fmt: skip
    chosen = {choice.file: choice.counts.words for choice in run.choices}
    rows = tuple(_file_row(run, file, chosen) for file in run.files)
    caption = f"Files; quality had to keep: {'; '.join(run.bounds)} ({run.evidence.value})"
    return Table(heads, rows, caption)


def _file_row(run: RecommendationRun, file: CandidateFile, chosen: Mapping[str, str]) -> tuple[str, ...]:
    quality = file.quality
    words = ["recommended"] * (file.name == run.best) + ["used now"] * file.is_present
    if file.refused is not None:
        words.append(f"not considered: {file.refused}")
    return (
        file.name,
        file.weights,
        number(file.num_bytes / 1e6, ",.1f"),
        UNDEFINED if quality is None else with_end(quality.kl_mean, quality.kl_high),
        UNDEFINED if quality is None else with_end(quality.perplexity_ratio, quality.perplexity_ratio_high),
        percent(None if quality is None else quality.agreement, ".0f"),
        chosen.get(file.name, UNDEFINED),
        ", ".join(words),
        file.sha256[:12],
    )


def _screening_table(run: RecommendationRun) -> Table:
    rows = tuple(
        (
            each.file,
            f"{each.threads}",
            number(None if each.prefill is None else each.prefill.mean),
            cv_of(each.prefill),
            number(None if each.decode is None else each.decode.mean),
            cv_of(each.decode),
            f"{0 if each.prefill is None else each.prefill.n}",
        )
        for each in run.screened
    )
    heads = (
        Column("file", is_number=False), Column("threads"), Column("prefill (tokens/s)"), Column("CV"),
        Column("decode (tokens/s)"), Column("CV"), Column("n"),
    )  # fmt: skip
    return Table(heads, rows, f"Mean rates of the first rounds, which only pick candidates ({run.evidence.value})")


def _run_rows(run: RecommendationRun) -> tuple[tuple[str, str], ...]:
    return (
        ("run", run.run_id),
        ("made at", run.made_at),
        ("arriero", run.arriero),
        ("rounds", f"{run.num_rounds[0]} to pick, {run.num_rounds[1]} to judge"),
        ("threads without a recommendation", run.present.words),
        ("failed runs", f"{run.failures}"),
    )
