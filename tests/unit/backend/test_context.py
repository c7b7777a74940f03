import pytest

from arriero.backend.context import ContextOptions, available_cpus, check_options
from arriero.core.config import FlashAttention, KvType
from arriero.core.errors import ConfigError


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (ContextOptions(num_sequences=0), "--sequences must be at least 1"),
        (ContextOptions(num_sequences=257), "--sequences 257 is more than the 256"),
        (ContextOptions(num_rows=0), "--batch must be at least 1"),
        (ContextOptions(micro_batch=0), "--micro-batch must be at least 1"),
        (ContextOptions(num_sequences=9, num_rows=8), "lower --sequences or raise --batch"),
        (ContextOptions(num_sequences=4, ctx_size=3), "--ctx-size 3 is too small"),
        (ContextOptions(num_sequences=2, ctx_size=4097), "--ctx-size 4097 is more than the 2048 .* lower --ctx-size"),
        (ContextOptions(num_threads=0), "--threads must be at least 1"),
        (ContextOptions(num_threads_batch=-1), "--threads must be at least 1"),
        (
            ContextOptions(kv_type=KvType.Q8_0, flash_attention=FlashAttention.OFF),
            "--kv-type q8_0 needs flash attention",
        ),
    ],
)
def test_options_that_cannot_work_name_the_flag(options: ContextOptions, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_options(options, max_sequences=256, trained_context=2048)


def test_the_largest_options_are_taken() -> None:
    check_options(
        ContextOptions(num_sequences=256, num_rows=256, ctx_size=256), max_sequences=256, trained_context=2048
    )


def test_there_is_a_cpu() -> None:
    assert available_cpus() >= 1
