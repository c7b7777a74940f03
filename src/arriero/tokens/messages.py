"""Messages of a chat, read from JSON values: every form of the public schema, or an error that names the field.

What a caller may write, and what becomes of it:

    content: text                 that text
    content: list of parts        texts of the parts, joined as they stand; images, audio and files are refused
    content: null, or absent      no text; only an assistant may say nothing
    refusal                       an assistant's refusal is what it said, if it said nothing else
    tool_calls                    kept; arguments become an object where their text is one, as templates expect it
    any other field that is null  absent
    fields outside the schema     ignored

`role` and the `type` of a tool call come from closed lists; all other strings are the caller's own words.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeGuard

from arriero.core.errors import InvalidRequest, Unsupported
from arriero.tokens.control_text import Json
from arriero.tokens.vocabulary import require_unicode

MAX_NESTING: Final = 64
"""Levels of a tool call's arguments; what is deeper stays text, as walking through it could exhaust the stack."""


class Role(StrEnum):
    """Who speaks."""

    SYSTEM = "system"
    DEVELOPER = "developer"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call that an assistant made earlier.

    Attributes:
        arguments: the object that the caller's text stands for, or the text itself where it is no object.
    """

    call_id: str
    name: str
    arguments: Mapping[str, Json] | str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessage:
    """One message.

    Attributes:
        content: what was said; empty for nothing.
        name: of the speaker, if there are several of one role.
        tool_calls: of an assistant.
        tool_call_id: the call that a tool's message answers.
    """

    role: Role
    content: str = ""
    name: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None


def parse_messages(value: object, field: str = "messages") -> tuple[ChatMessage, ...]:
    """Messages from a decoded JSON value.

    Raises:
        InvalidRequest: what is wrong, and in which field; Unsupported: a part or role that arriero does not do.
    """
    if not _is_list(value) or not value:
        raise InvalidRequest(f"{field} must be a list of at least one message", field=field)
    return tuple(_message(entry, f"{field}[{i}]") for i, entry in enumerate(value))


def _message(value: object, field: str) -> ChatMessage:
    entry = _object(value, field)
    role = _role(entry, field)
    is_assistant = role is Role.ASSISTANT
    for name in ("function_call", "audio"):
        if is_assistant and entry.get(name) is not None:
            raise Unsupported(f"{field}.{name} is not supported", field=f"{field}.{name}")
    content = _content(entry, field)
    if content is None and is_assistant:
        content = _optional_text(entry, "refusal", field) or ""
    if content is None:
        raise InvalidRequest(f"{field}.content is missing: a {role} message needs text", field=f"{field}.content")
    tool_call_id = _optional_text(entry, "tool_call_id", field) if role is Role.TOOL else None
    if role is Role.TOOL and tool_call_id is None:
        message = f"{field}.tool_call_id is missing: a tool message names the call that it answers"
        raise InvalidRequest(message, field=f"{field}.tool_call_id")
    return ChatMessage(
        role=role,
        content=content,
        name=_optional_text(entry, "name", field),
        tool_calls=_tool_calls(entry, field) if is_assistant else (),
        tool_call_id=tool_call_id,
    )


def _role(entry: Mapping[str, object], field: str) -> Role:
    role, field = entry.get("role"), f"{field}.role"
    if role == "function":
        raise Unsupported(f"{field}: function messages are not supported, send role tool", field=field)
    if not isinstance(role, str) or role not in list(Role):
        raise InvalidRequest(f"{field} must be one of {', '.join(Role)}", field=field)
    return Role(role)


def _content(entry: Mapping[str, object], field: str) -> str | None:
    content, field = entry.get("content"), f"{field}.content"
    if content is None:
        return None
    if isinstance(content, str):
        return require_unicode(content, field)
    if not _is_list(content):
        raise InvalidRequest(f"{field} must be text or a list of parts", field=field)
    if not content:
        raise InvalidRequest(f"{field} is an empty list: send at least one part", field=field)
    return "".join(_part(part, f"{field}[{i}]") for i, part in enumerate(content))


def _part(value: object, field: str) -> str:
    part = _object(value, field)
    kind = part.get("type")
    if not isinstance(kind, str):
        raise InvalidRequest(f"{field}.type is missing: send a part of type text", field=f"{field}.type")
    if kind not in {"text", "refusal"}:
        message = f"{field}.type {kind[:40]!r} is not supported: send parts of type text"
        raise Unsupported(message, field=f"{field}.type")
    return _text(part, kind, field)


def _tool_calls(entry: Mapping[str, object], field: str) -> tuple[ToolCall, ...]:
    value, field = entry.get("tool_calls"), f"{field}.tool_calls"
    if value is None:
        return ()
    if not _is_list(value):
        raise InvalidRequest(f"{field} must be a list", field=field)
    return tuple(_tool_call(call, f"{field}[{i}]") for i, call in enumerate(value))


def _tool_call(value: object, field: str) -> ToolCall:
    call = _object(value, field)
    # Some clients leave the type out; the schema's other type has another shape.
    if (call.get("type") or "function") != "function":
        raise Unsupported(f"{field}.type is not supported: send calls of type function", field=f"{field}.type")
    function = _object(call.get("function"), f"{field}.function")
    arguments = _text(function, "arguments", f"{field}.function")
    return ToolCall(
        call_id=_text(call, "id", field),
        name=_text(function, "name", f"{field}.function"),
        arguments=_arguments(arguments, f"{field}.function.arguments"),
    )


def _arguments(text: str, field: str) -> Mapping[str, Json] | str:
    """The object that the text stands for; a model may have written no object, and its words are kept then."""
    try:
        value: Json = json.loads(text)
        # Escapes inside the text may hide what was refused outside.
        require_unicode(json.dumps(value, ensure_ascii=False), field)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, Mapping) and _is_shallow(value, MAX_NESTING) else text


def _is_shallow(value: Json, levels: int) -> bool:
    if isinstance(value, str) or not isinstance(value, Sequence | Mapping):
        return True
    entries = value.values() if isinstance(value, Mapping) else value
    return levels > 0 and all(_is_shallow(entry, levels - 1) for entry in entries)


def _text(entry: Mapping[str, object], name: str, field: str) -> str:
    text = _optional_text(entry, name, field)
    if text is None:
        raise InvalidRequest(f"{field}.{name} is missing: send text", field=f"{field}.{name}")
    return text


def _optional_text(entry: Mapping[str, object], name: str, field: str) -> str | None:
    value = entry.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidRequest(f"{field}.{name} must be text", field=f"{field}.{name}")
    return require_unicode(value, f"{field}.{name}")


def _object(value: object, field: str) -> Mapping[str, object]:
    if not _is_object(value):
        raise InvalidRequest(f"{field} must be an object", field=field)
    return value


def _is_list(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, list | tuple)


def _is_object(value: object) -> TypeGuard[Mapping[str, object]]:
    return isinstance(value, dict)
