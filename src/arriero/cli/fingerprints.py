"""What has to be equal for a cost profile to hold, as words: of a machine, a context, and a formula.

A server and a calibration make their fingerprints here, so that the two can be compared. Words of a loaded model are
in `loading_llama.py`, as only that needs the binding.
"""

from typing import Final

from arriero.core.choices import FlashAttention
from arriero.core.config import ServeConfig
from arriero.record.cost_profile import Fingerprint
from arriero.record.machine import machine_facts

ATTENTION: Final = "flash attention"


def machine_words() -> dict[str, str]:
    """What makes a machine as fast as it is."""
    facts = machine_facts()
    return {
        "cpu": facts.cpu or "unknown",
        "cores": str(facts.cores),
        "cgroup limit": "none" if facts.cgroup_cores is None else f"{facts.cgroup_cores:g} cores",
    }


def context_words(config: ServeConfig, attention: FlashAttention) -> dict[str, str]:
    """How the context is made; what only bounds it is in the range of the profile.

    Args:
        config: of a server or a calibration.
        attention: as it was settled; `auto` where llama.cpp settles it.
    """
    return {
        "KV layout": str(config.kv),
        "KV type": str(config.kv_type),
        ATTENTION: str(attention),
        "layers on a GPU": str(config.n_gpu_layers),
    }


def formula_fingerprint(config: ServeConfig) -> Fingerprint:
    """Of `--backend synthetic`."""
    return Fingerprint(
        machine=machine_words(), model={"kind": "a formula"}, context=context_words(config, config.flash_attn)
    )
