"""WorkloadRecord: one request of a workload, as its file says it."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec

from arriero.workload.tokens import PackedTokens

SCHEMA: Final = "serving-workload-v1"
COUNT_MAX: Final = 2**63 - 1
"""The largest time and count: the simulator's clock is a signed 64-bit number."""


class WorkloadClass(StrEnum):
    """What kind of traffic a request stands for; a label that nothing decides by."""

    CHAT = "chat"
    SHARED_SYSTEM_PROMPT = "shared_system_prompt"
    CODING_AGENT = "coding_agent"
    MIXED = "mixed"
    OVERLOAD = "overload"
    BURST = "burst"


class WorkloadRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One request; an optional field is None where the file leaves it out.

    A value made in code is checked when it is written, not here.

    Attributes:
        request_id: unique in its workload; without tabs and line breaks.
        arrival_time_us: whole microseconds from the start of the workload.
        prompt_token_count: prompt tokens, 0 included.
        max_new_tokens: output tokens, 0 included.
        workload_class: a label.
        prompt_tokens: the prompt itself; None if only its length is known, which is not the same as an empty prompt.
        prefix_group: a label of prompts that are said to share a beginning.
        deadline_us: when its answer is wanted, from its arrival on; a note that only the policy `deadline` looks at.
        metadata: anything that JSON can say; see `notes.py` for what arriero's own generators put there.
    """

    request_id: str
    arrival_time_us: int
    prompt_token_count: int
    max_new_tokens: int
    workload_class: WorkloadClass
    prompt_tokens: PackedTokens | None = None
    prefix_group: str | None = None
    deadline_us: int | None = None
    metadata: Mapping[str, Any] | None = None


def numbered(records: Iterable[WorkloadRecord]) -> list[WorkloadRecord]:
    """The records by arrival, ties by request id in the order of code points; internal ids count from 1 in this order.

    Cost: O(n) if they are in order already.
    """
    return sorted(records, key=_by_arrival)


def _by_arrival(record: WorkloadRecord) -> tuple[int, str]:
    return record.arrival_time_us, record.request_id
