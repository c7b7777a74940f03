"""Requests by chance: the same from the same seed, compared in every mode, and a difference is found and told."""

import asyncio
import random
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from arriero.backend.protocol import Backend
from arriero.core.config import ServeConfig
from arriero.core.plan import Row
from arriero.engine.options import EngineOptions
from arriero.engine.placement import Dedicated
from arriero.testing.fakes import FaultyBackend
from arriero.testing.gates import SMALL, Findings, Gate, GateContext, GateReport, Shape, SyntheticBackends, run_gate
from arriero.testing.gates.company import Scoping
from arriero.testing.gates.containment import Wrapped
from arriero.testing.gates.mix import Mix, Mode, episode_of
from arriero.testing.gates.mixture import Asked, CancelAt, MixtureMaker, MixtureSize
from arriero.testing.gates.solo import Gap, Solo, SoloBook
from arriero.testing.gates.storm import Storm
from arriero.testing.kernels import CountingKernels

CONFIG = ServeConfig(ctx_size=12 * 256, sequences=12, batch=512)
SHORT = MixtureSize(prompts=(4, 120), prefixes=(8, 60), answers=(2, 12))


def context_with(wrap: Callable[[Backend], Backend] | None = None) -> GateContext:
    backends = SyntheticBackends(CONFIG)
    return GateContext(
        backends=backends if wrap is None else Wrapped(backends, wrap), placement=Dedicated(), size=SMALL
    )


def mixed(mode: Mode, num_requests: int, wrap: Callable[[Backend], Backend] | None = None, seed: int = 1) -> GateReport:
    return run_gate(Gate("MIX", "mix", Mix(mode, num_requests, seed, SHORT).check, limit_s=60), context_with(wrap))


class HeedsCompany(FaultyBackend):
    """Its answers depend on who else is in the call."""

    def decode(self, rows: Sequence[Row]) -> NDArray[np.float32]:
        return np.roll(super().decode(rows), len(rows), axis=1)


async def make(seed: int, number: int) -> tuple[list[Asked], dict[int, Solo]]:
    context, findings = context_with(), Findings()
    async with SoloBook(context, findings, Shape(num_sequences=1, positions=160), EngineOptions()) as solo:
        asked = await MixtureMaker(context, solo, SHORT, random.Random(seed)).make(0, number)
        solos = {each.number: await solo.answer(each.prompt, each.max_tokens) for each in asked}
    assert findings.reason is None
    return asked, solos


def test_the_same_seed_gives_the_same_requests_and_another_one_others() -> None:
    first, again, other = (asyncio.run(make(seed, 30))[0] for seed in (3, 3, 4))
    assert first == again
    assert first != other


def test_a_mixture_has_everything_that_is_compared() -> None:
    asked, solos = asyncio.run(make(1, 120))
    assert {each.cancel.at for each in asked if each.cancel is not None} == set(CancelAt)
    by_number = {each.number: each for each in asked}
    turns = [each for each in asked if each.after is not None]
    assert turns
    for turn in turns:
        earlier = by_number[turn.after or 0]
        told = (*earlier.prompt, *solos[earlier.number].tokens[: earlier.max_tokens])
        assert turn.prompt[: len(told)] == told[: len(turn.prompt)]
    assert len({each.prompt for each in asked}) < len(asked), "some are asked again word by word"
    assert all(4 <= len(each.prompt) <= 120 or each.after is None for each in asked)
    assert all(len(solos[each.number].tokens) >= each.max_tokens for each in asked)


def test_episodes_have_every_scoping_in_turn() -> None:
    chance = random.Random(1)
    episodes = [episode_of(number, chance) for number in range(8)]
    assert [each.scoping for each in episodes] == [*Scoping, *Scoping]
    assert all((each.rules(Mode.EXACT) is None) is (each.scoping is Scoping.NONE) for each in episodes)
    assert all(not each.retained and not each.host_tokens for each in episodes if each.scoping is Scoping.NONE)


