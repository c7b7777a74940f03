"""What requests had said in a recorded run, for a replay in which nothing is said.

A prefix cache finds what was said as well as what was asked. So a replay gives it tokens of the recorded shape, which
the journal names in the step in which a request gives its sequence back: that is when a cache may take them over.
"""

from collections.abc import Iterable, Sequence

from arriero.core.errors import BadJournal
from arriero.core.ids import TokenId
from arriero.core.request import BlankTokens, Request
from arriero.record.journal_parts import AnswerRow
from arriero.scheduler.progress import Progress
from arriero.sim.synthetic_runs import SyntheticRuns


class RecordedAnswers:
    """Makes the progress of each submission, and gives each its answers of the present step.

    Attributes:
        number: of the submission that comes next.
    """

    def __init__(self, runs: SyntheticRuns) -> None:
        """`runs` has the prompts."""
        self.number = 0
        self._runs = runs
        self._rows: dict[int, AnswerRow] = {}

    def begin_step(self, rows: Iterable[AnswerRow]) -> None:
        """The answers of a step."""
        self._rows = {row.number: row for row in rows}

    def end_step(self) -> None:
        """Every answer must have been taken.

        Raises:
            BadJournal: somebody is said to have answered who has not given a sequence back.
        """
        if self._rows:
            numbers = ", ".join(map(str, self._rows))
            raise BadJournal(f"submission {numbers} gave no sequence back in this step", field="answers")

    def progress(self, request: Request, rank: tuple[int | float, ...]) -> "RecordedProgress":
        """The progress of the present submission."""
        return RecordedProgress(request, rank, self)

    def take(self, number: int, described: tuple[TokenId, ...]) -> tuple[TokenId, ...]:
        """The run of a request that gives its sequence back."""
        row = self._rows.pop(number, None)
        return described if row is None else self._runs.answered(described, row)


class RecordedProgress(Progress):
    """A request whose cache sees the recorded shape of what it said, instead of what this replay lets it say."""

    __slots__ = ("_answers", "_number", "_run")

    def __init__(self, request: Request, rank: tuple[int | float, ...], answers: RecordedAnswers) -> None:
        """Start waiting, as the present submission."""
        super().__init__(request, rank)
        self._answers = answers
        self._number = answers.number
        self._run: tuple[TokenId, ...] = () if isinstance(request.prompt, BlankTokens) else tuple(request.prompt)

    @property
    def known(self) -> Sequence[TokenId]:
        """The run as it was described last; nothing is looked up while more of it is being said."""
        return self._run

    @property
    def computed(self) -> Sequence[TokenId] | None:
        """The recorded tokens whose KV is present."""
        if isinstance(self.request.prompt, BlankTokens):
            return None
        self._take_answer()
        return self._run[: self.num_computed]

    def preempt(self) -> None:
        """Lose the slot; what was said is described."""
        self._take_answer()
        super().preempt()

    def finish(self) -> None:
        """Reach the end; what was said is described."""
        self._take_answer()
        super().finish()

    def _take_answer(self) -> None:
        self._run = self._answers.take(self._number, self._run)
