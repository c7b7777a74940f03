from typing import Any

import pytest

from arriero.bench.client_options import HttpOptions
from arriero.bench.null_server_options import NullOptions, Stall, read_words
from arriero.metrics.client_life import ClientLife, Outcome
from tests.unit.bench.client_rig import CHAT, MS, Rig, on_rig


def test_chunks_leave_at_their_times_without_drift() -> None:
    life = on_rig(NullOptions(first_s=0.1, gap_s=0.003, num_chunks=200), lambda rig: rig.ask())
    assert life.chunk_at == tuple((100 + 3 * index) * MS for index in range(200))


def test_as_many_chunks_as_the_limit_allows() -> None:
    options = NullOptions(num_chunks=None, tokens_per_chunk=4)
    life = on_rig(options, lambda rig: rig.ask(max_tokens=10), HttpOptions(continuous_usage=True))
    assert (life.num_tokens, life.chunk_tokens) == (12, (4, 4, 4))


def test_times_are_kept_and_told_once() -> None:
    async def work(rig: Rig) -> tuple[bytes, bytes]:
        await rig.ask("a")
        first = await rig.target.fetch("/times", 1.0)
        return first.body, (await rig.target.fetch("/times", 1.0)).body

    told = on_rig(NullOptions(first_s=0.05, gap_s=0.01, num_chunks=3, keeps_times=True), work)
    assert told == (b'{"a":[50000000,60000000,70000000]}', b"{}")


def test_a_stall_holds_chunks_in_the_middle_of_an_answer() -> None:
    options = NullOptions(first_s=0.1, gap_s=0.1, num_chunks=5, stall=Stall(at_s=0.25, for_s=0.2))
    life = on_rig(options, lambda rig: rig.ask())
    assert [at // MS for at in life.chunk_at] == [100, 200, 450, 450, 500]


def test_other_pages_and_bad_bodies() -> None:
    async def work(rig: Rig) -> tuple[list[int | None], ClientLife]:
        pages = [(await rig.target.fetch(path, 1.0)).status for path in ("/health", "/v1/models", "/nothing")]
        return pages, await rig.ask(fields={"max_tokens": "many"})

    pages, life = on_rig(NullOptions(), work)
    assert pages == [200, 200, 404]
    assert (life.outcome, life.error) == (Outcome.ERROR, "http_400")


@pytest.mark.parametrize("stream", [True, False])
def test_prompts_are_counted(stream: bool) -> None:  # noqa: FBT001 - a table
    async def work(rig: Rig) -> list[int | None]:
        prompts: list[dict[str, Any]] = [
            {"prompt": (1, 2, 3, 4)},
            {"prompt": "Käse"},
            {"prompt": "hi", "endpoint": CHAT},
        ]
        return [(await rig.ask(stream=stream, **each)).prompt_tokens for each in prompts]

    assert on_rig(NullOptions(), work) == [4, 5, 1]


def test_the_command_line_says_what_the_options_say() -> None:
    options = NullOptions(
        first_s=0.05, gap_s=0.001, num_chunks=None, tokens_per_chunk=3, stall=Stall(at_s=1.0, for_s=2.5),
        keeps_times=True,
    )  # fmt: skip
    assert read_words(options.words()).options == options
    assert read_words(NullOptions().words()).options == NullOptions()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--first-s", "-1"], "argument --first-s: -1 is no time; give 0 or more seconds, such as 0.05"),
        (["--gap-s", "x"], "argument --gap-s: x is no time; give 0 or more seconds, such as 0.05"),
        (["--gap-s", "inf"], "argument --gap-s: inf is no time; give 0 or more seconds, such as 0.05"),
        (
            ["--chunks", "0"],
            "argument --chunks: 0 is no number of chunks; give a whole number from 1 to 1000000 or max_tokens",
        ),
        (["--tokens-per-chunk", "two"], "two is no number; give a whole number from 1 to 1000000"),
        (["--port", "-1"], "argument --port: -1 is no port; give a whole number from 0 to 65535"),
        (["--port", "abc"], "argument --port: abc is no port; give a whole number from 0 to 65535"),
        (["--port", "65536"], "argument --port: 65536 is no port; give a whole number from 0 to 65535"),
        (["--stall-at-s", "1"], "--stall-at-s and --stall-for-s belong together: give both or none"),
    ],
)
def test_a_wrong_command_line_is_refused(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        read_words(words)
    assert caught.value.code == 2
    assert capsys.readouterr().err.rstrip().endswith(says)
