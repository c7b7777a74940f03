"""Every public module, class and function of the package says what it is for."""

import ast
from collections.abc import Iterator
from pathlib import Path

DOCUMENTED = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def undocumented(body: list[ast.stmt], owner: str) -> Iterator[str]:
    for node in body:
        if not isinstance(node, DOCUMENTED) or node.name.startswith("_") or is_variant(node):
            continue
        name = f"{owner}.{node.name}"
        if not ast.get_docstring(node):
            yield name
        if isinstance(node, ast.ClassDef):
            yield from undocumented(node.body, name)


def is_variant(node: DOCUMENTED) -> bool:
    """Overloads, setters and overrides are documented where they start."""
    last = {ast.unparse(decorator).rpartition(".")[2] for decorator in node.decorator_list}
    return bool(last & {"overload", "setter", "override"})


def test_everything_public_has_a_docstring(root: Path) -> None:
    missing = []
    for path in sorted((root / "src" / "arriero").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        name = str(path.relative_to(root))
        if not ast.get_docstring(tree):
            missing.append(name)
        missing += undocumented(tree.body, name)
    assert missing == []
