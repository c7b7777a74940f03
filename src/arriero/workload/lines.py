"""One line of a workload file: bytes to a record and back.

The quick way is msgspec's typed decoder. It takes the last of two equal keys without a word, so a line that is not
byte for byte what the writer would have written is looked at again, key by key. Lines that fail are diagnosed in
`diagnosis.py`, which knows the remedies; there is one reason for a refusal whichever way found it.
"""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, cast

import msgspec
from msgspec import UNSET, Meta, UnsetType

from arriero.core.errors import BadWorkload
from arriero.workload.diagnosis import ID_PATTERN, complain, diagnose
from arriero.workload.records import COUNT_MAX, SCHEMA, WorkloadClass, WorkloadRecord
from arriero.workload.tokens import TOKEN_MAX, TOKEN_MIN, PackedTokens

_Count = Annotated[int, Meta(ge=0, le=COUNT_MAX)]
_Token = Annotated[int, Meta(ge=TOKEN_MIN, le=TOKEN_MAX)]


class _Line(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A record as it stands in JSON: an optional field is there or not, and never null."""

    arrival_time_us: _Count
    max_new_tokens: _Count
    prompt_token_count: _Count
    request_id: Annotated[str, Meta(pattern=ID_PATTERN)]
    workload_class: WorkloadClass
    schema_version: Literal["serving-workload-v1"]
    deadline_us: _Count | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET
    prefix_group: Annotated[str, Meta(min_length=1)] | UnsetType = UNSET
    prompt_tokens: list[_Token] | UnsetType = UNSET


_DECODER: Final = msgspec.json.Decoder(_Line)
_ENCODER: Final = msgspec.json.Encoder(order="sorted")


def decode_line(text: bytes) -> WorkloadRecord:
    """The record of one line, given without its line end.

    Raises:
        BadWorkload: names the field and the remedy; `line` and `file` are left to whoever knows them.
    """
    line = _decode(text)
    if _encode(line) != text:
        complain(text)
    tokens = line.prompt_tokens
    return WorkloadRecord(
        request_id=line.request_id,
        arrival_time_us=line.arrival_time_us,
        prompt_token_count=line.prompt_token_count,
        max_new_tokens=line.max_new_tokens,
        workload_class=line.workload_class,
        prompt_tokens=None if tokens is UNSET else PackedTokens(tokens),
        prefix_group=None if line.prefix_group is UNSET else line.prefix_group,
        deadline_us=None if line.deadline_us is UNSET else line.deadline_us,
        metadata=None if line.metadata is UNSET else line.metadata,
    )


def encode_line(record: WorkloadRecord) -> bytes:
    """The one line, without its line end, that says this record.

    Raises:
        BadWorkload: the record breaks a rule of the format.
    """
    line = _Line(
        schema_version=SCHEMA,
        request_id=record.request_id,
        arrival_time_us=record.arrival_time_us,
        prompt_token_count=record.prompt_token_count,
        max_new_tokens=record.max_new_tokens,
        workload_class=record.workload_class,
        prompt_tokens=UNSET if record.prompt_tokens is None else record.prompt_tokens.to_list(),
        prefix_group=UNSET if record.prefix_group is None else record.prefix_group,
        deadline_us=UNSET if record.deadline_us is None else record.deadline_us,
        metadata=UNSET if record.metadata is None else dict(record.metadata),
    )
    try:
        text = _encode(line)
    except (TypeError, ValueError, RecursionError) as error:  # UnicodeEncodeError is a ValueError
        reason = "text with a lone surrogate" if isinstance(error, UnicodeError) else str(error)
        raise BadWorkload(f"request {record.request_id!r}: cannot be written as JSON ({reason})") from None
    _decode(text)  # what is written can be read: the same rules, at the speed of the decoder
    return text


def _decode(text: bytes) -> _Line:
    """The line by all rules except that against equal keys."""
    try:
        line = _DECODER.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise diagnose(text, str(error)) from None
    if line.prompt_tokens is not UNSET and len(line.prompt_tokens) != line.prompt_token_count:
        complain(text)
    return line


def _encode(line: _Line) -> bytes:
    if line.metadata is UNSET or not _holds_unlike_numbers(line.metadata):
        return _ENCODER.encode(line)
    values = {name: value for name, value in msgspec.structs.asdict(line).items() if value is not UNSET}
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode()


def _holds_unlike_numbers(value: object) -> bool:
    """Whether there are numbers that msgspec and the standard library spell differently: floats, huge integers."""
    if isinstance(value, Mapping):
        return any(_holds_unlike_numbers(each) for each in cast("Mapping[object, object]", value).values())
    if isinstance(value, list | tuple):
        return any(_holds_unlike_numbers(each) for each in cast("list[object]", value))
    return isinstance(value, float) or (isinstance(value, int) and abs(value) > COUNT_MAX)
