"""Check the budgets that no linter checks; one line for each breach, with figure and budget.

| budget | fails above | what is counted |
| --- | --- | --- |
| lines in a file | 400 (200 is the aim, `--aims` lists what is over it) | all lines |
| lines in a function | 60 | from `def` to its end, docstring included, decorators not |
| attributes of a class | 12 | see below |
| imports inside functions | 0, outside the folder `cli` | each statement; `if TYPE_CHECKING` is none |

Attributes are the distinct names that a class keeps on its objects: names assigned as `self.name`
in any of its methods, and names in `__slots__`. Fields of a value (a frozen dataclass, a
`NamedTuple`, a `msgspec.Struct`) are not counted: a value has as many parts as the thing it
describes, and nobody changes them. Fields of a dataclass that is not frozen are state, and count.

Usage: `python tools/check_budgets.py [--aims] PATH...`; exit 1 if a budget is broken.
"""

import argparse
import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FILE_AIM = 200
FILE_LINES = 400
FUNCTION_LINES = 60
CLASS_ATTRIBUTES = 12
VALUE_BASES = frozenset({"NamedTuple", "Struct", "Protocol", "TypedDict"})

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


class Breach(NamedTuple):
    """One place where a figure is over its budget."""

    path: Path
    line: int
    what: str
    figure: int
    budget: int

    def __str__(self) -> str:
        """`path:line: what: figure, budget N`."""
        return f"{self.path}:{self.line}: {self.what}: {self.figure}, budget {self.budget}"


def check_file(path: Path, text: str) -> Iterator[Breach]:
    """All breaches in one file, in the order of the table above."""
    tree = ast.parse(text, filename=str(path))
    num_lines = len(text.splitlines())
    if num_lines > FILE_LINES:
        yield Breach(path, 1, "lines in the file", num_lines, FILE_LINES)
    functions = [node for node in ast.walk(tree) if isinstance(node, FunctionNode)]
    for function in functions:
        length = (function.end_lineno or function.lineno) - function.lineno + 1
        if length > FUNCTION_LINES:
            what = f"lines in function {function.name}"
            yield Breach(path, function.lineno, what, length, FUNCTION_LINES)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            num_attributes = len(attributes(node))
            if num_attributes > CLASS_ATTRIBUTES:
                what = f"attributes of class {node.name}"
                yield Breach(path, node.lineno, what, num_attributes, CLASS_ATTRIBUTES)
    if "cli" not in path.parts:
        for line in hidden_imports(functions):
            yield Breach(path, line, "import inside a function", 1, 0)


def hidden_imports(functions: list[FunctionNode]) -> list[int]:
    """The lines of import statements inside functions, each once, ascending."""
    inner = (node for function in functions for node in ast.walk(function))
    return sorted({node.lineno for node in inner if isinstance(node, ast.Import | ast.ImportFrom)})


def attributes(node: ast.ClassDef) -> set[str]:
    """The names that count as attributes of a class; none for a value."""
    if is_value(node):
        return set()
    names: set[str] = set()
    for statement in node.body:
        if isinstance(statement, FunctionNode):
            names |= assigned_on_self(statement)
        elif isinstance(statement, ast.Assign) and "__slots__" in target_names(statement):
            names |= strings(statement.value)
        elif isinstance(statement, ast.AnnAssign) and is_dataclass(node):
            names |= {name.id for name in [statement.target] if isinstance(name, ast.Name)}
    return names


def is_value(node: ast.ClassDef) -> bool:
    """Whether a class is a frozen dataclass, a named tuple, a struct or a protocol."""
    if any(last_name(base) in VALUE_BASES for base in node.bases):
        return True
    return any(
        keyword.arg == "frozen" and isinstance(keyword.value, ast.Constant) and keyword.value.value is True
        for decorator in dataclass_decorators(node)
        if isinstance(decorator, ast.Call)
        for keyword in decorator.keywords
    )


def is_dataclass(node: ast.ClassDef) -> bool:
    """Whether a class is a dataclass, frozen or not."""
    return bool(dataclass_decorators(node))


def dataclass_decorators(node: ast.ClassDef) -> list[ast.expr]:
    """The decorators of a class that make it a dataclass."""
    return [decorator for decorator in node.decorator_list if last_name(decorator) == "dataclass"]


def assigned_on_self(function: FunctionNode) -> set[str]:
    """The names that a method assigns on its first argument."""
    arguments = function.args.posonlyargs + function.args.args
    if not arguments:
        return set()
    return {
        node.attr
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == arguments[0].arg == "self"
    }


def target_names(statement: ast.Assign) -> set[str]:
    """The plain names that a statement assigns to."""
    return {target.id for target in statement.targets if isinstance(target, ast.Name)}


def strings(value: ast.expr) -> set[str]:
    """The string constants anywhere in an expression."""
    return {node.value for node in ast.walk(value) if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def last_name(node: ast.expr) -> str:
    """`dataclass` for `dataclass`, `dataclasses.dataclass` and `dataclass(...)`; empty if neither."""
    match node:
        case ast.Call(func=function):
            return last_name(function)
        case ast.Subscript(value=value):
            return last_name(value)
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case _:
            return ""


def python_files(paths: list[Path]) -> list[Path]:
    """The files named, and all Python files under the folders named, sorted."""
    found = {file for path in paths for file in (path.rglob("*.py") if path.is_dir() else [path])}
    return sorted(found)


def main(arguments: list[str] | None = None) -> int:
    """Print every breach under the paths given; 1 if there is one, else 0."""
    parser = argparse.ArgumentParser(description="Check the budgets that no linter checks.")
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--aims", action="store_true", help="list files over the aim as well")
    options = parser.parse_args(arguments)
    num_breaches = 0
    for path in python_files(options.paths):
        text = path.read_text(encoding="utf-8")
        for breach in check_file(path, text):
            num_breaches += 1
            print(breach)
        num_lines = len(text.splitlines())
        if options.aims and FILE_AIM < num_lines <= FILE_LINES:
            print(f"{path}:1: over the aim: {num_lines}, aim {FILE_AIM}")
    return 1 if num_breaches else 0


if __name__ == "__main__":
    sys.exit(main())
