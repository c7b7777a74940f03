"""Random lives of requests as a client could have seen them: in order of time, with every kind of end."""

from hypothesis import strategies as st

from arriero.metrics.client_life import ClientLife, Outcome

MS = 1_000_000


@st.composite
def lives(draw: st.DrawFn, *, outcomes: st.SearchStrategy[Outcome] | None = None) -> ClientLife:
    """One request; times in whole milliseconds, so that a failing example can be read."""
    outcome = draw(st.sampled_from(list(Outcome)) if outcomes is None else outcomes)
    intended = draw(st.none() | st.integers(0, 2_000))
    if outcome is Outcome.NOT_SENT:
        return ClientLife(
            request_id="r",
            intended_at=None if intended is None else intended * MS,
            sent_at=None,
            closed_at=None,
            outcome=outcome,
            asked_tokens=draw(st.integers(1, 9)),
        )
    sent = (intended or draw(st.integers(0, 2_000))) + draw(st.integers(0, 30))
    steps = draw(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 3), st.booleans()), max_size=8))
    at, chunks, tokens, empty = sent, [], [], []
    for gap, carried, is_empty in steps:
        at += gap
        if is_empty:
            empty.append(at * MS)
        else:
            chunks.append(at * MS)
            tokens.append(carried)
    said = draw(st.sampled_from([None, sum(tokens), sum(tokens) + 1]))
    return ClientLife(
        request_id="r",
        intended_at=None if intended is None else intended * MS,
        sent_at=sent * MS,
        closed_at=(at + draw(st.integers(0, 20))) * MS,
        outcome=outcome,
        asked_tokens=draw(st.integers(1, 30)),
        chunk_at=tuple(chunks),
        chunk_tokens=tuple(tokens),
        empty_at=tuple(empty),
        num_tokens=said,
        prompt_tokens=draw(st.none() | st.integers(1, 500)),
        cached_tokens=draw(st.none() | st.just(0)),
        asked_prompt_tokens=draw(st.none() | st.integers(1, 500)),
        connect_ns=draw(st.none() | st.integers(0, MS)),
        is_warm_up=draw(st.booleans()),
    )


def runs(max_size: int = 12) -> st.SearchStrategy[list[ClientLife]]:
    """Several of them."""
    return st.lists(lives(), max_size=max_size)
