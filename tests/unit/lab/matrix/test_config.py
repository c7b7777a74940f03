"""The configuration: closed keys, and a line for every complaint."""

from pathlib import Path

import pytest

from arriero.core.errors import DataError
from arriero.lab.matrix.cases import invocations, matrix_cases
from arriero.lab.matrix.config import ReadConfig, path_of, read_config
from arriero.lab.matrix.models import matrix_models, planned_models
from arriero.record.cpu_lab.matrix import ExecutorKind, MatrixCase
from arriero.record.cpu_lab.model_facts import ModelFacts

BASE = """\
output_directory: runs
model: tiny.gguf
threads: [1, 2]
prompt_tokens: [128]
generated_tokens: [64]
batch_sizes: [2048]
context_sizes: [1024]
repetitions: 5
warmup_runs: 1
timeout_seconds: 60
"""
SHA = "ab" * 32
CASE = "{threads: 1, prompt_tokens: 8, generated_tokens: 8, batch_size: 8"


def write(folder: Path, text: str) -> Path:
    path = folder / "matrix.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def read(folder: Path, text: str) -> ReadConfig:
    return read_config(write(folder, text))


def refused(folder: Path, text: str) -> str:
    with pytest.raises(DataError) as caught:
        matrix_cases(read(folder, text))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def facts(path: Path) -> ModelFacts:
    return ModelFacts(
        file=path.name,
        bytes=7,
        sha256=SHA,
        gguf_version=3,
        architecture="llama",
        name=None,
        num_parameters=1,
        declared_format="Q4_1",
        tensor_types=(),
        fallbacks=(),
        trained_context=None,
        vocab_size=None,
        num_layers=None,
        embedding_length=None,
        reasons={},
    )


