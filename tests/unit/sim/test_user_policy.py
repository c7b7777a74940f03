"""A policy of somebody's own is found by its name, and what is wrong with one is told in one line."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from arriero.core.errors import BadJournal, ConfigError
from arriero.core.ids import RequestId
from arriero.core.request import Request
from arriero.record.journal_setup import (
    DecodeFirstSetup,
    LimitsSetup,
    LowestFirstSetup,
    OwnPolicySetup,
    PlacesSetup,
    Setup,
)
from arriero.scheduler.progress import Progress
from arriero.sim.composition import recorded_memory, recorded_scheduler
from arriero.sim.user_policy import load_policy, policy_spec

MODULE = '''
"""Policies, good and bad."""
from arriero.scheduler.ranked import Ranked

class FewestTokens(Ranked):
    def rank(self, request, arrival_number):
        return (request.max_tokens, arrival_number)

class Unfinished(Ranked):
    pass

class Demanding(FewestTokens):
    def __init__(self, patience):
        self.patience = patience

class Stranger:
    def rank(self, request, arrival_number):
        return (arrival_number,)

number = 3
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder in which the program was started."""
    monkeypatch.chdir(tmp_path)
    before, path = set(sys.modules), list(sys.path)
    (tmp_path / "my_orders.py").write_text(MODULE)
    (tmp_path / "broken_orders.py").write_text("import my_orders, no_such_neighbour\n")
    (tmp_path / "failing_orders.py").write_text("raise RuntimeError('two\\nlines')\n")
    yield tmp_path
    sys.path[:] = path
    for name in set(sys.modules) - before:
        if name.endswith("orders"):
            del sys.modules[name]


@pytest.mark.usefixtures("folder")
def test_a_class_in_the_folder_is_found() -> None:
    policy = load_policy("my_orders:FewestTokens")()
    request = Request(request_id=RequestId(1), prompt=(1,), max_tokens=9, arrival_at=0)
    assert policy.rank(request, 4) == (9, 4)
    assert policy.by_rank
    assert policy_spec("my_orders:FewestTokens", 5).described() == {"kind": "own", "name": "my_orders:FewestTokens"}


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("fifo", "policy 'fifo': none of fcfs, priority, shortest-prefill, deadline, fair-share, longest-match; name"),
        ("my orders:X", "none of fcfs"),
        ("my_orders:", "none of fcfs"),
        ("no_such_module:X", "there is no module no_such_module; start in its folder, or set PYTHONPATH"),
        ("my_orders.inner:X", "there is no module my_orders.inner"),
        ("no_such.inner:X", "there is no module no_such;"),
        ("broken_orders:X", "cannot be imported (ModuleNotFoundError: No module named 'no_such_neighbour'); mend it"),
        ("failing_orders:X", "module failing_orders cannot be imported (RuntimeError: two lines); mend it"),
        ("my_orders:Nobody", "module my_orders has no Nobody; name a class that it defines"),
        ("my_orders:number", "is no class"),
        ("my_orders:Unfinished", "cannot be made without arguments (TypeError: Can't instantiate abstract class"),
        ("my_orders:Demanding", "cannot be made without arguments (TypeError: "),
        ("my_orders:Stranger", "lacks by_rank, queue, served, victim; derive it from arriero.scheduler.ranked.Ranked"),
    ],
)
def test_what_cannot_be_had_is_told_in_one_line(name: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_policy(name)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("folder")
def test_a_journal_names_it_and_a_replay_loads_it_again() -> None:
    setup = Setup(
        kv=PlacesSetup(num_sequences=1),
        ids=LowestFirstSetup(),
        planner=DecodeFirstSetup(),
        policy=OwnPolicySetup(name="my_orders:FewestTokens"),
        limits=LimitsSetup(num_rows=8, prefill_rows_per_seq=None, prefill_rows_per_step=None, headroom_per_sequence=0),
    )
    scheduler = recorded_scheduler(setup, recorded_memory(setup), Progress)
    for number in (9, 5):
        request = Request(request_id=RequestId(number), prompt=(1,), max_tokens=number, arrival_at=0)
        scheduler.submit(request, 0)
    assert [row.request.request_id for row in scheduler.plan(0).rows] == [5]


def test_a_journal_whose_policy_is_not_here_says_so() -> None:
    setup = Setup(
        kv=PlacesSetup(num_sequences=1),
        ids=LowestFirstSetup(),
        planner=DecodeFirstSetup(),
        policy=OwnPolicySetup(name="no_such_module:X"),
        limits=LimitsSetup(num_rows=8, prefill_rows_per_seq=None, prefill_rows_per_step=None, headroom_per_sequence=0),
    )
    with pytest.raises(BadJournal, match="no scheduler can be built from setup: policy no_such_module:X: there is no"):
        recorded_scheduler(setup, recorded_memory(setup), Progress)
