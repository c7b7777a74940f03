"""Whatever a server sends, cut anywhere and however it ends: one outcome, moments in order, and the run goes on."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from arriero.bench.client_options import HttpOptions, TimeLimits
from arriero.metrics.client_life import ClientLife, Outcome
from arriero.testing.bad_servers import Action, BadServer, Close, Hold, Pause, Reset, Send
from arriero.testing.bad_servers_words import stream, text, usage
from tests.unit.bench.client_rig import Rig, on_rig

GOOD = stream(text("one "), text("zwölf "), text("two ", "stop"), usage(3))
WHOLE = b"".join(send.data for send in GOOD)
LIMITS = TimeLimits(silence_s=0.5, total_s=5.0)


@st.composite
def scripts(draw: st.DrawFn) -> list[Action]:
    """A good answer with a stretch replaced, cut into pieces, with pauses between some of them, and an end."""
    begin, end = sorted(draw(st.tuples(st.integers(0, len(WHOLE)), st.integers(0, len(WHOLE)))))
    rubbish = draw(st.one_of(st.just(WHOLE[begin:end]), st.binary(max_size=40), st.just(WHOLE[begin:end] * 2)))
    data = WHOLE[:begin] + rubbish + WHOLE[end:]
    cuts = sorted({0, len(data), *draw(st.lists(st.integers(0, len(data)), max_size=6))})
    script: list[Action] = []
    for start, stop in pairwise(cuts):
        script.append(Send(data[start:stop]))
        script += draw(st.sampled_from([[], [], [Pause(0.2)], [Pause(0.7)]]))
    lasts: list[Action] = [Close(), Reset(), Hold()]
    return [*script, draw(st.sampled_from(lasts))]


@given(scripts(), st.sampled_from([None, None, 0, 1, 2]))
def test_any_bytes_come_to_one_outcome_and_the_next_request_is_answered(
    script: list[Action], cancel_after: int | None
) -> None:
    async def work(rig: Rig) -> tuple[ClientLife, ClientLife]:
        return await rig.ask("any", cancel_after=cancel_after), await rig.ask("good")

    life, after = on_rig(BadServer(script, GOOD), work, HttpOptions(limits=LIMITS))
    assert life.sent_at is not None
    assert life.closed_at is not None
    moments = [life.sent_at, *life.chunk_at, life.closed_at]
    assert moments == sorted(moments)
    assert life.closed_at <= 5_000_000_000
    assert len(life.chunk_tokens) == len(life.chunk_at)
    assert (life.error is None) == (life.outcome.is_normal or life.outcome is Outcome.CANCELLED_BY_CLIENT)
    assert (after.outcome, after.error, after.num_tokens) == (Outcome.STOP, None, 3)


@given(st.lists(st.integers(1, len(WHOLE) - 1), max_size=10))
def test_a_good_answer_is_the_same_wherever_the_network_cuts_it(cuts: list[int]) -> None:
    ends = sorted({0, len(WHOLE), *cuts})
    pieces = [Send(WHOLE[a:b]) for a, b in pairwise(ends)]

    async def work(rig: Rig) -> tuple[ClientLife, str]:
        return await rig.ask("r"), rig.texts["r"]

    life, words = on_rig(BadServer(pieces), work)
    assert (life.outcome, life.error, life.num_tokens) == (Outcome.STOP, None, 3)
    assert (words, len(life.chunk_at)) == ("one zwölf two ", 3)
