"""Sections of a quality report: first what the reference is worth, then the figures, then everything behind them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from arriero.core.version import VERSION
from arriero.record.cpu_lab.model_facts import ModelFacts
from arriero.record.cpu_lab.quality import QualityResult, QualityStatus
from arriero.record.cpu_lab.quality_figures import Candidate, Estimate, OriginKind
from arriero.report.bench_facts import machine_rows, run_rows
from arriero.report.cpu_lab.quality_plots import DIVERGENCE, PERPLEXITY
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
_LEVELS: Final = MappingProxyType({
    OriginKind.QUANTISED: Level.WARNING, OriginKind.REQUANTISED: Level.BAD, OriginKind.UNKNOWN: Level.NOTE,
})  # fmt: skip
_HOW: Final = (
    (
        "Perplexity is exp of the mean negative log-likelihood of the scored tokens; the first part of each window is "
        "context only. It depends on the text, the windows and the vocabulary: compare it within this table only."
    ),
    (
        "KL divergence compares whole next-token distributions with the reference's, token by token. It sees changes "
        "that perplexity does not, since gains on some tokens cannot hide losses on others."
    ),
    (
        "Intervals draw whole windows by chance, the same ones for both files. They speak of other windows of this "
        "kind of text, and not of other texts or tasks."
    ),
    (
        "Greedy agreement describes and does not judge: two answers part at the first near tie, and the rest follows "
        "from another beginning."
    ),
)


def quality_document(result: QualityResult, pictures: Mapping[str, Picture]) -> Document:
    """The whole report; pictures that are missing are left out."""
    reference = result.reference
    return Document(
        title=f"Quality against {reference.model.file}",
        badges=_badges(result),
        lead=_lead(result),
        sections=(
            Section(
                key="figures",
                heading="Perplexity",
                parts=present([pictures.get(PERPLEXITY), _perplexity_table(result)]),
            ),
            Section(
                key="divergence",
                heading="Divergence from the reference",
                parts=present([pictures.get(DIVERGENCE), _divergence_table(result)]),
            ),
            Section(key="answers", heading="Greedy answers", parts=_answers(result)),
            Section(key="reading", heading="How to read this", parts=tuple(map(Text, _HOW))),
            Section(key="behind", heading="Behind the figures", parts=_behind(result)),
        ),
        made_by=MADE_BY,
    )


def _badges(result: QualityResult) -> tuple[Badge, ...]:
    badges = [Badge(Level.NOTE, result.evidence.value)]
    if result.status is not QualityStatus.COMPLETED:
        badges.append(Badge(Level.WARNING, result.status.value))
    return tuple(badges)


def _lead(result: QualityResult) -> tuple[Part, ...]:
    origin = result.reference.origin
    found: list[Part] = [Alert(_LEVELS[origin.kind], f"{origin.words}.")]
    if origin.note is not None:
        found.append(Text(f"Of the reference, whoever measured it says: {origin.note}"))
    if result.status is not QualityStatus.COMPLETED:
        found.append(Alert(Level.WARNING, "The run has not ended: not all files are in it."))
    if result.settings.kv_type != "f16":
        found.append(Text(f"The files keep keys and values as {result.settings.kv_type}, the reference as f16."))
    unsteady = [each.model.file for each in result.candidates if not each.reference_repeats]
    if unsteady:
        found.append(Alert(Level.BAD, f"Beside {', '.join(unsteady)} the reference gave other bits than alone."))
    return tuple(found)


def _perplexity_table(result: QualityResult) -> Table:
    columns = (
        Column("file", is_number=False), Column("tensor types", is_number=False, is_small=True), Column("MB"),
        Column("perplexity"), Column("its interval"), Column("/ reference"), Column("its interval"),
        Column("differs", is_number=False),
    )  # fmt: skip
    reference = result.reference
    first = (*_file(reference.model), *_estimate(reference.perplexity.value, 3), UNDEFINED, UNDEFINED, "reference")
    rest = tuple(
        (
            *_file(each.model),
            *_estimate(each.perplexity.value, 3),
            *_estimate(each.ratio, 4),
            "yes" if each.resolved else "not resolved",
        )
        for each in result.candidates
    )
    windowing = result.settings.windowing
    caption = (
        f"Perplexity ({result.evidence.value}): {reference.perplexity.num_tokens:,} tokens in {windowing.num_windows} "
        f"windows, intervals of {100 * result.settings.confidence:.0f} %"
    )
    return Table(columns, (first, *rest), caption)


def _divergence_table(result: QualityResult) -> Table:
    columns = (
        Column("file", is_number=False), Column("mean"), Column("its interval"), Column("median"), Column("p90"),
        Column("p99"), Column("max"), Column("same first token"), Column("its interval"),
    )  # fmt: skip
    caption = f"KL(reference || file) of the next token, nats ({result.evidence.value})"
    return Table(columns, tuple(map(_divergence_row, result.candidates)), caption)


def _divergence_row(candidate: Candidate) -> tuple[str, ...]:
    found = candidate.divergence
    same = found.same_top
    return (
        candidate.model.file,
        *_estimate(found.mean, 5),
        *(f"{value:.5f}" for value in (found.median.value, found.p90.value, found.p99.value, found.max)),
        _percent(same.value, 1),
        f"{100 * same.low:.1f} to {_percent(same.high, 1)}",
    )


def _answers(result: QualityResult) -> tuple[Part, ...]:
    prompts = result.settings.prompts
    if prompts is None:
        return (Text("None were asked for."),)
    columns = (
        Column("file", is_number=False), Column("prompt", is_number=False), Column("exact", is_number=False),
        Column("normalised", is_number=False), Column("common tokens"), Column("tokens of the reference"),
        Column("length difference (characters)"),
    )  # fmt: skip
    rows = tuple(
        (
            each.model.file,
            match.prompt,
            _yes(match.exact),
            _yes(match.normalised),
            str(match.common_tokens),
            str(match.num_tokens),
            f"{match.length_difference:+d}",
        )
        for each in result.candidates
        if each.agreement is not None
        for match in each.agreement.matches
    )
    words = (
        f"{len(prompts.names)} prompts, chat template {prompts.template}, temperature 0, at most {prompts.max_tokens} "
        "tokens; against the reference's answers. Normalised leaves case, white space and forms of characters aside; "
        "common tokens are equal from the beginning."
    )
    return (Text(words), Table(columns, rows, f"Answers beside the reference's ({result.evidence.value})"))


def _behind(result: QualityResult) -> tuple[Part, ...]:
    settings, library = result.settings, result.environment.library
    windowing = settings.windowing
    measured = (
        ("text", f"{settings.text.file}, {settings.text.num_tokens:,} tokens, sha256 {settings.text.sha256}"),
        ("windows", f"{windowing.num_windows} of {windowing.window} tokens, {windowing.stride} apart"),
        ("scored", f"the last {windowing.num_scored} of each; {windowing.num_left_out} tokens of the text are not"),
        ("start token", "first in each window" if windowing.start_token else "none"),
        ("prompts", "none" if settings.prompts is None else f"sha256 {settings.prompts.sha256}"),
        ("threads", str(settings.threads)),
        ("flash attention", settings.flash_attention.value),
        ("KV type of the files", settings.kv_type.value),
        ("bootstrap", f"{settings.resamples:,} resamples of windows, seed {settings.seed}"),
    )
    models = (result.reference.model, *(each.model for each in result.candidates))
    files = tuple((model.file, f"{model.bytes:,} bytes, sha256 {model.sha256}") for model in models)
    hashes = () if library is None else tuple(library.hashes.items())
    return (
        Facts("Settings", measured),
        Facts("Model files", files),
        Facts("Run", run_rows(result.run)),
        Facts("Machine", machine_rows(result.environment.machine)),
        Facts("llama.cpp", (("binding", "unknown" if library is None else library.binding), *hashes)),
    )


def _file(model: ModelFacts) -> tuple[str, str, str]:
    types = ", ".join(f"{each.type} {_percent(each.bytes / model.tensor_bytes)}" for each in model.tensor_types)
    return model.file, types, f"{model.bytes / 1e6:,.1f}"


def _estimate(estimate: Estimate, digits: int) -> tuple[str, str]:
    return f"{estimate.value:.{digits}f}", f"{estimate.low:.{digits}f} to {estimate.high:.{digits}f}"


def _yes(value: object) -> str:
    return "yes" if value else "no"


def _percent(share: float, digits: int = 0) -> str:
    """A share that is not 0 is never shown as 0."""
    least = 10.0**-digits
    return f"<{least:g} %" if 0 < 100 * share < least / 2 else f"{100 * share:.{digits}f} %"
