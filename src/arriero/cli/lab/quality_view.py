"""What `arriero lab quality` prints: what the reference is worth, then one line a file."""

from collections.abc import Iterator
from typing import Any

import msgspec

from arriero.record.cpu_lab.model_facts import ModelFacts
from arriero.record.cpu_lab.quality import QualityResult
from arriero.record.cpu_lab.quality_figures import Candidate, Estimate


def lines_of(result: QualityResult) -> Iterator[str]:
    """The figures as text."""
    settings, reference = result.settings, result.reference
    windowing = settings.windowing
    yield (
        f"{result.evidence.value}: {windowing.num_windows} windows of {windowing.window} tokens of "
        f"{settings.text.file}, {windowing.num_windows * windowing.num_scored} tokens scored; intervals: "
        f"{settings.confidence:.0%}, bootstrap over windows"
    )
    yield f"reference: {reference.origin.words}"
    if reference.origin.note is not None:
        yield f"reference, as you say: {reference.origin.note}"
    yield (
        f"{'file':<34} {'perplexity':>24} {'ratio':>24} {'mean KL, nats':>28} {'p99 KL':>8} {'same top':>9} "
        f"{'answers':>7}"
    )
    yield f"{reference.model.file:<34} {_shown(reference.perplexity.value, 3):>24}"
    for candidate in result.candidates:
        yield _line(candidate)
    for candidate in result.candidates:
        if not candidate.reference_repeats:
            yield f"{candidate.model.file}: beside it the reference gave other bits than alone"
    if result.status != "completed":
        yield f"{result.status.value}: not all files are in it; go on with --resume"


def json_of(result: QualityResult) -> str:
    """The figures without the scores of single tokens, as one JSON object."""
    reference = result.reference
    shown = {
        "schema_version": result.schema_version,
        "evidence": result.evidence,
        "status": result.status,
        "settings": result.settings,
        "reference": {
            **_model(reference.model), "origin": reference.origin, "perplexity": reference.perplexity,
        },
        "candidates": [
            {
                **_model(each.model),
                "perplexity": each.perplexity,
                "ratio": each.ratio,
                "divergence": each.divergence,
                "agreement": each.agreement,
                "reference_repeats": each.reference_repeats,
            }
            for each in result.candidates
        ],
    }  # fmt: skip
    return msgspec.json.format(msgspec.json.encode(shown), indent=2).decode()


def _model(model: ModelFacts) -> dict[str, Any]:
    return {"file": model.file, "sha256": model.sha256, "bytes": model.bytes, "format": model.declared_format}


def _line(candidate: Candidate) -> str:
    found, agreement = candidate.divergence, candidate.agreement
    same = (
        "-" if agreement is None else f"{sum(match.normalised for match in agreement.matches)}/{len(agreement.matches)}"
    )
    return (
        f"{candidate.model.file:<34} {_shown(candidate.perplexity.value, 3):>24} {_shown(candidate.ratio, 4):>24} "
        f"{_shown(found.mean, 6):>28} {found.p99.value:>8.4f} {found.same_top.value:>9.1%} {same:>7}"
    )


def _shown(estimate: Estimate, digits: int) -> str:
    return f"{estimate.value:.{digits}f} [{estimate.low:.{digits}f}, {estimate.high:.{digits}f}]"
