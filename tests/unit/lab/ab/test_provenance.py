import hashlib
from pathlib import Path

import pytest

from arriero.core.errors import ConfigError, DataError
from arriero.lab.ab.provenance import check_library, inherited_variables, library_hashes, variant_facts
from arriero.lab.ab.variants import Program, Variant, Worker
from arriero.record.cpu_lab.worker import WorkerOptions
from tests.unit.lab.ab.runs import program


def build(folder: Path, name: str, content: bytes) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.0").write_bytes(content)
    (folder / name).symlink_to(f"{name}.0")
    return folder


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_a_variant_that_moved_is_the_same_and_one_whose_file_changed_is_not(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
    first, moved = variant_facts(program(one, 5)), variant_facts(program(other, 5))
    assert first.content == moved.content
    assert not any(str(tmp_path) in word for word in first.command)
    assert "print.sh" in first.files
    changed = variant_facts(program(other, 5, script="echo other"))
    assert changed.content != first.content
    assert variant_facts(program(one, 6)).content != first.content


def test_what_a_command_writes_is_no_part_of_it(tmp_path: Path) -> None:
    written, read = tmp_path / "out.json", tmp_path / "in.json"
    for path in (written, read):
        path.write_text("{}")
    for words in (("--out", str(written)), (f"--output={written}",), ("-o", str(written))):
        facts = variant_facts(Variant(name="v", target=Program(words=("/bin/sh", *words, str(read), f"--x={read}"))))
        assert set(facts.files) == {"in.json", Path("/bin/sh").name}


def test_files_of_one_name_in_two_folders_are_both_part_of_it(tmp_path: Path) -> None:
    words = ["/bin/sh"]
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "in.json").write_text(name)
        words.append(str(tmp_path / name / "in.json"))
    variant = Variant(name="v", target=Program(words=(*words, words[1])))  # a file that is named twice is one
    first = variant_facts(variant)
    assert first.files == {
        Path("/bin/sh").name: first.files["sh"],
        "in.json": sha256(b"one"),
        "in.json (2)": sha256(b"other"),
    }
    for name in ("one", "other"):
        (tmp_path / name / "in.json").write_text(f"{name}, changed")
        assert variant_facts(variant).content != first.content
        (tmp_path / name / "in.json").write_text(name)


def test_variables_are_part_of_it_with_the_files_that_they_name(tmp_path: Path) -> None:
    preload = tmp_path / "fast.so"
    preload.write_bytes(b"x")
    variant = Variant(name="v", target=Program(words=("/bin/sh",)), environment={"LD_PRELOAD": str(preload), "N": "2"})
    facts = variant_facts(variant)
    assert facts.environment == {"LD_PRELOAD": "fast.so", "N": "2"}
    assert facts.files["fast.so"] == sha256(b"x")


def test_variables_that_llama_reads_are_kept_and_others_are_not() -> None:
    given = {"HOME": "/root", "OMP_THREAD_LIMIT": "1", "LLAMA_CPP_LIB_PATH": "/some/where/build", "AN_OMP_": "1"}
    assert inherited_variables(given) == {"LLAMA_CPP_LIB_PATH": "build", "OMP_THREAD_LIMIT": "1"}


def test_a_build_is_known_by_the_hashes_of_what_its_links_lead_to(tmp_path: Path) -> None:
    folder = build(tmp_path / "build", "libllama.so", b"llama")
    build(folder, "libggml.so", b"ggml")
    assert library_hashes(folder) == {"libggml.so.0": sha256(b"ggml"), "libllama.so.0": sha256(b"llama")}
    variant = Variant(name="v", target=Program(words=("/bin/sh",)), library=folder)
    assert variant_facts(variant).library == library_hashes(folder)
    assert variant.variables == {"LLAMA_CPP_LIB_PATH": str(folder.resolve())}


def test_a_run_that_loaded_another_build_is_no_run_of_its_variant(tmp_path: Path) -> None:
    promised = library_hashes(build(tmp_path / "build", "libllama.so", b"llama"))
    check_library({"libllama.so": sha256(b"llama")}, promised)
    check_library({}, promised)
    with pytest.raises(DataError, match=r"loaded libllama\.so from elsewhere"):
        check_library({"libllama.so": sha256(b"another")}, promised)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such folder"):
        library_hashes(tmp_path / "none")
    with pytest.raises(ConfigError, match=r"no libllama\.so in it"):
        library_hashes(build(tmp_path / "build", "libother.so", b""))
    with pytest.raises(ConfigError, match="no-such-program-x: no such program"):
        variant_facts(Variant(name="v", target=Program(words=("no-such-program-x",))))
    with pytest.raises(ConfigError, match=r"none\.gguf: no such file"):
        variant_facts(
            Variant(name="v", target=Worker(options=WorkerOptions(model=str(tmp_path / "none.gguf"), threads=1)))
        )
