"""Backends that differ in their number of threads only; these need no model. Those of a model: `calibrate_llama.py`."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from arriero.backend.protocol import Backend
from arriero.backend.synthetic import SyntheticBackend, SyntheticOptions
from arriero.backend.synthetic_memory import SyntheticStore
from arriero.cli.fingerprints import formula_fingerprint
from arriero.cli.loading import SYNTHETIC, SYNTHETIC_ROW_S, SYNTHETIC_STEP_S
from arriero.core.config import KvLayout, ServeConfig
from arriero.record.cost_profile import Fingerprint
from arriero.tokens.vocabulary import ByteVocabulary


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """What is measured.

    Attributes:
        name: of the model.
        backends: empty, by number of threads.
        library: what computes, with its version.
        fingerprint: what has to be equal for the costs to hold.
    """

    name: str
    backends: Mapping[int, Backend]
    library: str
    fingerprint: Fingerprint


@contextmanager
def open_backends(config: ServeConfig, counts: Sequence[int]) -> Generator[Opened]:
    """A formula that takes time as `--backend synthetic` does; its threads are a pretence.

    Raises:
        ConfigError: the options cannot work together.
    """
    vocabulary = ByteVocabulary()
    options = SyntheticOptions(
        num_sequences=config.sequences,
        num_rows=config.batch,
        micro_batch=config.micro_batch,
        num_cells=config.ctx_size,
        unified=config.kv is KvLayout.UNIFIED,
        vocab_size=vocabulary.size,
        end_tokens=vocabulary.end_tokens,
        base_s=SYNTHETIC_STEP_S,
        per_row_s=SYNTHETIC_ROW_S,
    )
    with ExitStack() as stack:
        backends: dict[int, Backend] = {}
        for number in counts:
            backends[number] = SyntheticBackend(options, store=SyntheticStore())
            stack.callback(backends[number].close)
        yield Opened(name=SYNTHETIC, backends=backends, library="none", fingerprint=formula_fingerprint(config))
