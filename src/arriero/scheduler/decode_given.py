"""DecodeGiven: the progress of both published simulators, in which every token comes from a decode row.

    the engine     prefill  P rows, the last one gives token 1     decode  D - 1 rows    P + D - 1 positions
    here           prefill  P rows, no token                       decode  D rows        P + D positions

Tokens are only counted: a decode row stores the token that it gives, so nobody knows it beforehand.
"""

from collections.abc import Sequence
from typing import ClassVar

from arriero.core.ids import TokenId
from arriero.core.plan import DecodeRow, PrefillChunk, Row
from arriero.core.request import FinishReason, RequestState
from arriero.scheduler.progress import Progress, new_row


class DecodeGiven(Progress):
    """A request decodes as soon as its prompt is computed; without allowed output it ends there."""

    __slots__ = ()

    lag: ClassVar[int] = 0

    @property
    def known(self) -> Sequence[TokenId]:
        """The prompt: nothing else is kept."""
        return self.request.prompt

    @property
    def computed(self) -> None:
        """The memories of these simulations find prompts by themselves."""

    @property
    def num_reusable(self) -> int:
        """The whole prompt, since the first token comes from a row after it."""
        return self.num_prompt

    def chunk(self, num_rows: int) -> PrefillChunk:
        """The next `num_rows` known tokens as a row of a plan; emitted ones are 0."""
        start = self.num_computed
        end = start + num_rows
        tokens = self.request.prompt[start:end]
        if end > self.num_prompt:
            tokens = (*tokens, *(0,) * (num_rows - len(tokens)))
        return PrefillChunk(self.request, self.held_sequence, start, tokens, wants_logits=False)

    def decode_row(self) -> DecodeRow:
        """The next token as a row of a plan; it is 0 as long as nobody knows it."""
        assert self.sequence_id is not None, "a request that decodes holds a sequence"
        return new_row(DecodeRow, (self.request, self.sequence_id, self.num_computed, 0))

    @staticmethod
    def decode_rows(group: Sequence[Progress]) -> list[DecodeRow]:
        """What `decode_row` gives for each of several; here at once, since a simulation does little else."""
        rows: list[DecodeRow] = []
        for each in group:
            sequence_id = each.sequence_id
            assert sequence_id is not None, "a request that decodes holds a sequence"
            rows.append(new_row(DecodeRow, (each.request, sequence_id, each.num_computed, 0)))
        return rows

    def advance(self, row: Row) -> FinishReason | None:
        """Count the tokens of a row as computed; the end of the known tokens is the beginning of the answer."""
        super().advance(row)
        if self.state is RequestState.PREFILLING and self.num_computed == self.num_known:
            self._move_to(RequestState.DECODING)
            return FinishReason.LENGTH if self.num_known >= self.num_allowed else None
        return None

    def count(self, row: Row, times: int) -> FinishReason | None:
        """A row was computed, a decode row `times` in a row."""
        if self.state is not RequestState.DECODING or row.start != self.num_computed:
            return self.advance(row)
        self.num_computed += times
        self.num_known += times
        return FinishReason.LENGTH if self.num_known >= self.num_allowed else None

    @staticmethod
    def count_together(
        group: Sequence[Progress], rows: Sequence[Row], times: int
    ) -> list[tuple[Progress, FinishReason]]:
        """What `count` says of each of several that have ended with it; here at once, as above."""
        decoding, ended = RequestState.DECODING, list[tuple[Progress, FinishReason]]()
        for each, row in zip(group, rows, strict=True):
            if each.state is decoding and row.start == each.num_computed:
                each.num_computed += times
                each.num_known = num_known = each.num_known + times
                if num_known >= each.num_allowed:
                    ended.append((each, FinishReason.LENGTH))
            elif (reason := each.count(row, times)) is not None:
                ended.append((each, reason))
        return ended

    def append(self, token: TokenId) -> FinishReason | None:
        """Count the token of a decode row."""
        del token
        self.num_known += 1
        return FinishReason.LENGTH if self.num_known >= self.num_allowed else None

    def _first_known(self) -> list[TokenId]:
        """Nothing is kept beside the prompt itself."""
        return []
