"""What the two sides did, as a table of behaviours with counts, and the statements that have to hold."""

from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import Final

from arriero.bench.experiments.contexts import ModelSettings
from arriero.bench.experiments.experiment import Statement, Table, Value
from arriero.bench.experiments.samples import NS_PER_MS, http_label, median, ratio, rounded, samples, stable
from arriero.bench.experiments.semantics_sides import Lockstep, SideFound, Told, is_ours
from arriero.bench.experiments.sides import NO_PEER, THEIRS
from arriero.metrics.client_life import ClientLife, Outcome
from arriero.record.diagnostics import IterRow

US_PER_MS: Final = 1_000
_LOST: Final = "the server of this cell failed"


def judge(sides: Sequence[SideFound]) -> Iterator[Statement]:
    """The acceptance statements."""
    ours = next(found for found in sides if is_ours(found))
    theirs = next((found for found in sides if not is_ours(found)), None)
    yield from _judge_end(ours, theirs)
    yield from _judge_capped(ours.capped)
    bad = sum(life.outcome is not Outcome.LENGTH for found in sides for life in _served_lives(found))
    yield Statement.equal("requests within capacity that failed, were rejected or ended early", bad, 0)
    yield Statement.equal("cells with incomplete records", sum(bool(each) for each in ours.problems()), 0)
    yield stable("our answers are the same within a shape", _hashes(ours))


def _hashes(ours: SideFound) -> dict[object, set[str]]:
    """Shape → the hashes of its answers; on one slot there is one shape for each budget, whoever else asks."""
    found: dict[object, set[str]] = {}

    def add(shape: object, life: ClientLife) -> None:
        found.setdefault(shape, set()).add(life.text_sha256 or "none")

    for budget, lives in ours.latencies.items():
        for life in lives:
            add(("one slot", budget), life)
    if ours.capped is not None:
        for life in ours.capped.all_lives():
            if life.status == HTTPStatus.OK:
                add(("one slot", ours.capped.budget), life)
    for each in ours.matched:
        for shape, life in shaped(each):
            add((each.clients, each.budget, shape), life)
    return found


def _judge_end(ours: SideFound, theirs: SideFound | None) -> Iterator[Statement]:
    text = "an end token that comes first: nothing is counted, nothing is said, the finish reason is stop"
    end = ours.end
    if end is None or end.forced is None:
        reason = _LOST if end is None else "the text of the end token is not one token here"
        yield Statement.undecided(text, "0 tokens, no text, stop", reason)
    else:
        is_so = end.forced.status == HTTPStatus.OK and not end.forced.num_tokens and not end.forced.text
        yield Statement.so(
            text, _shown(end.forced), "0 tokens, no text, stop", holds=is_so and end.forced.finish == "stop"
        )
    text = "both servers answer the end-of-generation prompt with the same text, white space aside"
    if theirs is None or theirs.end is None or end is None:
        yield Statement.undecided(text, "equal", NO_PEER if theirs is None else _LOST)
        return
    ours_said, theirs_said = end.plain.text, theirs.end.plain.text
    yield Statement.so(text, repr(ours_said), repr(theirs_said), holds=ours_said == theirs_said)


def _judge_capped(found: Lockstep | None) -> Iterator[Statement]:
    """One may be in flight: in each round one is answered and all others are turned away at once."""
    if found is None:
        yield Statement.undecided("one in flight: one answer in each round, all others rejected", "all rounds", _LOST)
        yield Statement.undecided("one in flight: slowest rejection, ms", "a decode step of the same server", _LOST)
        return
    answered, turned_away = HTTPStatus.OK, HTTPStatus.SERVICE_UNAVAILABLE
    others = found.clients - 1
    exact = sum(_count(each, answered) == 1 and _count(each, turned_away) == others for each in found.rounds)
    rejected = sum(_count(lives, turned_away) for lives in found.rounds)
    asked = len(found.rounds) * found.clients
    yield Statement.so(
        f"{found.clients} clients, one in flight: one answer and {others} rejection(s) in each round",
        f"{exact} of {len(found.rounds)} rounds; {rejected} of {asked} requests rejected",
        "all rounds",
        holds=exact == len(found.rounds) > 0,
    )
    text = f"{found.clients} clients, one in flight: slowest rejection, ms"
    step_ms = decode_step_ms(found, 1)
    if step_ms is None:
        yield Statement.undecided(text, "a decode step of the same server", "no decode step was written down")
    else:
        yield Statement.at_most(text, rounded(_slowest_rejection(found)), round(step_ms, 3), " ms, one decode step")


def behaviours(sides: Sequence[SideFound], model: ModelSettings) -> Table:
    """One behaviour a row, one server a column."""
    by_name = {found.name: dict(_behaviours(found)) for found in sides}
    names = list(by_name)
    words = list(dict.fromkeys(word for found in by_name.values() for word in found))
    return Table(
        title="Behaviours",
        label=http_label(model),
        heads=("behaviour", *names),
        rows=tuple((word, *(by_name[name].get(word) for name in names)) for word in words),
        note="Counts. Skew: between the first and the last end of a round; decode step: with a row of each client.",
    )


