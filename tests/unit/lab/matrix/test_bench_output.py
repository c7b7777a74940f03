"""llama-bench's outputs: tables, JSON, and what is no result."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.core.errors import DataError
from arriero.lab.matrix.bench_output import check_result, parse_llama_bench, shown_size
from arriero.record.cpu_lab.matrix import MatrixCase, ParsedResult

TABLE = """\
warning: something or other | with a bar
| model                   |       size |     params | backend  | threads | n_batch |            test |            t/s |
| ----------------------- | ---------: | ---------: | -------- | ------: | ------: | --------------: | -------------: |
| llama 134M Q4_1         |  93.74 MiB |   134.52 M | CPU      |       2 |    2048 |   pp128 @ d832 |  412.10 ± 3.02 |
| llama 134M Q4_1         |  93.74 MiB |   134.52 M | CPU      |       2 |    2048 |    tg64 @ d832 |   98.25 ± 0.00 |

build: abcdef (1234)
"""
CASE = MatrixCase(threads=2, prompt_tokens=128, generated_tokens=64, batch_size=2048, context_size=1024)


def refused(text: str) -> str:
    with pytest.raises(DataError) as caught:
        parse_llama_bench(text)
    return str(caught.value)


def test_both_phases_of_one_setting_are_one_result() -> None:
    (found,) = parse_llama_bench(TABLE)
    assert found == ParsedResult(
        model_name="llama 134M Q4_1",
        model_size="93.74 MiB",
        backend="CPU",
        thread_count=2,
        prompt_tokens=128,
        generated_tokens=64,
        depth=832,
        prompt_tokens_per_second=412.10,
        generation_tokens_per_second=98.25,
        test_identifier="pp128 @ d832; tg64 @ d832",
    )
    assert check_result((found,), CASE) is found


def test_other_thread_counts_models_and_depths_are_other_results() -> None:
    rows = TABLE.splitlines()
    more = [
        rows[3].replace("|       2 |", "|       1 |"),
        rows[3].replace("Q4_1", "Q8_0"),
        rows[3].replace("d832", "d12"),
        rows[3].replace("93.74", "93.75"),
    ]
    assert len(parse_llama_bench("\n".join([*rows[:5], *more]))) == 5


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("412.10 ± 3.02", "fast ± 3.02", "line 4: t/s: 'fast' is no number"),
        ("412.10 ± 3.02", "nan ± 3.02", "line 4: t/s: nan is no rate"),
        ("412.10 ± 3.02", "0.00 ± 0.00", "line 4: t/s: 0.00 is no rate"),
        ("412.10 ± 3.02", "", "line 4: t/s: '' is no number"),
        ("   pp128 @ d832 ", "pp128+tg64", "line 4: the test 'pp128+tg64'"),
        ("|       2 |    2048 |   pp128", "|     two |    2048 |   pp128", "line 4: threads: 'two'"),
        ("tg64 @ d832", "pp64 @ d832", "both there"),
        ("| CPU      |       2 |    2048 |   pp", "| CPU      |    2048 |   pp", "line 4: 7 cells below 8 columns"),
        ("backend", "backhand", "line 2: the table has no column backend"),
        ("test", "tests", "no table"),
        pytest.param("pp128 @ d832", "pp" + "9" * 5000, "line 4: the test 'pp999", id="many tokens"),
        pytest.param(
            "|       2 |    2048 |   pp", f"|{'9' * 5000}|    2048 |   pp", "line 4: threads: '999", id="many threads"
        ),
    ],
)
def test_what_is_not_understood_is_an_error_with_its_line(old: str, new: str, what: str) -> None:
    assert old in TABLE
    assert what in refused(TABLE.replace(old, new))


@pytest.mark.parametrize("text", ["", "main: error: failed to load model\n", "| a | b |\n| - | - |\n| 1 | 2 |\n"])
def test_an_output_without_a_table_is_an_error(text: str) -> None:
    assert "no table" in refused(text)


def test_a_table_without_rows_is_an_error() -> None:
    assert "no table" in refused("\n".join(TABLE.splitlines()[:3]))


def as_json(**more: object) -> dict[str, object]:
    return {
        "model_type": "llama 134M Q4_1", "model_size": 98_292_736, "backends": "CPU", "n_threads": 2, "n_prompt": 128,
        "n_gen": 0, "n_depth": 832, "avg_ts": 412.1, "samples_ns": [1], "type_k": "f16", **more,
    }  # fmt: skip


def test_json_and_json_lines_say_the_same_as_a_table() -> None:
    tests = [as_json(), as_json(n_prompt=0, n_gen=64, avg_ts=98.25)]
    lines = "\n".join(json.dumps(test) for test in tests) + "\n"
    assert parse_llama_bench(json.dumps(tests, indent=2)) == parse_llama_bench(lines) == parse_llama_bench(TABLE)


@pytest.mark.parametrize(
    "text",
    [
        "[{]",
        "[1]",
        json.dumps([as_json(avg_ts=0)]),
        json.dumps([as_json(avg_ts=float("inf"))]),
        json.dumps([as_json(avg_ts=float("nan"))]),
        json.dumps([as_json(n_prompt=10**30)]),
        pytest.param("[" * 100_000, id="nested"),
        json.dumps([as_json(avg_ts=None)]),
        json.dumps([as_json(n_gen=64)]),
        json.dumps([as_json(n_threads="2")]),
        json.dumps([{}]),
        "[]",
    ],
)
def test_json_that_is_not_understood_is_an_error(text: str) -> None:
    assert "\n" not in refused(text)


@pytest.mark.parametrize(
    ("field", "value", "what"),
    [
        ("thread_count", 1, "threads: it reports 1, and was asked for 2"),
        ("prompt_tokens", None, "prompt tokens: it reports none"),
        ("generated_tokens", 65, "generated tokens"),
        ("depth", 0, "depth"),
    ],
)
def test_a_result_about_something_else_is_an_error(field: str, value: int | None, what: str) -> None:
    from msgspec.structs import replace

    (found,) = parse_llama_bench(TABLE)
    with pytest.raises(DataError, match=what):
        check_result((replace(found, **{field: value}),), CASE)
    with pytest.raises(DataError, match="2 results"):
        check_result((found, found), CASE)


@given(st.text('| -:±.0123456789pptg@dmodelsttests/sizbackndhr\n[]{}"', max_size=200))
def test_any_text_is_results_or_one_line_of_complaint(text: str) -> None:
    for each in (text, TABLE + text):
        complaint = ""
        try:
            assert parse_llama_bench(each)
        except DataError as error:
            complaint = str(error)
        assert "\n" not in complaint


def test_sizes_are_shown_as_llama_bench_shows_them() -> None:
    assert shown_size(98_292_736) == "93.74 MiB"
    assert shown_size(3 << 30) == "3.00 GiB"
