"""Backends that differ in their number of threads only; these need no model. Those of a model: `calibrate_llama.py`."""

import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from arriero.backend.protocol import Backend
from arriero.backend.synthetic import SyntheticBackend
from arriero.backend.synthetic_memory import SyntheticStore
from arriero.cli.fingerprints import formula_fingerprint
from arriero.cli.loading import SYNTHETIC, formula_options
from arriero.core.config import ServeConfig
from arriero.record.cost_profile import Fingerprint


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """What is measured.

    Attributes:
        name: of the model.
        backends: empty, by number of threads.
        library: what computes, with its version.
        fingerprint: what has to be equal for the costs to hold.
        clock: the nanoseconds in which the backends take their time.
    """

    name: str
    backends: Mapping[int, Backend]
    library: str
    fingerprint: Fingerprint
    clock: Callable[[], int] = time.perf_counter_ns


class _Pretence:
    """Nanoseconds that pass only while a formula pretends to compute.

    A wait that is really waited ends late by what the machine does meanwhile, so a busy one would be told in the
    profile of a formula that knows no machine.
    """

    def __init__(self) -> None:
        self._now = 0

    def __call__(self) -> int:
        return self._now

    def pause(self, event: threading.Event, seconds: float) -> bool:
        self._now += round(seconds * 1e9)
        return event.is_set()


@contextmanager
def open_backends(config: ServeConfig, counts: Sequence[int]) -> Generator[Opened]:
    """The formula of `--backend synthetic`; its threads are a pretence, and so is the time that passes.

    Raises:
        ConfigError: the options cannot work together.
    """
    options = formula_options(config, num_sequences=config.sequences)
    clock = _Pretence()
    with ExitStack() as stack:
        backends: dict[int, Backend] = {}
        for number in counts:
            backends[number] = SyntheticBackend(options, pause=clock.pause, store=SyntheticStore())
            stack.callback(backends[number].close)
        yield Opened(
            name=SYNTHETIC,
            backends=backends,
            library="none",
            fingerprint=formula_fingerprint(config),
            clock=clock,
        )
