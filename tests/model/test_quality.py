"""Quality measured on the first layers of the real model: itself, another format of it, and a file of another model."""

import struct
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from arriero.backend.models import WeightFormat, quantize
from arriero.core.errors import ConfigError, DataError
from arriero.lab.quality.measure import measure_quality
from arriero.lab.quality.plan import QualityPlan
from arriero.lab.quality.texts import read_prompts, read_text
from arriero.record.cpu_lab.quality import QualityResult, QualityStatus, read_quality, write_quality
from arriero.record.cpu_lab.quality_figures import Candidate, OriginKind
from tests.unit.record.bench_files import RUN

pytestmark = pytest.mark.model

Measure = Callable[..., QualityResult]


@pytest.fixture
def measure(llama_process: None, tmp_path: Path) -> Measure:
    """Measures with short windows and answers, and keeps each state in `quality.json`."""
    del llama_process
    path = tmp_path / "quality.json"

    def run(
        reference: Path, *candidates: Path, kept: QualityResult | None = None, stop_before: str = "", window: int = 32
    ) -> QualityResult:
        plan = QualityPlan(
            reference=reference,
            candidates=candidates,
            passage=read_text(),
            prompts=read_prompts(),
            window=window,
            most_windows=5,
            answer_tokens=2,
            threads=1,
        )

        def tell(part: float, words: str) -> None:
            assert 0 <= part <= 1
            if stop_before and words.startswith(stop_before):
                raise KeyboardInterrupt

        return measure_quality(plan, facts=lambda: RUN, tell=tell, keep=lambda it: write_quality(path, it), kept=kept)

    return run


@pytest.fixture(scope="session")
def short_f16(short_path: Path, tmp_path_factory: pytest.TempPathFactory, llama_process: None) -> Path:
    """The same weights as 16-bit numbers."""
    del llama_process
    return quantize(short_path, tmp_path_factory.mktemp("f16") / "short.F16.gguf", WeightFormat.F16)


def test_an_interrupted_run_goes_on_where_it_was(
    measure: Measure, short_path: Path, short_f16: Path, tmp_path: Path
) -> None:
    with pytest.raises(KeyboardInterrupt):
        measure(short_f16, short_path, short_f16, stop_before="short.gguf, window 3")
    kept = read_quality(tmp_path / "quality.json")
    assert (kept.status, kept.candidates) == (QualityStatus.INTERRUPTED, ())
    result = measure(short_f16, short_path, short_f16, kept=kept)
    assert result.status is QualityStatus.COMPLETED
    assert [each.model.file for each in result.candidates] == ["short.gguf", "short.F16.gguf"]
    other, same = result.candidates
    assert result.reference.origin.kind is OriginKind.REQUANTISED
    assert "no quality reference" in result.reference.origin.words
    assert 0 < other.divergence.mean.value < 0.05
    assert other.reference_repeats
    _agrees_in_everything(same)
    assert read_quality(tmp_path / "quality.json") == result
    # what a kill leaves after the first file
    killed = msgspec.structs.replace(result, status=QualityStatus.RUNNING, candidates=result.candidates[:1])
    again = measure(short_f16, short_path, short_f16, kept=killed)
    assert again.candidates[0] == result.candidates[0], "it is not measured again"
    assert [each.scores for each in again.candidates] == [each.scores for each in result.candidates]
    with pytest.raises(DataError, match="settings: windowing differ; go on as that run began"):
        measure(short_f16, short_path, kept=result, window=48)
    elsewhere = msgspec.structs.replace(result, environment=msgspec.structs.replace(result.environment, isa=("sse",)))
    with pytest.raises(DataError, match="begun with another build of"):
        measure(short_f16, short_path, kept=elsewhere)
    with pytest.raises(DataError, match=r"reference: short\.F16\.gguf was another file"):
        measure(short_path, short_path, kept=msgspec.structs.replace(result, candidates=()))


def _agrees_in_everything(found: Candidate) -> None:
    """A file against itself: exactly nothing, not nearly."""
    assert set(sum(found.scores.divergence, ())) == {0.0}
    assert found.divergence.same_top.value == 1.0
    assert (found.ratio.low, found.ratio.value, found.ratio.high) == (1.0, 1.0, 1.0)
    assert not found.resolved
    assert found.agreement is not None
    assert found.agreement.share_exact == 1.0


def test_files_that_cannot_be_compared_are_refused(measure: Measure, short_path: Path, tmp_path: Path) -> None:
    data = short_path.read_bytes()
    token, another = (struct.pack("<Q", 7) + "Ġ".encode() + word for word in (b"water", b"wqter"))
    assert token in data
    other = tmp_path / "other.gguf"
    other.write_bytes(data.replace(token, another, 1))
    with pytest.raises(ConfigError, match=r"other\.gguf: its vocabulary differs from that of --reference"):
        measure(short_path, short_path, other)
    with pytest.raises(ConfigError, match="is the same as"):
        measure(short_path, short_path, short_path)
    assert not (tmp_path / "quality.json").exists()
