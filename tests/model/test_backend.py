"""The llama.cpp backend beyond what every backend does: errors, limits, interrupts, the log."""

import logging
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from arriero.backend.context import ContextOptions
from arriero.backend.library import check_cpu, load_library
from arriero.backend.llama_cpp import LlamaCppBackend
from arriero.backend.llama_model import LlamaModel
from arriero.backend.models import WeightFormat, quantize
from arriero.backend.protocol import DecodeError, DecodeInterrupted, KvExhausted
from arriero.core.config import FlashAttention
from arriero.core.errors import ConfigError, InvariantViolation, ModelUnreadable
from arriero.core.events import DropSequence, TrimSequence
from arriero.core.ids import SequenceId
from arriero.core.plan import DecodeRow, Row
from arriero.core.request import MAX_SEED, SamplingParams
from arriero.testing.suites import FIRST, SECOND, answer, chunk, draws, flat_row, request_of, tokens_of

pytestmark = pytest.mark.model
MakeBackend = Callable[..., LlamaCppBackend]


def test_capabilities_are_read_from_the_file(model: LlamaModel) -> None:
    found = model.capabilities
    assert (found.trained_context, found.vocab_size, found.num_layers) == (8192, 49152, 30)
    assert found.weight_format.endswith("Q4_1")
    assert found.trims
    assert model.metadata("general.architecture") == "llama"
    assert model.metadata("no.such.key") is None


def test_limits_are_what_llama_cpp_made_of_the_options(make_backend: MakeBackend) -> None:
    separate = make_backend(ContextOptions(ctx_size=512, num_sequences=4, num_rows=64, num_threads=1)).limits
    assert (separate.num_cells, separate.sequence_limit, separate.num_rows) == (1024, 256, 64)
    unified = make_backend(ContextOptions(ctx_size=300, num_sequences=4, unified=True, num_threads=1)).limits
    assert (unified.num_cells, unified.sequence_limit, unified.num_rows) == (512, 512, 300)
    assert (unified.num_sequences, unified.vocab_size, unified.unified) == (4, 49152, True)


@pytest.mark.parametrize("flash_attention", FlashAttention)
def test_every_kind_of_attention_answers(make_backend: MakeBackend, flash_attention: FlashAttention) -> None:
    backend = make_backend(
        ContextOptions(ctx_size=256, num_sequences=1, num_threads=1, flash_attention=flash_attention)
    )
    assert backend.decode([chunk(request_of(tokens_of(8)), FIRST)]).shape == (1, 49152)


def test_cells_that_the_model_could_never_use_are_refused_with_the_flag(model: LlamaModel) -> None:
    options = ContextOptions(ctx_size=2 * 8192 + 1, num_sequences=2)
    with pytest.raises(ConfigError, match=r"--ctx-size 16385 is more than the 8192 .* each of --sequences 2"):
        LlamaCppBackend(model, options)


@pytest.mark.usefixtures("llama_process")
def test_a_truncated_file_is_told_with_llama_cpp_s_reason(model_path: Path, tmp_path: Path) -> None:
    part = tmp_path / "part.gguf"
    with model_path.open("rb") as whole:
        part.write_bytes(whole.read(5_000_000))
    with pytest.raises(ModelUnreadable, match=rf"--model {part}: .*truncated") as caught:
        LlamaModel(part)
    assert "\n" not in str(caught.value)
    assert "no reason given" not in str(caught.value)


def test_rows_and_ids_beyond_the_limits_are_bugs_and_do_not_end_the_process(make_backend: MakeBackend) -> None:
    backend = make_backend(ContextOptions(ctx_size=256, num_sequences=1, num_rows=8, num_threads=1))
    with pytest.raises(InvariantViolation, match="9 rows for a batch of 8"):
        backend.decode([chunk(request_of(tokens_of(9)), FIRST)])
    for wrong in (SequenceId(-1), SequenceId(1)):
        with pytest.raises(InvariantViolation):
            backend.positions(wrong)
        with pytest.raises(InvariantViolation):
            backend.apply(DropSequence(wrong))


def test_an_invalid_row_is_a_decode_error_and_changes_nothing(make_backend: MakeBackend) -> None:
    backend = make_backend()
    good = chunk(request_of(tokens_of(4)), FIRST)
    bad_rows: tuple[Row, ...] = (
        chunk(request_of((49152, 1)), SECOND),
        chunk(request_of((-1, 1)), SECOND),
        DecodeRow(good.request, SECOND, 5, 20),  # nothing lies before position 5
    )
    for bad in bad_rows:
        if bad.start == 0:
            with pytest.raises(DecodeError, match="a row is invalid"):
                backend.decode([good, bad])
            assert backend.positions(FIRST) is None
    backend.decode([good, chunk(good.request, SECOND)])
    with pytest.raises(DecodeError, match="a row is invalid"):
        backend.decode([bad_rows[-1]])
    assert backend.positions(SECOND) == (0, 3)