def test_defaults_are_those_of_the_published_harness(tmp_path: Path) -> None:
    config = read(tmp_path, BASE).config
    assert config.ubatch_sizes == (512,)
    assert (config.mmap, config.cpu_only, config.measure_memory) == (True, True, False)
    assert [(kv.key, kv.value) for kv in config.kv_cache_variants] == [("f16", "f16")]
    assert config.executor is ExecutorKind.IN_PROCESS


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ("executable: build/llama-bench\n", ExecutorKind.LLAMA_BENCH),
        ("smoke_fixture: out.md\nexecutable: x\n", ExecutorKind.SMOKE),
    ],
)
def test_what_is_named_decides_who_measures(tmp_path: Path, more: str, kind: ExecutorKind) -> None:
    assert read(tmp_path, BASE + more).config.executor is kind


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("repetitions: 5", "repetitons: 5", "line 8: repetitons: unknown field; did you mean repetitions?"),
        ("repetitions: 5", "repetitions: 0", "line 8: repetitions"),
        ("repetitions: 5", "repetitions: true", "line 8: repetitions"),
        ("repetitions: 5", "repetitions: '5'", "line 8: repetitions"),
        ("warmup_runs: 1", "warmup_runs: -1", "line 9: warmup_runs"),
        ("threads: [1, 2]", "threads: []", "line 3: threads"),
        ("threads: [1, 2]", f"threads: [{2**32 + 2}]", "line 3: threads[0]: expected `int` <= 2147483647"),
        ("threads: [1, 2]", "threads: 2", "line 3: threads"),
        ("threads: [1, 2]", "threads:\n  - 1\n  - 0", "line 5: threads[1]"),
        ("timeout_seconds: 60", "timeout_seconds: 0", "line 10: timeout_seconds"),
        ("threads: [1, 2]\n", "", "line 1: threads: missing"),
        ("repetitions: 5\n", "", "line 1: repetitions: missing"),
        ("model: tiny.gguf\n", "", "line 1: model: missing; give model or models"),
        ("context_sizes: [1024]", "context_sizes: [191]", "line 7: context_sizes: a context of 191 tokens"),
        (
            "model: tiny.gguf",
            "model: x\nmodels:\n  - {id: a, path: x, quantization: F16}",
            "line 3: models: model and models exclude each other",
        ),
        (
            "model: tiny.gguf",
            "models:\n  - {id: a, path: x, quantization: F16}\n  - {id: a, path: y, quantization: F16}",
            "line 4: models[1].id: a is also the id of models[0]",
        ),
        ("model: tiny.gguf", "models:\n  - {id: a, path: x}", "line 3: models[0].quantization: missing"),
        ("model: tiny.gguf", "models:\n  - {id: 'a b', path: x, quantization: F16}", "line 3: models[0].id"),
        (
            "model: tiny.gguf",
            "models:\n  - id: a\n    path: x\n    quantization: F16\n    sha256: abc",
            "line 6: models[0].sha256",
        ),
        (
            "model: tiny.gguf",
            "model: x\nkv_cache_variants: [{key: f16, value: q3}]",
            "line 3: kv_cache_variants[0].value",
        ),
        (
            "model: tiny.gguf",
            "model: x\nkv_cache_variants:\n  - {key: f16, value: f16}\n  - {key: f16, value: f16}",
            "line 5: kv_cache_variants[1]: f16/f16 stands twice",
        ),
        (
            "model: tiny.gguf",
            f"model: x\nexplicit_cases:\n  - {CASE}, context_size: 15, ubatch_size: 8}}",
            "line 4: explicit_cases[0].context_size: a context of 15 tokens",
        ),
        (
            "model: tiny.gguf",
            f"model: x\nexplicit_cases:\n  - {CASE}, context_size: 16}}",
            "line 4: explicit_cases[0].ubatch_size: missing",
        ),
    ],
)
def test_every_complaint_names_its_line_and_field(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in BASE
    assert refused(tmp_path, BASE.replace(old, new)).startswith(message)


def test_a_file_that_is_no_table_is_told(tmp_path: Path) -> None:
    assert "no table" in refused(tmp_path, "- 1\n- 2\n")


def test_the_product_keeps_its_order_and_drops_what_stands_twice(tmp_path: Path) -> None:
    text = BASE.replace("threads: [1, 2]", "threads: [2, 1, 2]").replace(
        "prompt_tokens: [128]", "prompt_tokens: [64, 32]"
    )
    text += "kv_cache_variants: [{key: q8_0, value: q8_0}, {key: f16, value: f16}]\n"
    found = [(c.threads, c.prompt_tokens, c.kv_key_type) for c in matrix_cases(read(tmp_path, text))]
    assert found == [
        (2, 64, "q8_0"), (2, 64, "f16"), (2, 32, "q8_0"), (2, 32, "f16"),
        (1, 64, "q8_0"), (1, 64, "f16"), (1, 32, "q8_0"), (1, 32, "f16"),
    ]  # fmt: skip


def test_explicit_cases_replace_the_product_and_the_lists_may_be_left_out(tmp_path: Path) -> None:
    case = "{threads: 3, prompt_tokens: 8, generated_tokens: 4, batch_size: 16, context_size: 12, ubatch_size: 2}"
    head = "output_directory: o\nmodel: m\nrepetitions: 1\nwarmup_runs: 0\ntimeout_seconds: 1\n"
    (found,) = matrix_cases(read(tmp_path, f"{head}explicit_cases: [{case}, {case}]\n"))
    assert found == MatrixCase(
        threads=3, prompt_tokens=8, generated_tokens=4, batch_size=16, context_size=12, ubatch_size=2
    )
    assert matrix_cases(read(tmp_path, BASE + f"explicit_cases: [{case}]\n")) == (found,)


def test_context_is_realised_as_depth_and_the_id_tells_every_field(tmp_path: Path) -> None:
    case = matrix_cases(read(tmp_path, BASE))[0]
    assert case.depth == 1024 - 128 - 64
    assert case.case_id == "p128-n64-t1-b2048-ub512-c1024-kv-f16-f16"


def test_invocations_run_by_model_then_case_then_warm_ups_then_repetitions() -> None:
    one, two = (
        MatrixCase(threads=t, prompt_tokens=1, generated_tokens=1, batch_size=1, context_size=2) for t in (1, 2)
    )
    ids = [each.invocation_id for each in invocations(["a", "b"], [one, two], warmup_runs=1, repetitions=2)]
    first = one.case_id
    assert ids[:3] == [f"a:{first}:warmup:1", f"a:{first}:measured:1", f"a:{first}:measured:2"]
    assert len(ids) == len(set(ids)) == 2 * 2 * 3
    assert ids[6].startswith("b:")


def test_paths_count_from_the_configuration_and_references_stay(tmp_path: Path) -> None:
    (planned,) = planned_models(read(tmp_path, BASE))
    assert planned.path == tmp_path / "tiny.gguf"
    assert planned.entry.id == "tiny"
    (planned,) = planned_models(read(tmp_path, BASE.replace("tiny.gguf", "smollm2-135m")))
    assert (planned.path, planned.entry.id) == (Path("smollm2-135m"), "smollm2-135m")


def test_a_single_model_has_the_format_that_its_file_declares(tmp_path: Path) -> None:
    (model,) = matrix_models(read(tmp_path, BASE), facts)
    assert (model.model_id, model.quantization, model.sha256) == ("tiny", "Q4_1", SHA)


def entry(**more: object) -> str:
    lines = {"id": "a", "path": "tiny.gguf", "quantization": "F16", **more}
    return BASE.replace(
        "model: tiny.gguf\n", "models:\n  - " + "".join(f"{k}: {v}\n    " for k, v in lines.items()) + "\n"
    )


def test_a_stated_hash_and_size_are_verified_and_a_mismatch_is_fatal(tmp_path: Path) -> None:
    (model,) = matrix_models(read(tmp_path, entry(sha256=SHA, byte_size=7)), facts)
    assert model.quantization == "F16"
    for more, place in (
        ({"byte_size": 8}, "line 6: models[0].byte_size"),
        ({"sha256": "cd" * 32}, "line 6: models[0].sha256"),
    ):
        with pytest.raises(DataError) as caught:
            matrix_models(read(tmp_path, entry(**more)), facts)
        assert str(caught.value).startswith(place)


def test_a_model_file_that_is_not_there_is_told_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"line 2: model: .*tiny\.gguf"):
        matrix_models(read(tmp_path, BASE))


def test_a_field_is_taken_apart_again() -> None:
    assert path_of("models[0].path") == ("models", 0, "path")
    assert path_of("") == ()
