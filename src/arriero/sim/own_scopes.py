"""Cache scopes of a workload's requests: who shares prefixes with whom in arriero's own mode."""

from arriero.record.simulation_config import Blocks, Cells, SimulationConfig
from arriero.workload.notes import notes_of
from arriero.workload.records import WorkloadRecord

EVERYBODY = ""


def scope_of(config: SimulationConfig, record: WorkloadRecord) -> str | None:
    """The scope of a request; None if it neither finds prefixes nor leaves any.

    Only prompts whose tokens are known can be compared with one another.
    """
    if record.prompt_tokens is None:
        return None
    match config.kv:
        case Blocks(prefix_cache=True):
            return EVERYBODY
        case Cells(reuse=reuse) if reuse is not None:
            return _scope(reuse.cache_scope, record)
        case _:
            return None


def reuses_cells(config: SimulationConfig) -> bool:
    """Whether prompts start from cells that others have computed."""
    return isinstance(config.kv, Cells) and config.kv.reuse is not None


def answers_return(config: SimulationConfig) -> bool:
    """Whether a conversation's next turn repeats the answer that was given."""
    return isinstance(config.kv, Cells) and config.kv.reuse is not None and config.kv.reuse.answers_return


def session_of(record: WorkloadRecord) -> str | None:
    """The conversation that a request belongs to, or None."""
    return notes_of(record).session_id


def _scope(word: str, record: WorkloadRecord) -> str | None:
    match word:
        case "session":
            return session_of(record)
        case "key":
            return EVERYBODY if record.prefix_group is None else f"key {record.prefix_group}"
        case _:
            return EVERYBODY
