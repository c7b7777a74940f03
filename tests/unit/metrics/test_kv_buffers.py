"""KV memory as llama.cpp prints it."""

import pytest

from arriero.metrics.kv_buffers import kv_bytes_of


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["llama_kv_cache:        CPU KV buffer size =    11.25 MiB"], 11_796_480),
        (["x KV buffer size = 1.00 MiB", "y KV buffer size =  512.00 KiB"], 1_572_864),
        (["KV buffer size = 2 GiB"], 2 << 30),
        (["CPU compute buffer size = 9.00 MiB", "KV self size = 3 MiB"], None),
        ([], None),
    ],
)
def test_printed_sizes_are_summed_and_nothing_is_guessed(lines: list[str], expected: int | None) -> None:
    assert kv_bytes_of(lines) == expected
