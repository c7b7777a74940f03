"""Bounds on quality: which files may be recommended at all.

kl=0.05            mean KL divergence from the reference, nats, at most
perplexity=1.02    perplexity / that of the reference, at most
agreement=0.8      share of the same greedy answers, at least
none               anything goes; whoever says so has looked
"""

from collections.abc import Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from arriero.core.errors import ConfigError
from arriero.core.option_kinds import BadValue, Real
from arriero.record.cpu_lab.analysis import Quality

NONE: Final = "none"
DEFAULT: Final = "perplexity=1.02"


class _Measure(NamedTuple):
    field: str
    end: str | None  # the field with the unfavourable end of its interval
    words: str
    is_most: bool  # the bound is the highest value, else the lowest


_MEASURES: Final = MappingProxyType({
    "kl": _Measure("kl_mean", "kl_high", "mean KL divergence", is_most=True),
    "perplexity": _Measure("perplexity_ratio", "perplexity_ratio_high", "perplexity ratio", is_most=True),
    "agreement": _Measure("agreement", None, "share of the same answers", is_most=False),
})


class Bound(NamedTuple):
    """One bound."""

    name: str
    value: float

    @property
    def words(self) -> str:
        """As a person reads it."""
        measure = _MEASURES[self.name]
        return f"{measure.words} {'at most' if measure.is_most else 'at least'} {self.value:g}"

    def missed_by(self, quality: Quality) -> str | None:
        """Why a file may not be recommended, or None."""
        measure = _MEASURES[self.name]
        value: float | None = getattr(quality, measure.field)
        if value is None:
            return f"{measure.words} was not measured"
        end: float | None = None if measure.end is None else getattr(quality, measure.end)
        side = "above" if measure.is_most else "below"
        if value > self.value if measure.is_most else value < self.value:
            return f"{measure.words} {value:.4g} is {side} {self.value:g}"
        if end is not None and end > self.value:
            what = f"{measure.words} {value:.4g} may be up to {end:.4g}, {side} {self.value:g}"
            return f"{what}; score more text, or allow more"
        return None


def parse_bounds(texts: Sequence[str]) -> tuple[Bound, ...] | None:
    """What was asked for; None where anything goes, the default where nothing was said.

    Raises:
        ConfigError: names the flag and the remedy.
    """
    if NONE in texts:
        if len(texts) > 1:
            raise ConfigError("--quality-bound none: takes no other bound beside it; leave out one of the two")
        return None
    return tuple(_bound(text) for text in texts or (DEFAULT,))


def refusal(quality: Quality | None, bounds: Sequence[Bound] | None) -> str | None:
    """Why a file may not be recommended, or None."""
    if bounds is None:
        return None
    if quality is None:
        return "nothing says how good its answers are"
    missed = [reason for bound in bounds if (reason := bound.missed_by(quality)) is not None]
    return "; ".join(missed) or None


def _bound(text: str) -> Bound:
    name, _, number = text.partition("=")
    if name not in _MEASURES:
        names = ", ".join(f"{each}=X" for each in _MEASURES)
        raise ConfigError(f"--quality-bound {text}: no such bound; use {names} or none")
    try:
        return Bound(name, Real().parse(number))
    except BadValue as error:
        raise ConfigError(f"--quality-bound {text}: {error}") from None