def test_an_interrupt_from_another_thread_ends_a_running_call(make_backend: MakeBackend) -> None:
    backend = make_backend(ContextOptions(ctx_size=2048, num_sequences=2, num_rows=1024, num_threads=1))
    short, long = request_of(tokens_of(12)), request_of(tokens_of(1024))
    expected = answer(backend, short, FIRST, 4)
    backend.apply(DropSequence(FIRST))
    backend.decode([chunk(short, FIRST)])
    done = threading.Event()

    def interrupt() -> None:
        while not done.wait(0.001):  # again and again, since an interrupt before the call does nothing
            backend.interrupt()

    other = threading.Thread(target=interrupt)
    other.start()
    try:
        with pytest.raises(DecodeInterrupted):
            backend.decode([chunk(long, SECOND)])
    finally:
        done.set()
        other.join()
    assert backend.positions(SECOND) != (0, 1023), "it came back early"
    assert backend.apply(TrimSequence(SECOND, 0))
    assert backend.positions(FIRST) == (0, 11)
    said = [int(backend.decode([DecodeRow(short, FIRST, 12, expected[0])])[0].argmax())]
    assert [expected[0], *said] == expected[:2]
    assert answer(backend, short, SECOND, 4) == expected


def test_llama_cpp_s_warnings_reach_python_s_log(make_backend: MakeBackend, caplog: pytest.LogCaptureFixture) -> None:
    backend = make_backend(ContextOptions(ctx_size=256, num_sequences=1, num_threads=1))
    with caplog.at_level(logging.INFO, "arriero.llama_cpp"):
        backend.decode([chunk(request_of(tokens_of(256)), FIRST)])
        assert not caplog.records, "its chatter is debug"
        with pytest.raises(KvExhausted):
            backend.decode([DecodeRow(request_of(tokens_of(256)), FIRST, 256, 20)])
    assert {record.levelno for record in caplog.records} == {logging.WARNING}


@pytest.mark.usefixtures("llama_process")
def test_this_build_fits_this_cpu(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "arriero.llama_cpp"):
        check_cpu(load_library())
    assert [record.message for record in caplog.records] == []


def test_the_largest_seed_repeats_too(make_backend: MakeBackend) -> None:
    backend = make_backend()
    request = request_of(tokens_of(4), sampling=SamplingParams(temperature=1.0, seed=MAX_SEED))
    row = flat_row(backend)
    assert draws(backend, request, row) == draws(backend, request, row)


def test_a_sampled_answer_goes_on_after_its_kv_was_computed_anew(make_backend: MakeBackend) -> None:
    sampling = SamplingParams(temperature=1.0, top_k=20, repeat_penalty=1.1, seed=11)
    request = request_of(tokens_of(10), sampling=sampling)

    def say(backend: LlamaCppBackend, *, lose_kv_after: int | None) -> list[int]:
        sampler = backend.sampler(request)
        said = [sampler.sample(backend.decode([chunk(request, FIRST)])[0], ban_end_tokens=True)]
        while len(said) < 6:
            known = (*request.prompt, *said)
            if len(said) == lose_kv_after:
                assert backend.apply(DropSequence(FIRST))
                backend.decode([chunk(request, FIRST)])  # and the generated tokens one by one, as they were computed
                for place in range(len(request.prompt), len(known) - 1):
                    backend.decode([DecodeRow(request, FIRST, place, known[place])])
            logits = backend.decode([DecodeRow(request, FIRST, len(known) - 1, known[-1])])
            said.append(sampler.sample(logits[0], ban_end_tokens=True))
        sampler.close()
        backend.apply(DropSequence(FIRST))
        return said

    backend = make_backend()
    assert say(backend, lose_kv_after=None) == say(backend, lose_kv_after=3)


@pytest.mark.usefixtures("llama_process")
def test_a_file_that_cannot_be_written_is_told(model_path: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelUnreadable, match="could not write it as Q8_0"):
        quantize(model_path, tmp_path / "no" / "folder.gguf", WeightFormat.Q8_0)
    assert list(tmp_path.iterdir()) == []
