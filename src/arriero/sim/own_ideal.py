"""IdealReuse: what a cache without limit would leave to compute of a workload, token by token.

Requests in the order of their arrival; each finds whatever any earlier prompt of its scope begins with, computed or
not, and computes at least its last token. A real cache is measured against this: it loses what it had to evict, what
two prompts computed at the same time, and gains nothing that is not here but answers.
"""

from collections.abc import Sequence
from typing import NamedTuple

from arriero.prefix.cache import PrefixTrees, RunKey
from arriero.record.simulation_config import SimulationConfig
from arriero.sim.own_scopes import scope_of
from arriero.workload.records import WorkloadRecord, numbered


class IdealReuse(NamedTuple):
    """Totals of a workload."""

    requests: int
    prompt_tokens: int
    prefill_rows: int  # that have to be computed
    distinct_tokens: int  # room that suffices for all prompts

    @property
    def reused_share(self) -> float:
        """Of the prompt tokens; 0 where there are none."""
        return 1 - self.prefill_rows / self.prompt_tokens if self.prompt_tokens else 0.0


def ideal_reuse(config: SimulationConfig, records: Sequence[WorkloadRecord]) -> IdealReuse:
    """The ideal of a workload under the scopes of a configuration; prompts of no scope are computed whole."""
    trees = PrefixTrees()
    tokens, rows, alone = 0, 0, 0
    for number, record in enumerate(numbered(records)):
        length = record.prompt_token_count
        tokens += length
        scope = scope_of(config, record)
        if scope is None or not record.prompt_tokens:
            rows += length
            alone += length
            continue
        prompt = record.prompt_tokens
        rows += length - trees.match(scope, prompt, length - 1).num_tokens
        trees.insert(scope, RunKey(number), prompt)
    return IdealReuse(len(records), tokens, rows, trees.num_tokens + alone)
