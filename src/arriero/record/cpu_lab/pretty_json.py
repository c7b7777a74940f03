"""JSON for files that people read and that differ line by line: indented, with a line end at the end."""

import msgspec


def pretty_json(value: msgspec.Struct) -> bytes:
    """The bytes of a file; fields in the order of their declaration."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"
