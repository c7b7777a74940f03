"""What a refusal says, and that it holds nothing; the rest is in the property tests."""

import re

import pytest

from arriero.core.errors import KeyLimit, KeyTokenLimit, QueueFull, QueueTokensFull, Refused
from arriero.scheduler.backlog import Backlog, BacklogLimits


def full(limits: BacklogLimits, *, tokens: int = 40) -> Backlog:
    """One request of the tenant `a` runs, another one waits."""
    backlog = Backlog(limits)
    backlog.start(backlog.enter("a", tokens=tokens))
    backlog.enter("a", tokens=tokens)
    return backlog


@pytest.mark.parametrize(
    ("limits", "error", "numbers"),
    [
        (BacklogLimits(sequences=1, waiting=1), QueueFull, ["2"]),
        (BacklogLimits(sequences=1, waiting_tokens=50), QueueTokensFull, ["40", "20", "50"]),
        (BacklogLimits(sequences=1, tenant_requests=2), KeyLimit, ["2"]),
        (BacklogLimits(sequences=1, tenant_tokens=90), KeyTokenLimit, ["80", "20", "90"]),
    ],
)
def test_a_refusal_names_the_figures_and_takes_nothing(
    limits: BacklogLimits, error: type[Refused], numbers: list[str]
) -> None:
    backlog = full(limits)
    before = backlog.counts
    with pytest.raises(error) as refused:
        backlog.enter("a", tokens=20)
    assert type(refused.value) is error
    assert re.findall(r"\d+", str(refused.value)) == numbers
    after = backlog.counts
    assert (after.in_flight, after.waiting_tokens, after.accepted) == (2, 40, before.accepted)
    assert after.refused == before.refused + 1


@pytest.mark.parametrize("limits", [BacklogLimits(sequences=1, tenant_requests=2, tenant_tokens=90)])
@pytest.mark.parametrize("tenant", ["b", None])
def test_the_limits_of_one_tenant_concern_nobody_else(limits: BacklogLimits, tenant: str | None) -> None:
    backlog = full(limits)
    for _ in range(2):
        backlog.enter(tenant, tokens=45)
    assert backlog.counts.in_flight == 4


def test_without_bounds_everybody_is_let_in() -> None:
    backlog = Backlog(BacklogLimits(sequences=1))
    for _ in range(100):
        backlog.enter("a", tokens=10_000)
    assert backlog.counts.refused == 0


def test_whoever_starts_at_the_last_moment_is_not_late() -> None:
    backlog = Backlog(BacklogLimits(sequences=1))
    ticket = backlog.enter(start_by=10)
    backlog.start(ticket)
    assert backlog.next_at() is None
    assert backlog.expire(1000) == []


def test_a_place_is_weighed_once() -> None:
    backlog = Backlog(BacklogLimits(sequences=1))
    ticket = backlog.enter()
    backlog.weigh(ticket, 5)
    with pytest.raises(AssertionError, match="weighed twice"):
        backlog.weigh(ticket, 5)
