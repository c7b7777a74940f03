"""Life: one request as the trace tells it; owned by the thread that makes the lines."""

from collections.abc import Iterator
from dataclasses import dataclass

from arriero.core.events import TokenEmitted
from arriero.core.ids import StepNumber
from arriero.core.request import Request
from arriero.record.published import DOES_NOT_APPLY
from arriero.record.trace import trace_line


@dataclass(slots=True)
class Life:
    """What the lines of one request need to know.

    Attributes:
        is_live: it waited for its slot first; False: it started with step 0.
        seq: the slot it held last.
        num_tokens: tokens told.
        is_open: its stream was told to be open.
    """

    request: Request
    has_stream: bool
    is_live: bool
    seq: int = DOES_NOT_APPLY
    num_tokens: int = 0
    is_open: bool = False

    def open_stream(self) -> Iterator[bytes]:
        """Its stream opens, if there is one."""
        if self.has_stream and not self.is_open:
            self.is_open = True
            yield trace_line("token_stream_opened", self.request.request_id, self.seq)

    def close_stream(self, reason: str) -> Iterator[bytes]:
        """Its stream closes; that of a request which never had a slot opens here, since it counts as opened."""
        if self.has_stream:
            yield from self.open_stream()
            yield trace_line("token_stream_closed", self.request.request_id, self.seq, self.num_tokens, reason)

    def decode_row(self, step: StepNumber, position: int) -> Iterator[bytes]:
        """It has a decode row."""
        yield trace_line("decode_row", step, self.seq, position)
        if self.is_live:
            yield trace_line("admitted_decode_row", self.request.request_id, self.seq, step, position)

    def token(self, event: TokenEmitted) -> Iterator[bytes]:
        """It has a new token; the first one ends its prefill."""
        if event.index == 0:
            yield self._prefilled(event.step, event.token)
        self.num_tokens += 1
        if self.has_stream:
            position = len(self.request.prompt) + event.index
            yield trace_line("token_stream_token", self.request.request_id, self.seq, position, event.token)

    def complete(self, step: StepNumber, token_hash: int) -> Iterator[bytes]:
        """It has reached its own end."""
        if self.num_tokens == 0:  # the first token ended the answer, and such a token is not told
            yield self._prefilled(step, DOES_NOT_APPLY)
        budget, text = self.request.max_tokens, f"0x{token_hash:016x}"
        if self.is_live:
            yield trace_line("admitted_complete", self.request.request_id, self.seq, budget, step, text)
        else:
            yield trace_line("seq_complete", self.seq, budget, step, text)

    def _prefilled(self, step: StepNumber, first_token: int) -> bytes:
        if self.is_live:
            return trace_line("admitted_prefilled", self.request.request_id, self.seq, step)
        return trace_line("seq_prefilled", self.seq, first_token)
