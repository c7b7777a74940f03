"""From a quality result to what stands beside each model file, found by the hash of its content."""

from collections.abc import Mapping

from arriero.record.bench_parts import Evidence
from arriero.record.cpu_lab.analysis import Quality
from arriero.record.cpu_lab.quality import QualityResult


def qualities_of(result: QualityResult) -> Mapping[str, Quality]:
    """SHA-256 of a file -> its quality; the reference agrees with itself by definition."""
    reference = result.reference
    name = reference.model.file
    found = {
        reference.model.sha256: Quality(
            reference=name,
            kl_mean=0.0,
            kl_high=0.0,
            perplexity=reference.perplexity.value.value,
            perplexity_ratio=1.0,
            perplexity_ratio_high=1.0,
            agreement=1.0 if reference.answers else None,
            evidence=Evidence.MEASURED,
        )
    }
    for candidate in result.candidates:
        agreement = candidate.agreement
        found[candidate.model.sha256] = Quality(
            reference=name,
            kl_mean=candidate.divergence.mean.value,
            kl_high=candidate.divergence.mean.high,
            perplexity=candidate.perplexity.value.value,
            perplexity_ratio=candidate.ratio.value,
            perplexity_ratio_high=candidate.ratio.high,
            agreement=None if agreement is None else agreement.share_normalised,
            evidence=Evidence.MEASURED,
        )
    return found


def source_of(result: QualityResult, file: str) -> dict[str, str]:
    """What a reader of the quality columns must know, in words."""
    settings = result.settings
    reference = result.reference
    facts = {
        "file": file,
        "evidence": result.evidence.value,
        "status": result.status.value,
        "reference": f"{reference.model.file}, sha256 {reference.model.sha256}",
        "of the reference": reference.origin.words,
        "text": f"{settings.text.file}, {settings.text.num_tokens:,} tokens, sha256 {settings.text.sha256}",
        "scored": f"{settings.windowing.num_windows} windows of {settings.windowing.num_scored} tokens",
    }
    return facts if reference.origin.note is None else {**facts, "note": reference.origin.note}
