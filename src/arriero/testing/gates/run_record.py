"""RunRecord: a run that has ended, as its callers saw it and as its log tells it."""

from dataclasses import dataclass, replace

from arriero.core.ids import TokenId
from arriero.core.request import FinishReason
from arriero.engine.handle import CloseReason, Result
from arriero.engine.observer import EngineSummary
from arriero.testing.gates.watch import StepLog


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One request as its caller saw it.

    Attributes:
        streamed: token ids that came through its stream; None without one.
        close_reason: why the stream ended.
        closed_first: whether the stream was closed when the result came.
    """

    result: Result
    streamed: tuple[TokenId, ...] | None
    close_reason: CloseReason | None
    closed_first: bool


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run that has ended.

    Attributes:
        answers: in the order of submission.
        num_rows: rows that one batch could hold.
    """

    answers: tuple[Answer, ...]
    log: StepLog
    summary: EngineSummary
    num_rows: int

    @property
    def results(self) -> tuple[Result, ...]:
        """In the order of submission."""
        return tuple(answer.result for answer in self.answers)

    def of(self, request_id: int) -> Result:
        """The last result under a request id.

        Raises:
            LookupError: there is none.
        """
        for result in reversed(self.results):
            if result.request_id == request_id:
                return result
        message = f"no request {request_id} has ended"
        raise LookupError(message)

    def num_ended(self, reason: FinishReason) -> int:
        """Requests that ended this way."""
        return sum(result.reason is reason for result in self.results)

    def outline(self) -> list[Result]:
        """The results without their times: what must be the same whenever the same is run again."""
        return [timeless(result) for result in self.results]


def timeless(result: Result) -> Result:
    """A result without its times."""
    return replace(
        result, arrival_at=0, admitted_at=None, first_token_at=None, cancel_observed_at=None, finished_at=0, error=None
    )
