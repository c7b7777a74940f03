from pathlib import Path

from arriero.lab.variant.load_check import check_loads


def test_a_library_that_cannot_be_loaded_is_told(tmp_path: Path) -> None:
    (tmp_path / "libllama.so").write_text("no library")
    found = check_loads(tmp_path, "variant", frozenset())
    assert found.loads is False
    assert found.says.startswith("the llama.cpp binding cannot be loaded")


def test_a_folder_without_libllama_is_not_tried(tmp_path: Path) -> None:
    (tmp_path / "libtiny.so").write_text("anything")
    assert check_loads(tmp_path, "baseline", frozenset()).loads is None
