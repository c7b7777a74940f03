"""Where two answers part, on a formula that says printable characters, best and second best half a logit apart."""

import numpy as np

from arriero.backend.synthetic import SyntheticBackend, SyntheticOptions
from arriero.bench.experiments.contexts import ContextShape, ModelSettings, SyntheticSource
from arriero.bench.experiments.near_ties import Parting, near_ties
from arriero.core.ids import RequestId, SequenceId, TokenId
from arriero.core.plan import PrefillChunk
from arriero.core.request import Request

PROMPT = "One prompt, long enough for two calls"


class Printable(SyntheticSource):
    """Says characters only, in calls of few rows."""

    def make(self, shape: ContextShape) -> SyntheticBackend:
        return SyntheticBackend(
            SyntheticOptions(
                num_sequences=shape.num_sequences, num_rows=16, num_cells=shape.cells, speaks=tuple(range(32, 127)),
                vocab_size=self.vocabulary.size, end_tokens=self.vocabulary.end_tokens,
            )
        )  # fmt: skip


SOURCE = Printable(ModelSettings(backend="synthetic"))


def answer(num_tokens: int, *, detour: int | None = None, rank: int = 1) -> str:
    """What the formula says; at `detour` its choice of another rank instead of the best."""
    backend = SOURCE.make(ContextShape(num_sequences=1, positions=64))
    request = Request(request_id=RequestId(1), prompt=tuple(PROMPT.encode()), max_tokens=num_tokens, arrival_at=0)
    text, start = "", 0
    fresh: tuple[TokenId, ...] = tuple(PROMPT.encode())
    while len(text) < num_tokens:
        parts = [(at, fresh[at : at + 16]) for at in range(0, len(fresh), 16)]
        rows = [PrefillChunk(request, SequenceId(0), start + at, part, wants_logits=True) for at, part in parts]
        logits = [backend.decode([row])[0].copy() for row in rows]
        order = np.argsort(-logits[-1], kind="stable")
        token = int(order[rank if len(text) == detour else 0])
        start += len(fresh)
        fresh, text = (token,), text + chr(token)
    return text


def test_first_difference_is_found_with_its_gap() -> None:
    partings = [
        Parting(name="r1", prompt=PROMPT, text=answer(5), other=answer(5, detour=2)),
        Parting(name="r2", prompt=PROMPT, text=answer(5), other=answer(5, detour=0, rank=7)),
    ]
    first, second = near_ties(SOURCE, partings, budget=5, slot_tokens=64)
    assert (first.name, first.index, first.gap) == ("r1", 2, 0.5)
    assert (first.token, first.other) == (partings[0].text[2], partings[0].other[2])
    assert (second.index, second.gap) == (0, 3.5)


def test_text_that_no_token_begins_has_no_gap() -> None:
    parting = Parting(name="r", prompt=PROMPT, text=answer(3), other="")
    (found,) = near_ties(SOURCE, [parting], budget=3, slot_tokens=64)
    assert found.gap is None
