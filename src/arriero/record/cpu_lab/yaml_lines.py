"""YAML read strictly: every complaint names its line, no key stands twice, and nothing becomes a value by accident.

PyYAML's composer gives nodes with marks; they are turned into plain values here, and the line of each is kept under
its path, so that whoever checks the values can say where they stand. Anchors, aliases, merge keys and tags are refused:
a configuration that is read by people says what it means in place. Words such as `yes` and `off` stay words.
"""

import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from arriero.core.errors import DataError

YamlPath: TypeAlias = tuple[str | int, ...]
"""Keys and places from the root: `("models", 0, "path")`."""

MAX_BYTES: Final = 1 << 20
MAX_DEPTH: Final = 32
_INTEGER: Final = re.compile(r"[+-]?(?:0|[1-9][0-9]*)", re.ASCII)
_FLOAT: Final = re.compile(r"[+-]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][+-]?[0-9]+)?", re.ASCII)
_LONGEST: Final = 40  # of a number, in digits
_NO_TEXT: Final = re.compile("[\0\ud800-\udfff]")  # no path and no UTF-8 can hold these
_WORDS: Final = MappingProxyType({"null": None, "~": None, "": None, "true": True, "false": False})
_AMBIGUOUS: Final = frozenset({"yes", "no", "on", "off"})
_TEXT_TAG: Final = "tag:yaml.org,2002:str"


class YamlFile(NamedTuple):
    """What a file says.

    Attributes:
        value: dicts, lists, texts, ints, floats, booleans and None.
        lines: path -> line, counted from 1, of the key or, in a list, of the element; () is the root.
    """

    value: Any
    lines: Mapping[YamlPath, int]

    def line_of(self, path: YamlPath) -> int:
        """The line of a path, or of the nearest that stands around it."""
        while path not in self.lines:
            path = path[:-1]
        return self.lines[path]