@pytest.mark.parametrize("mode", Mode)
def test_nothing_differs_where_bits_depend_on_nothing(mode: Mode) -> None:
    report = mixed(mode, 60)
    assert report.reason is None
    assert report.counts["requests"] == 60
    assert (report.counts["rows_different"], report.counts["different"]) == (0, 0)
    assert report.notes == []


def test_exact_mode_fails_at_the_first_bit_and_fast_mode_counts_it() -> None:
    exact = mixed(Mode.EXACT, 20, lambda backend: CountingKernels(backend, 2))
    assert exact.reason is not None
    assert "rows_different is" in exact.reason
    assert exact.counts["different"] == 0, "its tokens are the same all the same"
    fast = mixed(Mode.FAST, 20, lambda backend: CountingKernels(backend, 2))
    assert fast.reason is None
    assert fast.counts["rows_different"] != 0
    assert fast.counts["mismatch_percent"] == 0.0


def test_other_tokens_are_told_with_their_place_and_gap() -> None:
    fast = mixed(Mode.FAST, 20, HeedsCompany)
    assert fast.reason is None
    assert fast.counts["different"] != 0
    assert fast.notes[0].startswith("of 2 slots") or fast.notes[0].startswith("of ")
    assert any("first other token at place" in note and "logit gap" in note for note in fast.notes)
    assert len(fast.notes) <= 14
    exact = mixed(Mode.EXACT, 20, HeedsCompany)
    assert not exact.passed


def test_a_gap_is_exact_among_the_best_and_a_bound_elsewhere() -> None:
    _, solos = asyncio.run(make(1, 1))
    solo = solos[0]
    row = solo.rows[0]
    assert row.best[0] == solo.tokens[0]
    assert solo.gap(0, row.best[0]) == Gap(0.0, is_exact=True)
    assert solo.gap(0, row.best[2]) == Gap(1.0, is_exact=True)
    last = solo.gap(0, -1)
    assert not last.is_exact
    assert str(last).startswith("more than ")


def test_an_answer_alone_is_computed_once_and_again_only_if_it_is_too_short() -> None:
    async def ask() -> tuple[Solo, Solo, Solo]:
        context, findings = context_with(), Findings()
        async with SoloBook(context, findings, Shape(num_sequences=1, positions=160), EngineOptions()) as solo:
            answers = [await solo.answer((5, 6, 7), number) for number in (4, 3, 6)]
            assert len(solo) == 1
        return answers[0], answers[1], answers[2]

    first, shorter, longer = asyncio.run(ask())
    assert shorter is first
    assert longer.tokens[:4] == first.tokens
    assert [row.digest for row in longer.rows[:4]] == [row.digest for row in first.rows]


# ── the storm ───────────────────────────────────────────────────────────────────────────────────────────────────────


def stormed(num_requests: int, wrap: Callable[[Backend], Backend] | None = None, seed: int = 1) -> GateReport:
    return run_gate(Gate("STORM", "storm", Storm(num_requests, seed).check, limit_s=600), context_with(wrap))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_thousand_requests_in_a_storm_leave_nothing_and_harm_nobody() -> None:
    report = stormed(2000)
    assert report.reason is None
    assert report.counts["requests"] == 2000
    cancelled = report.counts["cancelled"]
    assert isinstance(cancelled, int)
    assert 500 <= cancelled <= 700
    assert report.counts["rows_different"] == report.counts["cells_left"] == report.counts["ids_left"] == 0


@pytest.mark.parametrize(
    ("wrap", "word"),
    [(HeedsCompany, "rows_different"), (lambda backend: CountingKernels(backend, 2), "rows_different")],
    ids=["company", "kernels"],
)
def test_a_storm_fails_on_a_backend_that_is_wrong(wrap: Callable[[Backend], Backend], word: str) -> None:
    report = stormed(60, wrap)
    assert report.reason is not None
    assert word in report.reason
