"""Records of a journal, one JSON line each; `docs/journal.md` says what every field means.

    start                    what is needed to build the same scheduler again
    step, step, step, ...    messages, plan, outcome, events, and the times of the verbs
    gap                      records are missing here
    end                      what happened after the last step

Nothing here can hold a token or a text.
"""

from enum import StrEnum
from typing import Annotated, Final, TypeAlias

from msgspec import Meta

from arriero.record.journal_parts import AdoptedRow, AnswerRow, EventRow, MessageRow, Number, OutcomeRow, PlanRow
from arriero.record.journal_setup import Count, Part, Setup

SCHEMA: Final = 2
"""Grows when a record changes its form or its meaning."""


class TimeLine(StrEnum):
    """What the numbers count."""

    MICROSECONDS = "integer_us"
    MILLISECONDS = "float_ms"


class _Record(Part, frozen=True, kw_only=True):
    """One line; `crc` is taken over the line before and this one, itself being 0."""

    crc: Count


class StartRecord(_Record, frozen=True, kw_only=True, tag="start", omit_defaults=True):
    """A run begins; also the beginning of a file.

    Attributes:
        kept_runs, kept_tokens: how many runs and tokens the writer kept to compare prompts with; see `runs.py`.
        written_by: the program and its version.
        adopted: what the host store held, the oldest first; numbered from 1, submissions go on from there.
    """

    schema: int
    written_by: str
    time_line: TimeLine
    setup: Setup
    kept_runs: Annotated[int, Meta(ge=1)]
    kept_tokens: Annotated[int, Meta(ge=1)]
    adopted: tuple[AdoptedRow, ...] = ()


class StepRecord(_Record, frozen=True, kw_only=True, tag="step", omit_defaults=True):
    """One pass of the loop.

    Attributes:
        began_at: `now` of the messages and of the plan.
        committed_at: `now` of the commit; None without rows.
        ended_at: after the last event was told.
        decode_time: inside the decode call; 0 without one.
        messages: in the order in which they were applied.
        events: of messages, plan and commit, in order.
        answers: of those who gave their sequence back in this pass and have said something since the last time.
    """

    began_at: Number
    committed_at: Number | None
    ended_at: Number
    decode_time: Number
    messages: tuple[MessageRow, ...]
    plan: PlanRow
    outcome: OutcomeRow | None
    events: tuple[EventRow, ...]
    answers: tuple[AnswerRow, ...] = ()


class GapRecord(_Record, frozen=True, kw_only=True, tag="gap"):
    """Records are missing here."""

    dropped: Annotated[int, Meta(ge=1)]


class EndRecord(_Record, frozen=True, kw_only=True, tag="end"):
    """The loop has ended.

    Attributes:
        given_up_at: when those who still waited were given up and the retained runs cleared, two verbs after the last
            step; None if they did nothing.
        crashed: the kind of exception that ended the loop, or None.
        events: those after the last step.
    """

    ended_at: Number
    given_up_at: Number | None
    crashed: str | None
    events: tuple[EventRow, ...]


JournalRecord: TypeAlias = StartRecord | StepRecord | GapRecord | EndRecord
