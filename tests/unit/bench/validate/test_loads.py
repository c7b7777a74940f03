import pytest

from arriero.bench.validate.loads import (
    FEWEST,
    MOST,
    asked_in,
    count_in,
    held_out,
    records_of,
    sample_of,
    schedule_of,
    tokens_in,
)
from arriero.workload.settings import Vocabulary


@pytest.mark.parametrize("context", [64, 256, 2048, 8192])
def test_every_request_fits_the_context(context: int) -> None:
    for workload in held_out(context):
        for record in records_of(workload, 300, seed=3):
            assert record.prompt_token_count >= 1
            assert record.max_new_tokens >= 1
            assert record.prompt_token_count + record.max_new_tokens <= context


def test_the_workloads_differ_in_what_they_ask_for() -> None:
    chat, long, mixed = (records_of(each, 400, seed=1) for each in held_out(2048))
    prompts = [sum(each.prompt_token_count for each in records) / 400 for records in (chat, long, mixed)]
    outputs = [sum(each.max_new_tokens for each in records) / 400 for records in (chat, long, mixed)]
    assert prompts[0] < prompts[2] < prompts[1]
    assert outputs[1] < outputs[2] < outputs[0]
    assert sum(each.prompt_token_count >= 512 for each in mixed) == pytest.approx(100, abs=15), "one in four is long"


def test_more_requests_leave_the_first_ones_as_they_are() -> None:
    workload = held_out(1024)[2]
    assert records_of(workload, 90, seed=4)[:50] == records_of(workload, 50, seed=4)
    assert records_of(workload, 50, seed=5) != records_of(workload, 50, seed=4)


def test_what_saturation_is_found_with_is_not_what_is_measured() -> None:
    workload = held_out(1024)[0]
    lengths = [(each.prompt_token_count, each.max_new_tokens) for each in sample_of(workload, 50, 1)]
    assert lengths != [(each.prompt_token_count, each.max_new_tokens) for each in records_of(workload, 50, 1)]


def test_a_schedule_is_simulated_as_it_is_sent() -> None:
    schedule = schedule_of(held_out(512)[0], 20.0, 60, 7, Vocabulary(first_token=5, size=50))
    asked = asked_in(schedule)
    assert len(asked) == 60
    for each, item in zip(asked, schedule.planned, strict=True):
        assert (each.name, each.request.max_tokens) == (item.ask.request_id, item.ask.max_tokens)
        assert len(each.request.prompt) == item.ask.num_prompt_tokens
        assert each.request.arrival_at == (item.at_ns or 0) // 1000
        assert all(isinstance(token, int) and 5 <= token < 55 for token in item.ask.prompt)
        assert item.ask.fields["ignore_eos"]
    assert tokens_in(asked) == (
        sum(len(each.request.prompt) for each in asked), sum(each.request.max_tokens for each in asked),
    )  # fmt: skip
    assert asked[-1].request.arrival_at == pytest.approx(3e6, rel=0.5)


def test_a_load_has_neither_too_few_nor_too_many_requests() -> None:
    assert [count_in(10.0, seconds) for seconds in (0.0, 1.0, 30.0, 1e6)] == [FEWEST, FEWEST, 300, MOST]
