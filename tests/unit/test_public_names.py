"""The public names are typed, lazy, and the same list three times."""

import ast
import inspect
from pathlib import Path

import pytest

import arriero


def test_checkers_and_interpreters_see_the_same_names() -> None:
    tree = ast.parse(Path(inspect.getfile(arriero)).read_text(encoding="utf-8"))
    typed = {
        (node.module, alias.name)
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    lazy = {(module, name) for module, names in arriero._HOMES for name in names}
    assert typed == lazy
    assert {name for _, name in lazy} == set(arriero.__all__)


def test_every_name_resolves_and_is_listed() -> None:
    for name in arriero.__all__:
        assert getattr(arriero, name).__name__ == name
        assert name in dir(arriero)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Mule'"):
        _ = arriero.Mule
