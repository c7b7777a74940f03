"""Bounds on quality."""

import pytest

from arriero.core.errors import ConfigError
from arriero.lab.recommend.bounds import parse_bounds, refusal
from arriero.record.bench_parts import Evidence
from arriero.record.cpu_lab.analysis import Quality


def quality(
    kl: float | None = 0.04,
    ratio: float | None = 1.01,
    agreement: float | None = 0.5,
    ends: tuple[float, float] | None = None,
) -> Quality:
    return Quality(
        reference="f16", kl_mean=kl, kl_high=ends and ends[0], perplexity=10.0, perplexity_ratio=ratio,
        perplexity_ratio_high=ends and ends[1], agreement=agreement, evidence=Evidence.MEASURED,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("texts", "found", "reason"),
    [
        ((), quality(), None),
        ((), quality(ratio=1.03), "perplexity ratio 1.03 is above 1.02"),
        ((), quality(ratio=None), "perplexity ratio was not measured"),
        (("kl=0.05",), quality(), None),
        (("kl=0.05",), quality(kl=0.2), "mean KL divergence 0.2 is above 0.05"),
        (("kl=0.04",), quality(), None),
        (("kl=0.05",), quality(ends=(0.05, 1.02)), None),
        (("kl=0.05",), quality(ends=(0.06, 1.02)),
         "mean KL divergence 0.04 may be up to 0.06, above 0.05; score more text, or allow more"),
        ((), quality(ends=(0.06, 1.03)),
         "perplexity ratio 1.01 may be up to 1.03, above 1.02; score more text, or allow more"),
        (("agreement=0.8",), quality(), "share of the same answers 0.5 is below 0.8"),
        (("kl=0.01", "agreement=0.8"), quality(agreement=None),
         "mean KL divergence 0.04 is above 0.01; share of the same answers was not measured"),
        ((), None, "nothing says how good its answers are"),
        (("none",), None, None),
        (("none",), quality(kl=9.0), None),
    ],
)  # fmt: skip
def test_what_misses_a_bound_is_refused_with_the_figure(
    texts: tuple[str, ...], found: Quality | None, reason: str | None
) -> None:
    assert refusal(found, parse_bounds(texts)) == reason


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (("speed=2",), "no such bound; use kl=X, perplexity=X, agreement=X or none"),
        (("kl=low",), "--quality-bound kl=low: "),
        (("kl",), "--quality-bound kl: "),
        (("none", "kl=1"), "takes no other bound beside it"),
    ],
)
def test_a_bound_that_cannot_be_is_told_in_one_line(texts: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_bounds(texts)


def test_bounds_are_said_in_words() -> None:
    found = parse_bounds(("kl=0.05", "agreement=0.8"))
    assert found is not None
    assert [bound.words for bound in found] == [
        "mean KL divergence at most 0.05",
        "share of the same answers at least 0.8",
    ]
