"""What the workloads page shows works as shown."""

import re
import tomllib
from pathlib import Path

import pytest

from arriero.workload.catalogue import recipe
from arriero.workload.notes import notes_of
from arriero.workload.summary import summarise


@pytest.fixture(scope="module")
def page(root: Path) -> str:
    return (root / "docs" / "workloads.md").read_text(encoding="utf-8")


def test_the_composed_settings_of_the_page_make_conversations_that_share_beginnings(page: str) -> None:
    block = re.search(r"```toml\n(.*?)```", page, re.DOTALL)
    assert block is not None
    records = list(recipe(tomllib.loads(block[1])).make())
    assert len(records) == 1000
    assert max(each.prompt_token_count for each in records) <= 2048
    assert any(notes_of(each).turn == 5 for each in records)
    summary = summarise(records)
    assert summary.sharing.ratio is not None
    assert summary.sharing.ratio > 0.5


def test_the_python_of_the_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    block = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    assert block is not None
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {}
    exec(block[1], scope)  # noqa: S102 - our own page
    assert scope["number"] == 500