def read_yaml(path: Path) -> YamlFile:
    """The one document in a file.

    Raises:
        DataError: it cannot be read, is no YAML, or uses what is refused here; names the line.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise DataError(f"{reason}; name a YAML file that can be read", file=str(path)) from None
    return parse_yaml(data, file=str(path))


def parse_yaml(data: bytes, *, file: str) -> YamlFile:
    """The one document in a text; see `read_yaml`."""
    if len(data) > MAX_BYTES:
        raise DataError(f"has more than {MAX_BYTES} bytes; this is no configuration", file=file)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise DataError("not UTF-8; save the file as UTF-8", file=file) from None
    try:
        _check_events(text, file)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        raise _malformed(error, file) from None
    except yaml.YAMLError as error:
        raise DataError(f"malformed YAML ({_one_line(str(error))}); mend it", file=file) from None
    if node is None:
        raise DataError("line 1: holds nothing; write a configuration", file=file, line=1)
    lines: dict[YamlPath, int] = {(): _line(node)}
    return YamlFile(_Reader(file, lines).value(node, ()), MappingProxyType(lines))


class _Reader:
    """Turns nodes into values and notes their lines."""

    def __init__(self, file: str, lines: dict[YamlPath, int]) -> None:
        self._file = file
        self._lines = lines

    def value(self, node: Node, path: YamlPath) -> Any:  # noqa: ANN401 - whatever the file says
        """A node as a plain value."""
        if isinstance(node, MappingNode):
            return self._mapping(node, path)
        if isinstance(node, SequenceNode):
            return self._sequence(node, path)
        assert isinstance(node, ScalarNode), "there are no other nodes"
        return self._scalar(node, path)

    def _mapping(self, node: MappingNode, path: YamlPath) -> dict[str, Any]:
        found: dict[str, Any] = {}
        pairs: list[tuple[Node, Node]] = node.value
        for key_node, value_node in pairs:
            key = self._key(key_node, path)
            inner = (*path, key)
            if key in found:
                first = self._lines[inner]
                raise self._refusal(key_node, inner, f"stands twice, first in line {first}; take one out")
            self._lines[inner] = _line(key_node)
            found[key] = self.value(value_node, inner)
        return found

    def _key(self, node: Node, path: YamlPath) -> str:
        if not isinstance(node, ScalarNode):
            raise self._refusal(node, path, "a key is a list or a table; write a word")
        key = self._text(node, path)
        if key == "<<":
            raise self._refusal(node, path, "merge keys are refused; write the values in place")
        return key

    def _sequence(self, node: SequenceNode, path: YamlPath) -> list[Any]:
        items: list[Node] = node.value
        found: list[Any] = []
        for place, item in enumerate(items):
            inner = (*path, place)
            self._lines[inner] = _line(item)
            found.append(self.value(item, inner))
        return found

    def _scalar(self, node: ScalarNode, path: YamlPath) -> Any:  # noqa: ANN401 - see `value`
        text = self._text(node, path)
        if node.style is not None:  # quoted, or a block of text
            return text
        if text in _WORDS:
            return _WORDS[text]
        if text.lower() in _AMBIGUOUS:
            raise self._refusal(node, path, f"{text} may mean a word or a truth value; write true, false, or quotes")
        return self._number(node, text, path)

    def _number(self, node: ScalarNode, text: str, path: YamlPath) -> int | float | str:
        readings: tuple[tuple[re.Pattern[str], Callable[[str], int | float]], ...] = ((_INTEGER, int), (_FLOAT, float))
        for pattern, kind in readings:
            if pattern.fullmatch(text):
                return self._finite(node, text, path, kind)
        if node.tag != _TEXT_TAG:  # octal, sexagesimal, dates, nan: YAML's own idea of a number
            shown = text[:_LONGEST]
            raise self._refusal(node, path, f"{shown} is read in more than one way; write a decimal number, or quotes")
        return text

    def _finite(self, node: ScalarNode, text: str, path: YamlPath, kind: Callable[[str], int | float]) -> int | float:
        if len(text) <= _LONGEST and math.isfinite(value := kind(text)):
            return value
        raise self._refusal(node, path, f"{text[:_LONGEST]} is too large a number; write a smaller one")

    def _text(self, node: ScalarNode, path: YamlPath) -> str:
        text: str = node.value
        if _NO_TEXT.search(text):
            raise self._refusal(node, path, "holds a zero byte or half a character; take it out")
        return text

    def _refusal(self, node: Node, path: YamlPath, what: str) -> DataError:
        line, field = _line(node), field_name(path)
        place = f"line {line}: {field}: " if field else f"line {line}: "
        return DataError(f"{place}{what}", file=self._file, line=line, field=field or None)


def field_name(path: YamlPath) -> str:
    """A path as a person writes it: `models[0].path`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _check_events(text: str, file: str) -> None:
    """Refuse before anything is built what makes a small file large, or a value depend on a distant line."""
    num_documents = depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        num_documents += isinstance(event, yaml.DocumentStartEvent)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        is_named = isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None
        tag: object = getattr(event, "tag", None)
        complaints = (
            (num_documents > 1, "a second document begins; write one"),
            (depth > MAX_DEPTH, "the nesting is too deep; write it flatter"),
            (is_named, "anchors and aliases are refused; write the values in place"),
            (tag is not None, f"the tag {tag} is refused; write plain values"),
        )
        what = next((words for is_so, words in complaints if is_so), None)
        if what is not None:
            line = 1 if event.start_mark is None else event.start_mark.line + 1
            raise DataError(f"line {line}: {what}", file=file, line=line)


def _malformed(error: yaml.MarkedYAMLError, file: str) -> DataError:
    mark = error.problem_mark or error.context_mark
    line = None if mark is None else mark.line + 1
    place = "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "
    reason = _one_line(error.problem or error.context or "no reason given")
    return DataError(f"{place}malformed YAML ({reason}); mend it", file=file, line=line)


def _line(node: Node) -> int:
    line: int = node.start_mark.line
    return line + 1


def _one_line(text: str) -> str:
    return " ".join(text.split())
