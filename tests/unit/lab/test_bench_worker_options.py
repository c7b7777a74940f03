"""What the bench worker is asked, before it loads anything."""

from pathlib import Path

import msgspec
import pytest

from arriero.core.errors import ConfigError
from arriero.lab.bench_worker import read_options
from arriero.record.cpu_lab.worker import WorkerOptions

OPTIONS = WorkerOptions(model="m.gguf", threads=2)


def test_options_are_an_argument_or_a_file(tmp_path: Path) -> None:
    text = msgspec.json.encode(OPTIONS)
    (tmp_path / "options.json").write_bytes(text)
    assert read_options([text.decode()]) == read_options([f"@{tmp_path}/options.json"]) == OPTIONS


@pytest.mark.parametrize("name", ["threads", "batch_threads", "prompt_tokens", "depth", "batch", "micro_batch"])
def test_a_number_that_llama_cpp_would_cut_to_32_bits_is_refused(name: str) -> None:
    """2**32 + 2 threads would be measured as 2, and recorded as what was asked for."""
    asked = msgspec.structs.replace(OPTIONS, **{name: 2**32 + 2})
    with pytest.raises(ConfigError, match=f"{name}: 4294967298 is more than llama.cpp can count"):
        read_options([msgspec.json.encode(asked).decode()])


@pytest.mark.parametrize("words", [[], ["{}"], ["x"], ["@/nowhere"], ["{}", "{}"]])
def test_what_is_no_options_is_one_line(words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        read_options(words)
    assert "\n" not in str(caught.value)
