import msgspec
import pytest

from arriero.core.errors import DataError
from arriero.lab.ab.variants import Program, Worker, number_at, printed_json
from arriero.lab.process import CpuUsage, Finished
from arriero.record.cpu_lab.worker import WorkerModel, WorkerOptions, WorkerResult

RESULT = WorkerResult(
    prompt_tokens_per_s=812.5,
    generated_tokens_per_s=None,
    prompt_ns=(630_000_000,),
    generation_ns=(),
    kv_cache_bytes=None,
    peak_rss_kib=2048,
    model=WorkerModel(
        name="m.gguf", file_bytes=1, description="", weight_format="Q4_0", num_parameters=1, weight_bytes=1
    ),
    library={"libllama.so": "f" * 64},
    system_info="",
    text="a b",
    text_sha256="e" * 64,
    text_tokens=(1, 2),
    reasons={},
)


def finished(stdout: str) -> Finished:
    return Finished(
        command=("x",),
        return_code=0,
        stdout=stdout,
        stderr="",
        elapsed_s=1.5,
        timed_out=False,
        interrupted=False,
        peak_rss_kib=4096,
        launch_error=None,
        usage=CpuUsage(1.0, 0.1),
    )


def test_a_worker_gives_its_rates_the_duration_its_text_and_the_libraries_it_loaded() -> None:
    worker = Worker(options=WorkerOptions(model="/somewhere/m.gguf", threads=2))
    reading = worker.read(finished(msgspec.json.encode(RESULT).decode() + "\n"))
    assert reading.values == {"prompt_tokens_per_s": 812.5, "duration_s": 1.5}
    assert (reading.text_tokens, reading.library, reading.peak_rss_kib) == ((1, 2), {"libllama.so": "f" * 64}, 2048)
    assert worker.settings["model"] == "m.gguf"
    assert "/somewhere/m.gguf" in worker.command[-1]


def test_a_worker_that_prints_something_else_is_not_understood() -> None:
    with pytest.raises(DataError, match="lines instead of one"):
        Worker(options=WorkerOptions(model="m", threads=1)).read(finished("a\nb\n"))


def test_a_program_is_timed_unless_keys_are_asked_for() -> None:
    assert Program(words=("x",)).read(finished("no JSON at all")).values == {"duration_s": 1.5}
    found = Program(words=("x",), keys=("deep.1.x",)).read(finished('words\n{"deep": [0, {"x": 3}]}\n\n'))
    assert found.values == {"duration_s": 1.5, "deep.1.x": 3.0}


def test_json_over_several_lines_is_read_whole() -> None:
    assert printed_json('{\n"x": 1,\n"y": 2\n}\n') == {"x": 1, "y": 2}
    for text in ("", "nothing", "[1]"):
        with pytest.raises(DataError, match="printed no JSON object"):
            printed_json(text)


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("x.y", "has no x.y"),
        ("list.2", "has no list.2"),
        ("list.one", "has no list.one"),
        ("word", "is 'w' in the JSON"),
        ("flag", "is True in the JSON"),
        ("list", r"is \[0, 1\] in the JSON"),
    ],
)
def test_a_key_that_leads_to_no_number_is_named(key: str, says: str) -> None:
    with pytest.raises(DataError, match=says):
        number_at({"x": 1, "list": [0, 1], "word": "w", "flag": True}, key)
