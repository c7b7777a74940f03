"""What the composed generator is told: arrivals, lengths, content, prefix families and conversations."""

from enum import StrEnum
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from arriero.workload.amounts import Amount, Count, Positive
from arriero.workload.arrivals import Arrival, ClosedLoop
from arriero.workload.records import WorkloadClass
from arriero.workload.tokens import TOKEN_MAX

GENERATOR: Final = "arriero-composed-v1"
_Token = Annotated[int, Meta(ge=0, le=TOKEN_MAX)]


class Vocabulary(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which token ids prompts are made of: `first_token` and the ones after it, `size` in all."""

    first_token: _Token = 1000
    size: Annotated[int, Meta(ge=2, le=TOKEN_MAX)] = 30_000

    def __post_init__(self) -> None:
        """Refuse ids beyond int32."""
        if self.first_token + self.size - 1 > TOKEN_MAX:
            raise ValueError("the last token id would exceed 2^31 - 1; lower first_token or size")


class Families(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Beginnings that many requests share, such as system prompts.

    Attributes:
        count: how many beginnings there are.
        prefix_length: tokens of each, drawn once for each.
        popularity_exponent: 0 makes all equally popular; s weighs the k-th by k^-s, as in Zipf's law.
    """

    count: Annotated[int, Meta(ge=1, le=1_000_000)]
    prefix_length: Amount
    popularity_exponent: Annotated[float, Meta(ge=0, le=10)] = 0.0


class Pacing(StrEnum):
    """When the next turn of a conversation arrives."""

    SCHEDULE = "schedule"  # by the clock, whatever the engine does
    ANSWER = "answer"  # after the end of the turn before: a closed loop


class Sessions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Conversations: each turn's prompt is the one before, its answer, and fresh tokens.

    Attributes:
        turns: of one conversation; 0 counts as 1.
        think_time_us: between an answer and the next turn.
        answer_us_per_token: nominal time that an answer takes, by its tokens; used where arrivals are put on a clock.
        pacing: what the next turn waits for.
        prompt_limit: a conversation ends before a turn whose prompt would be longer; None for no limit.
    """

    turns: Amount
    think_time_us: Amount
    answer_us_per_token: Count = 0
    pacing: Pacing = Pacing.SCHEDULE
    prompt_limit: Positive | None = None


class ComposedConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole settings.

    Attributes:
        schema_version: of the workload that is made.
        generator: whose settings these are, with the version of its meaning.
        workload_class: the label of every record.
        request_count: requests in all, turns of conversations counted singly.
        seed: of everything.
        arrival: of requests, or of conversations where there are any.
        prompt_length: tokens that each request adds: the whole prompt unless a family or earlier turns stand before.
        output_length: `max_new_tokens`.
        tokens: exact prompts from this vocabulary; None for lengths alone.
        families: shared beginnings.
        sessions: conversations.
    """

    schema_version: Literal["serving-workload-v1"]
    generator: Literal["arriero-composed-v1"]
    workload_class: WorkloadClass
    request_count: Count
    seed: Count
    arrival: Arrival
    prompt_length: Amount
    output_length: Amount
    tokens: Vocabulary | None = None
    families: Families | None = None
    sessions: Sessions | None = None

    def __post_init__(self) -> None:
        """Refuse settings that contradict one another."""
        if self.families is not None and self.tokens is None:
            raise ValueError("families share tokens and prompts have none; add tokens or leave families out")
        if self.sessions is not None and isinstance(self.arrival, ClosedLoop):
            raise ValueError('closed_loop does not go with sessions; give the sessions pacing "answer" instead')
