"""Backends that take the time that a formula says, on a clock that only they move."""

import threading

from arriero.backend.synthetic import SyntheticBackend, SyntheticOptions
from arriero.backend.synthetic_memory import SyntheticStore

BASE_S = 0.004
ROW_S = 0.0005


class Stopwatch:
    """Nanoseconds that pass while a synthetic backend pretends to compute."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now

    def pause(self, event: threading.Event, seconds: float) -> bool:
        self.now += round(seconds * 1e9)
        return event.is_set()


def synthetic(
    clock: Stopwatch, *, num_sequences: int = 4, unified: bool = False, store: SyntheticStore | None = None,
    tokens: int = 512, speed: float = 1.0,
) -> SyntheticBackend:  # fmt: skip
    options = SyntheticOptions(
        num_sequences=num_sequences,
        num_rows=256,
        micro_batch=256,
        num_cells=tokens * num_sequences,
        unified=unified,
        base_s=BASE_S * speed,
        per_row_s=ROW_S * speed,
    )
    return SyntheticBackend(options, pause=clock.pause, store=store)
