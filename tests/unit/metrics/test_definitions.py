import itertools
from dataclasses import replace

import pytest

from arriero.metrics.client_figures import ClientSlos, LatencyTable
from arriero.metrics.client_life import ClientLife, Outcome
from arriero.metrics.client_window import client_window
from arriero.metrics.definitions import DEFINITIONS, LagRule, PercentileRule
from arriero.metrics.window import Window
from tests.unit.metrics.client_lives import X, Y, failed, life, ns, steady

NAMES = ("arriero", "vllm", "guidellm", "aiperf", "inference-perf", "llmperf")


def seconds(value: float | None) -> float | None:
    return None if value is None else value / 1e9


def test_the_six_sets_by_name() -> None:
    assert tuple(DEFINITIONS) == NAMES
    assert all(name == each.name for name, each in DEFINITIONS.items())


@pytest.mark.parametrize(
    ("name", "tpot", "mean_itl"),
    [
        ("arriero", 0.100, 0.100),
        ("vllm", 0.100, 0.100),
        ("guidellm", 0.325, 0.100),
        ("aiperf", None, 0.100),
        ("inference-perf", 0.100, 0.100),
        ("llmperf", None, 0.325),
    ],
)
def test_answer_x(name: str, tpot: float | None, mean_itl: float) -> None:
    words = DEFINITIONS[name]
    assert seconds(words.tpot(X)) == (None if tpot is None else pytest.approx(tpot, rel=1e-12))
    itl = words.itl(X).values
    assert seconds(sum(itl) / len(itl)) == pytest.approx(mean_itl, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "ttft", "itl", "tpot", "e2e"),
    [
        ("arriero", 1.050, [0.2, 0, 0.1], 0.100, 1.350),
        ("vllm", 1.000, [0.2, 0.1], 0.100, 1.300),
        ("guidellm", 1.000, [0.100], 0.325, 1.310),
        ("aiperf", 1.000, [0.100], None, 1.300),
        ("inference-perf", 1.000, [0.2, 0, 0.1], 0.100, 1.310),
        ("llmperf", 1.000, [1.3 / 3], None, 1.310),
    ],
)
def test_answer_y(name: str, ttft: float, itl: list[float], tpot: float | None, e2e: float) -> None:
    words = DEFINITIONS[name]
    assert seconds(words.ttft(Y)) == pytest.approx(ttft, rel=1e-12)
    assert [seconds(each) for each in words.itl(Y).values] == pytest.approx(itl, rel=1e-12)
    assert seconds(words.tpot(Y)) == (None if tpot is None else pytest.approx(tpot, rel=1e-12))
    assert seconds(words.e2e(Y)) == pytest.approx(e2e, rel=1e-12)


def test_answer_y_from_the_actual_send() -> None:
    ours = DEFINITIONS["arriero"]
    assert ours.samples("service_ttft_ns", Y).values == (ns(1.0),)
    assert ours.samples("service_e2e_ns", Y).values == (ns(1.3),)
    assert DEFINITIONS["guidellm"].samples("targeted_ns", Y).values == (ns(1.36),)


@pytest.mark.parametrize(("answer", "normalised"), [(X, 0.325), (Y, 0.3275)])
def test_normalised_tpot_of_inference_perf(answer: ClientLife, normalised: float) -> None:
    (value,) = DEFINITIONS["inference-perf"].samples("normalised_ns", answer).values
    assert seconds(value) == pytest.approx(normalised, rel=1e-12)


def test_a_role_chunk_is_a_first_token_for_vllm_and_an_event_for_llmperf() -> None:
    with_role = replace(X, empty_at=(ns(0.5),))
    assert DEFINITIONS["vllm"].ttft(with_role) == ns(0.5)
    assert DEFINITIONS["vllm"].itl(with_role).values[0] == ns(0.5)
    assert DEFINITIONS["llmperf"].itl(with_role).values == (ns(1.3) / 5,)
    for name in NAMES:
        if name != "vllm":
            assert DEFINITIONS[name].ttft(with_role) == DEFINITIONS[name].ttft(X)


def test_a_last_chunk_with_only_the_finish_reason_ends_the_answer_for_vllm_alone() -> None:
    with_reason = replace(X, empty_at=(ns(1.5),), closed_at=ns(1.6))
    assert DEFINITIONS["vllm"].e2e(with_reason) == ns(1.5)
    assert DEFINITIONS["aiperf"].e2e(with_reason) == ns(1.3)
    assert [DEFINITIONS[name].e2e(with_reason) for name in ("guidellm", "inference-perf", "llmperf")] == [ns(1.6)] * 3


