"""Rates of a client's run over one stretch of time: offered, served, tokens, prompts, goodput."""

from collections.abc import Iterable, Sequence
from typing import Final

from arriero.metrics import client_latency as of
from arriero.metrics.client_figures import ClientSlos, Rates
from arriero.metrics.client_life import ClientLife
from arriero.metrics.definitions_parts import Definitions
from arriero.metrics.window import Window

_NS_PER_S: Final = 1_000_000_000
_EMPTY: Final = "the window is empty"
_UNTOLD: Final = "{} of {} requests whose first token lies in the window come without the server's count"


def rates(lives: Sequence[ClientLife], span: Window, slos: ClientSlos | None, definitions: Definitions) -> Rates:
    """All rates over a stretch.

    Args:
        lives: due requests without warm-ups.
        span: the stretch; both ends belong to it.
        slos: objectives; None leaves goodput out.
        definitions: which ends, tokens and requests count.
    """
    ended = [life for life in lives if life.outcome.is_normal and span.holds(definitions.ends_at(life))]
    amounts: dict[str, int | str] = {
        "offered_per_s": sum(span.holds(life.arrival_at) for life in lives),
        "requests_per_s": len(ended),
        "output_tokens_per_s": _output_tokens(lives, ended, span, definitions),
        **_prompts([life for life in lives if span.holds(of.first_at(life))]),
        **_good(ended, slos, definitions),
    }
    figures: dict[str, float | None] = dict.fromkeys(amounts)
    reasons: dict[str, str] = {}
    for name, amount in amounts.items():
        if isinstance(amount, str):
            reasons[name] = amount
        elif span.length:
            figures[name] = amount * _NS_PER_S / span.length
        else:
            reasons[name] = _EMPTY
    return Rates(begins_at=span.begins_at, ends_at=span.ends_at, reasons=dict(sorted(reasons.items())), **figures)


def _output_tokens(
    lives: Iterable[ClientLife], ended: Iterable[ClientLife], span: Window, definitions: Definitions
) -> int:
    if definitions.counts_partial:
        return sum(span.count(of.token_at(life)) for life in lives)
    return sum(of.num_tokens(life) for life in ended)


def _prompts(lives: Sequence[ClientLife]) -> dict[str, int | str]:
    """Prompt tokens, computed and cached apart; a word where the server does not say."""
    prompts = [life.asked_prompt_tokens if life.prompt_tokens is None else life.prompt_tokens for life in lives]
    cached = [life.cached_tokens for life in lives]
    total = _sum_or_reason(prompts)
    from_cache = _sum_or_reason(cached)
    computed = from_cache if isinstance(from_cache, str) else total if isinstance(total, str) else total - from_cache
    return {"prompt_tokens_per_s": total, "prompt_computed_per_s": computed, "prompt_cached_per_s": from_cache}


def _sum_or_reason(counts: Sequence[int | None]) -> int | str:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else _UNTOLD.format(len(counts) - len(known), len(counts))


def _good(ended: Sequence[ClientLife], slos: ClientSlos | None, definitions: Definitions) -> dict[str, int | str]:
    names = "good_requests_per_s", "good_tokens_per_s"
    if definitions.is_good is None:
        return dict.fromkeys(names, f"{definitions.version} has no goodput")
    if slos is None:
        return dict.fromkeys(names, "no objectives were set")
    good = [life for life in ended if definitions.is_good(life, slos)]
    return dict(zip(names, (len(good), sum(map(of.num_tokens, good))), strict=True))