def _behaviours(found: SideFound) -> Iterator[tuple[str, Value]]:
    if found.end is not None:
        yield "end-of-generation prompt: tokens counted, finish reason", _shown(found.end.plain)
        if found.end.forced is not None:
            yield "end token forced to come first: tokens counted, finish reason", _shown(found.end.forced)
    for budget, lives in found.latencies.items():
        yield f"1 client, 1 slot, b{budget}: different texts", len({life.text_sha256 for life in lives})
    if found.capped is not None:
        word = f"{found.capped.clients} clients, 1 slot"
        yield f"{word}: answered / rejected / other", _by_status(found.capped.all_lives())
        yield f"{word}: slowest rejection, ms", rounded(_slowest_rejection(found.capped))
    for each in found.matched:
        word = f"{each.clients} clients, {each.clients} slots, b{each.budget}"
        yield f"{word}: answered / rejected / other", _by_status(each.all_lives())
        yield f"{word}: different texts", len({life.text_sha256 for life in each.all_lives()})
        skews = [_skew(one) for one in each.rounds]
        yield f"{word}: skew p50, ms", rounded(median(skews))
        if each.log is not None:
            together = sum(_admitted_together(each, one) for one in each.rounds)
            yield f"{word}: rounds admitted in one step", f"{together} of {len(each.rounds)}"
            yield f"{word}: skew p50 / decode step", rounded(ratio(median(skews), decode_step_ms(each, each.clients)))


def latency_table(sides: Sequence[SideFound], model: ModelSettings) -> Table:
    """One client: times, and their ratios."""
    rows: list[tuple[Value, ...]] = []
    theirs = next((found for found in sides if found.name == THEIRS), None)
    for found in sides:
        for budget, lives in found.latencies.items():
            answers, firsts = samples(map(_took, lives)), samples(map(_first, lives))
            base = None if theirs is None else median(map(_took, theirs.latencies.get(budget, ())))
            rows.append((
                f"b{budget}",
                found.name,
                answers.n,
                rounded(answers.p50),
                rounded(answers.p95),
                rounded(firsts.p50),
                rounded(ratio(answers.p50, base)),
            ))  # fmt: skip
    return Table(
        title="One client, milliseconds",
        label=http_label(model),
        heads=("budget", "server", "n", "answer p50", "answer p95", "first token p50", "answer / llama-server"),
        rows=tuple(sorted(rows, key=lambda row: (str(row[0]), str(row[1])))),
        note="Blocks of both servers in turns. Ratios are context; nothing is decided by them.",
    )


def shaped(found: Lockstep) -> Iterator[tuple[object, ClientLife]]:
    """The answers of our own server, each with the rows of its round's steps and its rank in admission."""
    if found.log is None:
        return
    for lives in found.rounds:
        rows = [row for life in lives if (row := found.log.of(life.request_id)) is not None]
        if len(rows) != len(lives):
            continue
        begin, end = min(row.submit_us for row in rows), max(row.completion_us for row in rows)
        steps = tuple(
            (row.prefill_rows_in_iter, row.decode_rows_in_iter)
            for row in _between(found, begin, end)
            if row.batch_n_tokens
        )
        admitted = {row.answer_id: row.t_admitted_us for row in rows}
        order = sorted(set(admitted.values()))
        for life in lives:
            yield (order.index(admitted[life.request_id]), steps), life


def decode_step_ms(found: Lockstep, num_rows: int) -> float | None:
    """The median pass with so many decode rows and nothing else."""
    if found.log is None:
        return None
    rows = (row for row in found.log.computed if row.decode_rows_in_iter == num_rows and not row.prefill_rows_in_iter)
    return ratio(median(row.iter_wall_us for row in rows), US_PER_MS)


def _between(found: Lockstep, begin_us: int, end_us: int) -> Iterator[IterRow]:
    """Passes that overlap a time of the engine's clock."""
    if found.log is None or found.log.summary is None:
        return
    start = found.log.summary.engine_t_start_us_absolute
    for row in found.log.steps:
        began = start + row.t_us_from_engine_start
        if began + row.iter_wall_us >= begin_us and began <= end_us:
            yield row


def _served_lives(found: SideFound) -> Iterator[ClientLife]:
    for lives in found.latencies.values():
        yield from lives
    for each in found.matched:
        yield from each.all_lives()


def _admitted_together(found: Lockstep, lives: Sequence[ClientLife]) -> bool:
    assert found.log is not None, "asked of our own server only"
    return len({row.t_admitted_us for life in lives if (row := found.log.of(life.request_id)) is not None}) == 1


def _count(lives: Sequence[ClientLife], status: int) -> int:
    return sum(life.status == status for life in lives)


def _by_status(lives: Sequence[ClientLife]) -> str:
    answered = sum(life.outcome.is_normal for life in lives)
    rejected = sum(life.outcome is Outcome.REJECTED for life in lives)
    return f"{answered} / {rejected} / {len(lives) - answered - rejected}"


def _slowest_rejection(found: Lockstep) -> float | None:
    """Milliseconds from the send to the end of the response; None if nobody was rejected."""
    rejected = (life for life in found.all_lives() if life.status == HTTPStatus.SERVICE_UNAVAILABLE)
    return max(map(_took, rejected), default=None)


def _skew(lives: Sequence[ClientLife]) -> float:
    ends = [life.closed_at for life in lives if life.closed_at is not None]
    return (max(ends) - min(ends)) / NS_PER_MS if ends else 0.0


def _took(life: ClientLife) -> float:
    return (life.closed_at - life.sent_at) / NS_PER_MS if life.closed_at and life.sent_at else float("inf")


def _first(life: ClientLife) -> float:
    return (life.chunk_at[0] - life.sent_at) / NS_PER_MS if life.chunk_at and life.sent_at else float("inf")


def _shown(told: Told) -> str:
    return f"{told.num_tokens} tokens, {told.finish}" + (f", {told.text!r}" if told.text else ", no text")