def test_guidellm_weighs_by_tokens() -> None:
    words = DEFINITIONS["guidellm"]
    assert words.itl(Y).weight == 3
    assert words.samples("tpot_ns", Y).weight == 4


def test_an_answer_of_one_token() -> None:
    single = life(chunks=[(0.3, 1)], closed=0.4)
    slos = ClientSlos(tpot_ns=1)
    verdicts = {name: words.is_good(single, slos) if words.is_good else "none" for name, words in DEFINITIONS.items()}
    assert verdicts == {
        "arriero": True,  # an undefined value does not count against it
        "vllm": True,  # counts as 0
        "guidellm": None,  # left out
        "aiperf": False,  # a miss
        "inference-perf": False,
        "llmperf": "none",
    }
    assert DEFINITIONS["inference-perf"].ttft(single) is None
    for name in ("arriero", "vllm", "inference-perf"):
        assert DEFINITIONS[name].tpot(single) is None
    for name in ("arriero", "vllm", "guidellm", "aiperf", "inference-perf"):
        assert DEFINITIONS[name].itl(single).values in ((), [])


def test_an_answer_without_a_token_is_undefined_and_breaks_nothing() -> None:
    empty = life(closed=0.4, outcome=Outcome.STOP)
    for words in DEFINITIONS.values():
        assert words.ttft(empty) is None
        assert words.tpot(empty) is None
        assert list(words.itl(empty).values) == []


def test_an_objective_on_tpot_asks_itl_at_guidellm_and_aiperf() -> None:
    slos = ClientSlos(tpot_ns=ns(0.2))  # X: ITL 0.1, guidellm's TPOT 0.325
    for name in NAMES[:-1]:
        judge = DEFINITIONS[name].is_good
        assert judge is not None
        assert judge(X, slos) is True
        assert judge(X, ClientSlos(tpot_ns=ns(0.05))) is False
        assert judge(X, ClientSlos(ttft_ns=ns(0.9))) is False
        assert judge(X, ClientSlos(e2e_ns=ns(1.2))) is False
        assert judge(X, ClientSlos(e2e_ns=ns(1.3), ttft_ns=ns(1.0))) is True


def test_the_largest_gap_is_an_objective_of_ours_alone() -> None:
    slos = ClientSlos(largest_gap_ns=ns(0.15))
    judged = [words.is_good(Y, slos) for words in DEFINITIONS.values() if words.is_good]
    assert judged == [False, True, True, True, True]


def test_percentile_and_lag_rules() -> None:
    rules = [(words.rule, words.has_failures, words.lag) for words in DEFINITIONS.values()]
    nearest, linear = PercentileRule.NEAREST_RANK, PercentileRule.LINEAR
    assert rules == [
        (nearest, True, LagRule.INTENDED),
        (linear, False, LagRule.NONE),
        (nearest, False, LagRule.INTENDED),
        (linear, True, LagRule.LEAST_LATE),
        (linear, False, LagRule.INTENDED),
        (linear, False, LagRule.NONE),
    ]


def test_each_throughput_has_its_own_stretch() -> None:
    answer = replace(steady("a", 2.0, sent=2.1), empty_at=(ns(2.5),), closed_at=ns(2.6))  # tokens 2.1 to 2.18
    lives = [answer, failed("f", 3.0, closed=4.0), steady("w", 0.5, is_warm_up=True)]
    window = client_window(lives, starts_at=0, stops_at=ns(9), warm_up_ns=ns(1)).measured
    spans = {name: words.span(lives, window) for name, words in DEFINITIONS.items()}
    assert spans == {
        "arriero": Window(ns(1), ns(9)),
        "vllm": Window(ns(2.0), ns(2.5)),
        "guidellm": Window(ns(1), ns(9)),
        "aiperf": Window(ns(2.1), ns(2.18)),
        "inference-perf": Window(ns(2.1), ns(4.0)),
        "llmperf": Window(ns(2.1), ns(4.0)),
    }


def test_every_latency_of_a_set_has_a_column_and_its_words() -> None:
    columns = set(LatencyTable.__dataclass_fields__)
    for words in DEFINITIONS.values():
        assert set(words.latencies) <= columns
        assert set(words.latencies) <= set(words.words)
        assert {"throughput", "percentiles"} <= set(words.words)


def test_no_two_sets_agree_on_both_answers() -> None:
    def figures(name: str) -> list[object]:
        words = DEFINITIONS[name]
        return [(words.ttft(each), list(words.itl(each).values), words.tpot(each), words.e2e(each)) for each in (X, Y)]

    for one, other in itertools.combinations(NAMES, 2):
        assert figures(one) != figures(other)
