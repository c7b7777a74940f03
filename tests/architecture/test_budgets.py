"""The budget checker counts what it says it counts, and the source keeps the budgets."""

from pathlib import Path

import pytest

from tools import check_budgets


def breaches(text: str, path: str = "src/arriero/core/thing.py") -> list[tuple[str, int, int]]:
    found = check_budgets.check_file(Path(path), text)
    return [(breach.what, breach.line, breach.figure) for breach in found]


def class_with(num_attributes: int, head: str = "class Thing:") -> str:
    body = "\n".join(f"        self.a{index} = {index}" for index in range(num_attributes))
    return f"{head}\n    def __init__(self):\n{body}\n"


def fields(num_fields: int, head: str) -> str:
    return head + "\n" + "\n".join(f"    a{index}: int" for index in range(num_fields)) + "\n"


def test_the_source_keeps_its_budgets(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = check_budgets.main([str(root / "src")])
    assert capsys.readouterr().out == ""
    assert status == 0


@pytest.mark.parametrize(("num_lines", "fails"), [(400, False), (401, True)])
def test_a_file_may_have_four_hundred_lines(num_lines: int, fails: bool) -> None:  # noqa: FBT001 - a table
    assert bool(breaches("x = 1\n" * num_lines)) is fails


@pytest.mark.parametrize("head", ["def f():", "async def f():"])
@pytest.mark.parametrize(("num_lines", "fails"), [(60, False), (61, True)])
def test_a_function_may_have_sixty_lines(head: str, num_lines: int, fails: bool) -> None:  # noqa: FBT001 - a table
    text = "\n" + head + "\n" + "    x = 1\n" * (num_lines - 1)
    expected = [("lines in function f", 2, num_lines)] if fails else []
    assert breaches(text) == expected


def test_attributes_are_the_distinct_names_assigned_on_self() -> None:
    assert breaches(class_with(12)) == []
    assert breaches(class_with(13)) == [("attributes of class Thing", 1, 13)]
    again = "    def more(self):\n        self.a0, self.extra = 1, 2\n        other.b = 3\n"
    assert breaches(class_with(12) + again) == [("attributes of class Thing", 1, 13)]


def test_slots_count_with_what_is_assigned() -> None:
    slots = "class Thing:\n    __slots__ = (" + ", ".join(f"'a{i}'" for i in range(13)) + ")\n"
    assert breaches(slots) == [("attributes of class Thing", 1, 13)]


@pytest.mark.parametrize(
    "head",
    [
        "@dataclass(frozen=True, slots=True)\nclass Thing:",
        "@dataclasses.dataclass(frozen=True)\nclass Thing:",
        "class Thing(NamedTuple):",
        "class Thing(msgspec.Struct, frozen=True):",
    ],
)
def test_fields_of_a_value_do_not_count(head: str) -> None:
    assert breaches(fields(30, head)) == []


@pytest.mark.parametrize("decorator", ["@dataclass", "@dataclass(slots=True)"])
def test_fields_of_a_dataclass_that_changes_count(decorator: str) -> None:
    text = fields(13, f"{decorator}\nclass Thing:")
    assert breaches(text) == [("attributes of class Thing", 2, 13)]


def test_an_import_inside_a_function_is_hidden_except_in_the_command_line() -> None:
    text = "import os\n\ndef f():\n    def g():\n        from a import b\n    import c\n"
    found = [("import inside a function", 5, 1), ("import inside a function", 6, 1)]
    assert breaches(text) == found
    assert breaches(text, "src/arriero/cli/main.py") == []


def test_a_breach_reads_as_place_figure_and_budget(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "long.py"
    file.write_text("x = 1\n" * 401)
    (tmp_path / "aim.py").write_text("x = 1\n" * 201)
    assert check_budgets.main([str(tmp_path)]) == 1
    assert capsys.readouterr().out == f"{file}:1: lines in the file: 401, budget 400\n"
    assert check_budgets.main(["--aims", str(tmp_path / "aim.py")]) == 0
    assert "201, aim 200" in capsys.readouterr().out
