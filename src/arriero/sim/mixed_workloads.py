"""The seven published workloads of the mixed-decode simulator, float milliseconds."""

import random
from collections.abc import Callable
from types import MappingProxyType
from typing import Final, NamedTuple

from arriero.core.errors import ConfigError
from arriero.metrics.mixed_decode import MixedRequest

SIZES: Final = ("short", "medium", "long")
_TOKENS: Final = MappingProxyType({"short": (16, 8), "medium": (128, 64), "long": (1024, 256)})
"""Label → prompt and decode tokens, where both grow."""

REALISTIC: Final = "mixed_realistic"


class _Window(NamedTuple):
    start_ms: float
    end_ms: float
    rate_per_s: float
    weights: dict[str, float]


_WINDOWS: Final = (
    _Window(0.0, 1000.0, 50.0, {"short": 0.8, "medium": 0.2, "long": 0.0}),
    _Window(1000.0, 3000.0, 20.0, {"short": 0.4, "medium": 0.5, "long": 0.1}),
    _Window(3000.0, 5000.0, 5.0, {"short": 0.2, "medium": 0.3, "long": 0.5}),
)


def mixed_workload(name: str, *, cap: int | None = None, seed: int = 42) -> tuple[MixedRequest, ...]:
    """A workload by its published name; `cap` cuts it, and only `mixed_realistic` draws from the seed.

    Raises:
        ConfigError: there is no such workload.
    """
    if name == REALISTIC:
        return _realistic(seed, 50 if cap is None else cap)
    if name not in _FIXED:
        raise ConfigError(f"--workload {name}: no such workload; use {', '.join(NAMES)}")
    return tuple(_FIXED[name]()[:cap])


def _all_short() -> list[MixedRequest]:
    return [MixedRequest(i, 0.0, 6, 8, "all_short") for i in range(200)]


def _staggered() -> list[MixedRequest]:
    return [MixedRequest(i, 5.0 * i, 6, 8, "all_short") for i in range(99)]


def _decode_only() -> list[MixedRequest]:
    return [MixedRequest(i, 0.0, 6, _TOKENS[SIZES[i % 3]][1], SIZES[i % 3]) for i in range(99)]


def _prompt_only() -> list[MixedRequest]:
    return [MixedRequest(i, 0.0, _TOKENS[SIZES[i % 3]][0], 8, SIZES[i % 3]) for i in range(99)]


def _prompt_and_decode() -> list[MixedRequest]:
    return [MixedRequest(i, 0.0, *_TOKENS[SIZES[i % 3]], SIZES[i % 3]) for i in range(99)]


def _bursty() -> list[MixedRequest]:
    return [request._replace(arrival_ms=500.0 * (i // 33)) for i, request in enumerate(_prompt_and_decode())]


def _realistic(seed: int, cap: int) -> tuple[MixedRequest, ...]:
    rng = random.Random(seed)
    found: list[MixedRequest] = []
    for window in _WINDOWS:
        now = max(window.start_ms, found[-1].arrival_ms if found else 0.0)
        names = sorted(window.weights)
        weights = [window.weights[name] for name in names]
        while now < window.end_ms and len(found) < cap:
            now += rng.expovariate(window.rate_per_s / 1000)
            if now >= window.end_ms:
                break
            label = rng.choices(names, weights, k=1)[0]
            found.append(MixedRequest(len(found), now, *_TOKENS[label], label))
    return tuple(found)


_FIXED: Final[MappingProxyType[str, Callable[[], list[MixedRequest]]]] = MappingProxyType({
    "exp11_like_all_short": _all_short,
    "staggered_identical_short": _staggered,
    "mixed_decode_only": _decode_only,
    "mixed_prompt_only": _prompt_only,
    "mixed_prompt_and_decode": _prompt_and_decode,
    "bursty_mixed_deterministic": _bursty,
})

NAMES: Final = (*_FIXED, REALISTIC)
