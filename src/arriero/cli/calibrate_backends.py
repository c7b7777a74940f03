"""Backends that differ in their number of threads only; these need no model. Those of a model: `calibrate_llama.py`."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from arriero.backend.protocol import Backend
from arriero.backend.synthetic import SyntheticBackend, SyntheticOptions
from arriero.backend.synthetic_memory import SyntheticStore
from arriero.cli.loading import SYNTHETIC_ROW_S, SYNTHETIC_STEP_S
from arriero.core.config import KvLayout, ServeConfig
from arriero.record.machine import machine_facts
from arriero.tokens.vocabulary import ByteVocabulary


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """What is measured, and the facts that make its fingerprint.

    Attributes:
        name: of the model.
        backends: empty, by number of threads.
        library: what computes, with its version.
        machine: where it computes, as words.
        model: what it is, as words.
        context: how its context is made, as words.
    """

    name: str
    backends: Mapping[int, Backend]
    library: str
    machine: dict[str, str]
    model: dict[str, str]
    context: dict[str, str]


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
        yield Opened(
            name="synthetic",
            backends=backends,
            library="none",
            machine=machine_words(),
            model={"kind": "a formula"},
            context=context_words(config),
        )


def machine_words() -> dict[str, str]:
    """What makes a machine as fast as it is."""
    facts = machine_facts()
    return {
        "cpu": facts.cpu or "unknown",
        "cores": str(facts.cores),
        "cgroup limit": "none" if facts.cgroup_cores is None else f"{facts.cgroup_cores:g} cores",
    }


def context_words(config: ServeConfig) -> dict[str, str]:
    """How the context is made; what only bounds it is in the range of the profile."""
    return {
        "KV layout": str(config.kv),
        "KV type": str(config.kv_type),
        "flash attention": str(config.flash_attn),
        "layers on a GPU": str(config.n_gpu_layers),
    }
