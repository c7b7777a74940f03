"""What is wrong with a line of a workload file: the field, the rule that it breaks, and the remedy.

Slow and thorough; a sound file in the writer's own form never comes here.
"""

import json
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any, Final, NamedTuple, NoReturn, cast

from arriero.core.errors import BadWorkload
from arriero.workload.records import COUNT_MAX, SCHEMA, WorkloadClass
from arriero.workload.tokens import TOKEN_MAX, TOKEN_MIN

# Everything at which `str.splitlines` cuts, and the tab.
_BREAKS: Final = "\t\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
ID_PATTERN: Final = rf"\A[^{_BREAKS}]+\Z"


class _Rule(NamedTuple):
    field: str
    holds: Callable[[Any], bool]
    says: str  # after "must be"
    required: bool = True


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= COUNT_MAX


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value) and not any(each in value for each in _BREAKS)


def _is_token(value: object) -> bool:
    return type(value) is int and TOKEN_MIN <= value <= TOKEN_MAX


def _are_tokens(value: object) -> bool:
    return isinstance(value, list) and all(_is_token(each) for each in cast("list[object]", value))


def _is_label(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _is_schema(value: object) -> bool:
    return value == SCHEMA


def _is_class(value: object) -> bool:
    return value in _CLASSES


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


_COUNT: Final = "an integer from 0 to 2^63 - 1 (true and false are none)"
_CLASSES: Final = tuple(str(each) for each in WorkloadClass)
_RULES: Final = (
    _Rule("schema_version", _is_schema, f'"{SCHEMA}"'),
    _Rule("request_id", _is_name, "a non-empty string without tabs and line breaks"),
    _Rule("arrival_time_us", _is_count, _COUNT),
    _Rule("prompt_token_count", _is_count, _COUNT),
    _Rule("max_new_tokens", _is_count, _COUNT),
    _Rule("workload_class", _is_class, f"one of {', '.join(_CLASSES)}"),
    _Rule("prompt_tokens", _are_tokens, "int32 in a list, or left out", required=False),
    _Rule("prefix_group", _is_label, "a non-empty string or left out", required=False),
    _Rule("deadline_us", _is_count, f"{_COUNT} or left out", required=False),
    _Rule("metadata", _is_object, "an object or left out", required=False),
)
_FIELDS: Final = tuple(rule.field for rule in _RULES)


def diagnose(text: bytes, reason: str) -> BadWorkload:
    """What is wrong with a line that the decoder refused for the given reason."""
    try:
        complain(text)
    except BadWorkload as found:
        return found
    return BadWorkload(f"not a record ({reason}); write one JSON object of the fields {', '.join(_FIELDS)}")


def complain(text: bytes) -> None:
    """Look at every rule of one line, given without its line end.

    Raises:
        BadWorkload: one is broken.
    """
    if not text.strip():
        raise BadWorkload("blank; take the line out")
    values = _parse(text)
    if not isinstance(values, dict):
        raise BadWorkload(f"is {_shown(values)}; write one JSON object with the fields of {SCHEMA}")
    record = cast("dict[str, Any]", values)
    for name in record:
        if name not in _FIELDS:
            match = get_close_matches(name, _FIELDS, n=1)
            remedy = f"did you mean {match[0]}?" if match else "put what is your own under metadata"
            raise BadWorkload(f"{_safe(name)}: unknown field; {remedy}", field=name)
    for rule in _RULES:
        _check(rule, record)
    tokens = record.get("prompt_tokens")
    if tokens is not None and len(tokens) != record["prompt_token_count"]:
        raise BadWorkload(
            f"prompt_token_count: is {record['prompt_token_count']}, but prompt_tokens has {len(tokens)}; "
            "make them equal",
            field="prompt_token_count",
        )


def _check(rule: _Rule, record: dict[str, Any]) -> None:
    if rule.field not in record:
        if rule.required:
            raise BadWorkload(f"{rule.field}: missing; must be {rule.says}", field=rule.field)
        return
    value = record[rule.field]
    if not rule.holds(value):
        place, shown = rule.field, value
        if rule.field == "prompt_tokens" and isinstance(value, list):
            tokens = cast("list[object]", value)
            index = next(index for index, token in enumerate(tokens) if not _is_token(token))
            place, shown = f"{rule.field}[{index}]", tokens[index]
        raise BadWorkload(f"{place}: must be {rule.says}, not {_shown(shown)}", field=rule.field)


def _parse(text: bytes) -> object:
    try:
        decoded = text.decode()
    except UnicodeDecodeError as error:
        raise BadWorkload(f"not UTF-8 at byte {error.start + 1}; save the file as UTF-8") from None
    try:
        values: object = json.loads(decoded, object_pairs_hook=_without_twins, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise BadWorkload(
            f"malformed JSON at column {error.colno} ({error.msg.lower()}); write one whole JSON object on each line"
        ) from None
    except RecursionError:
        raise BadWorkload("metadata: nested too deeply; flatten it", field="metadata") from None
    except ValueError:
        raise BadWorkload("a number has too many digits; write it as a string under metadata") from None
    _refuse_surrogates(values, decoded)
    return values


def _without_twins(pairs: Iterable[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in pairs:
        if name in found:
            raise BadWorkload(f"{_safe(name)}: given twice in one object; keep one", field=name)
        found[name] = value
    return found


def _refuse_constant(word: str) -> NoReturn:
    raise BadWorkload(f"{word} is no number in JSON; write null or a string")


def _refuse_surrogates(values: object, decoded: str) -> None:
    if "\\u" not in decoded:
        return
    fields = cast("dict[str, object]", values) if isinstance(values, dict) else {}
    for name, value in fields.items():
        try:
            json.dumps({name: value}, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise BadWorkload(
                f"{_safe(name)}: half a surrogate pair is no character; write the whole pair or the character",
                field=_safe(name),
            ) from None


def _safe(name: str) -> str:
    """A name that can be printed on one line of any terminal."""
    return name if name.isprintable() and name else ascii(name)


def _shown(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
