from dataclasses import replace

import pytest

from arriero.metrics.paired_percent import PercentSummary, Signs
from arriero.metrics.paired_verdict import Verdict
from arriero.metrics.published_verdict import WORDS, PublishedSummary, judge_published


def metric(median: float, low: float, high: float, *, higher_is_better: bool = True) -> PercentSummary:
    return PercentSummary(
        higher_is_better=higher_is_better,
        num_pairs=20,
        median=median,
        low=low,
        high=high,
        signs=Signs(15, 5, 0),
        cv_a=1.0,
        cv_b=1.0,
        half_medians=(median, median),
        r=0.0,
    )


POSITIVE = PublishedSummary(
    prompt=metric(2.0, 1.0, 3.0),
    generation=metric(0.0, -0.5, 0.5),
    duration=metric(-1.5, -2.0, -1.0, higher_is_better=False),
)


def test_the_published_verdict_from_its_summary_figures() -> None:
    # 20 pairs, Q8_0, prompt 1024, 64 generated, 4 threads; r was not printed
    prompt = replace(
        metric(-1.571, -3.538, 2.252),
        signs=Signs(8, 12, 0), cv_a=8.74, cv_b=9.63, half_medians=(0.201, -1.952), r=None,
    )  # fmt: skip
    generation = replace(metric(-1.560, -2.996, 5.063), signs=Signs(9, 11, 0), cv_a=None, cv_b=None)
    duration = metric(1.170, -1.392, 3.099, higher_is_better=False)
    found = judge_published(PublishedSummary(prompt=prompt, generation=generation, duration=duration))
    assert found.word == "INCONCLUSIVE"
    assert found.reasons == (
        "prompt rate -1.571 % (interval -3.538 to +2.252 %): its median is not above 0",
        "8 of 20 pairs are better; 70% are needed",
        "generation rate -1.560 % (interval -2.996 to +5.063 %): its median is below -1 %",
        "duration +1.170 % (interval -1.392 to +3.099 %): its median is above +1 %",
        "CV of the prompt rate of A: 8.74 %, more than 3 %",
        "CV of the prompt rate of B: 9.63 %, more than 3 %",
        "drift: medians of the halves +0.201 and -1.952 % are 2.153 points apart, more than 1",
    )


def test_positive_needs_every_condition() -> None:
    assert judge_published(POSITIVE).word == "POSITIVE"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"median": 0.0, "low": -1.0}, "its median is not above 0"),
        ({"low": 0.0}, "the interval holds 0"),
        ({"signs": Signs(13, 7, 0)}, "13 of 20 pairs are better"),
        ({"signs": None}, "the number of better pairs is not known"),
        ({"cv_b": 3.01}, "CV of the prompt rate of B: 3.01 %"),
        ({"cv_a": None}, "the CV of the prompt rate of A is not known"),
        ({"r": -0.5}, "drift: r -0.500"),
        ({"half_medians": (3.0, 1.9)}, "1.100 points apart"),
        ({"r": None}, "drift of the prompt rate is not known"),
    ],
)
def test_one_missing_condition_makes_it_inconclusive(change: dict[str, object], says: str) -> None:
    found = judge_published(replace(POSITIVE, prompt=replace(POSITIVE.prompt, **change)))  # type: ignore[arg-type]
    assert (found.word, len(found.reasons)) == ("INCONCLUSIVE", 1)
    assert says in found.reasons[0]


@pytest.mark.parametrize("name", ["generation", "duration"])
def test_a_guard_that_fails_without_being_sure_makes_it_inconclusive(name: str) -> None:
    lost = {"generation": metric(-1.1, -3.0, 0.1), "duration": metric(1.1, -0.1, 3.0, higher_is_better=False)}
    found = judge_published(replace(POSITIVE, **{name: lost[name]}))
    assert (found.word, len(found.reasons)) == ("INCONCLUSIVE", 1)


@pytest.mark.parametrize(
    ("name", "loss"),
    [
        ("prompt", metric(-0.2, -0.4, -0.1)),
        ("generation", metric(-1.1, -2.0, -0.1)),
        ("duration", metric(1.1, 0.1, 2.0, higher_is_better=False)),
    ],
)
def test_a_sure_loss_anywhere_rejects_whatever_else_holds(name: str, loss: PercentSummary) -> None:
    found = judge_published(replace(POSITIVE, **{name: loss}))
    assert (found.word, found.verdict) == ("REJECT", Verdict.WORSE)


def test_small_sure_losses_of_the_guards_do_not_reject() -> None:
    guards = {"generation": metric(-0.9, -1.0, -0.8), "duration": metric(0.9, 0.8, 1.0, higher_is_better=False)}
    assert judge_published(replace(POSITIVE, **guards)).word == "POSITIVE"


def test_fewer_than_twenty_pairs_are_never_judged() -> None:
    few = replace(POSITIVE, prompt=replace(POSITIVE.prompt, num_pairs=19))
    assert judge_published(few).verdict is Verdict.NO_VERDICT
    assert judge_published(few).reasons == ("19 pairs: the published rules need at least 20",)


def test_every_verdict_has_a_published_word() -> None:
    assert set(WORDS) == set(Verdict)
