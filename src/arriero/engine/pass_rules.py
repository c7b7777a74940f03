"""Pass rules: how the context of a backend cuts steps into passes, from its limits."""

from arriero.backend.protocol import BackendLimits
from arriero.costmodel.passes import PassRules


def rules_of(limits: BackendLimits) -> PassRules:
    """How a context of these limits cuts steps into passes."""
    return PassRules(
        micro_batch=limits.micro_batch,
        unified=limits.unified,
        stream_cells=limits.num_cells if limits.unified else limits.num_cells // limits.num_sequences,
        tiled_heads=limits.tiled_heads,
    )
