"""The six sets of definitions, by name: arriero's own, and those of five other load generators.

They differ enough that figures of two tools must not stand in one column, and all can be computed from the same log of
moments, so a report can show any of them without a second run.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from arriero.metrics.definitions_aiperf import AIPERF
from arriero.metrics.definitions_arriero import ARRIERO
from arriero.metrics.definitions_guidellm import GUIDELLM
from arriero.metrics.definitions_inference_perf import INFERENCE_PERF
from arriero.metrics.definitions_llmperf import LLMPERF
from arriero.metrics.definitions_parts import Definitions, LagRule, PercentileRule, Samples
from arriero.metrics.definitions_vllm import VLLM

__all__ = ["ARRIERO", "DEFINITIONS", "Definitions", "LagRule", "PercentileRule", "Samples"]

DEFINITIONS: Final[Mapping[str, Definitions]] = MappingProxyType({
    each.name: each for each in (ARRIERO, VLLM, GUIDELLM, AIPERF, INFERENCE_PERF, LLMPERF)
})
"""Name -> set, our own first."""
