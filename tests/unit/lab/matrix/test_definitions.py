"""The configurations that ship: they are sound, and as large as they say."""

from collections import Counter
from pathlib import Path

import pytest

from arriero.lab.matrix.cases import invocations, matrix_cases
from arriero.lab.matrix.config import read_config
from arriero.lab.matrix.models import planned_models
from arriero.lab.matrix.setup import Choice, planned_lines
from arriero.record.cpu_lab.matrix import ExecutorKind

# measured, warm-ups; those of the Qwen files are as published
COUNTS = {
    "q4-baseline": (20, 4),
    "threads": (45, 9),
    "formats": (64, 16),
    "kv-context": (81, 27),
    "qwen-q4-baseline": (30, 6),
    "qwen-threads": (65, 13),
    "qwen-formats": (75, 15),
    "qwen-kv-context": (180, 36),
}
PUBLISHED = {"qwen-q4-baseline": 36, "qwen-threads": 78, "qwen-formats": 90, "qwen-kv-context": 216}


def counts(path: Path) -> tuple[int, int]:
    read = read_config(path)
    ids = [each.entry.id for each in planned_models(read)]
    config = read.config
    planned = invocations(ids, matrix_cases(read), warmup_runs=config.warmup_runs, repetitions=config.repetitions)
    by_phase = Counter(each.phase for each in planned)
    return by_phase["measured"], by_phase["warmup"]


@pytest.mark.parametrize("name", COUNTS)
def test_a_definition_is_as_large_as_it_says(root: Path, name: str) -> None:
    assert counts(root / f"definitions/lab/{name}.yaml") == COUNTS[name]


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_slices_have_the_published_number_of_invocations(root: Path, name: str) -> None:
    assert sum(counts(root / f"definitions/lab/{name}.yaml")) == PUBLISHED[name]


def test_every_definition_is_tested(root: Path) -> None:
    """Other parts of the lab may keep files of their own kind beside these."""
    matrices = [path for path in (root / "definitions/lab").glob("*.yaml") if "repetitions" in path.read_text("utf-8")]
    assert sorted(path.stem for path in matrices) == sorted(COUNTS)


@pytest.mark.parametrize("name", COUNTS)
def test_a_definition_is_measured_by_the_binding_and_shown_without_its_files(root: Path, name: str) -> None:
    read = read_config(root / f"definitions/lab/{name}.yaml")
    assert read.config.executor is ExecutorKind.IN_PROCESS
    measured, warm_ups = COUNTS[name]
    for choice in (Choice(), Choice(executor=ExecutorKind.LLAMA_BENCH, llama_bench="/nowhere/llama-bench")):
        head, *lines = planned_lines(read, choice)
        assert f"{measured} measured invocations and {warm_ups} warm-ups" in head
        assert len(lines) == 2 * len(planned_models(read)) * len(matrix_cases(read))
        assert not any(str(root) in line for line in lines), "commands are shown without absolute paths"


@pytest.mark.parametrize("name", ["kv-context", "qwen-kv-context"])
def test_the_three_slices_share_no_point(root: Path, name: str) -> None:
    cases = matrix_cases(read_config(root / f"definitions/lab/{name}.yaml"))
    points = [(c.context_size, c.prompt_tokens, c.generated_tokens) for c in cases if c.kv_key_type == "f16"]
    assert len(points) == len(set(points))
    largest = max(context for context, _, _ in points)
    by_slice = {
        "A": [p for p in points if p[2] == 32],
        "B": [p for p in points if p[1] == 256 and p[2] == 64],
        "C": [p for p in points if p[0] == largest and p[1] == 512],
    }
    assert sum(map(len, by_slice.values())) == len(points)
