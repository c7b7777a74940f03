"""RequestWriter: an ask to the bytes of its HTTP request."""

import re
from typing import Any, Final
from urllib.parse import quote

import msgspec

from arriero.bench.ask import Ask, Endpoint
from arriero.bench.client_options import Address, HttpOptions
from arriero.core.errors import ConfigError

PATHS: Final = {Endpoint.COMPLETIONS: "/v1/completions", Endpoint.CHAT: "/v1/chat/completions"}

_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")

_encode: Final = msgspec.json.Encoder().encode


class RequestWriter:
    """Writes requests to one server; what is the same in all of them is made once."""

    def __init__(self, address: Address, options: HttpOptions) -> None:
        """Nothing is opened or looked up.

        Raises:
            ConfigError: the key or a header cannot be sent.
        """
        self._options = options
        if not (key := options.api_key or "").isprintable() or not key.isascii():
            raise ConfigError("the API key holds characters that cannot be sent; is there a line break at its end?")
        lines = [f"host: {address.authority}", "user-agent: arriero-bench"]
        if options.api_key is not None:
            lines.append(f"authorization: Bearer {options.api_key}")
        if not options.reuse_connections:
            lines.append("connection: close")
        for name, value in options.headers.items():
            if _NAME.fullmatch(name) is None or not value.isprintable() or not value.isascii():
                raise ConfigError(f"header {name!r}: {value!r} cannot be sent; write it as NAME: VALUE in plain ASCII")
            lines.append(f"{name}: {value}")
        self._common = "".join(f"{line}\r\n" for line in lines)
        self._prefix = address.prefix
        self._heads = {endpoint: self._head("POST", path) for endpoint, path in PATHS.items()}
        self._stream_options = {"include_usage": True}
        if options.continuous_usage:
            self._stream_options["continuous_usage_stats"] = True

    def post(self, ask: Ask) -> bytes:
        """Head and body."""
        body = _encode(self._body(ask))
        head = self._heads[ask.endpoint]
        accept = b"text/event-stream" if ask.stream else b"application/json"
        name = b"x-request-id: %b\r\n" % _header_value(ask.request_id) if self._options.send_request_id else b""
        return b"%baccept: %b\r\n%bcontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
            head,
            accept,
            name,
            len(body),
            body,
        )

    def get(self, path: str) -> bytes:
        """A request without a body."""
        return self._head("GET", path) + b"accept: application/json\r\n\r\n"

    def _head(self, method: str, path: str) -> bytes:
        target = quote(self._prefix + path, safe="/%:@!$&'()*+,;=~")
        return f"{method} {target} HTTP/1.1\r\n{self._common}".encode()

    def _body(self, ask: Ask) -> dict[str, Any]:
        body: dict[str, Any] = {}
        if self._options.model is not None:
            body["model"] = self._options.model
        if ask.endpoint is Endpoint.CHAT:
            is_text = isinstance(ask.prompt, str)
            body["messages"] = [{"role": "user", "content": ask.prompt}] if is_text else ask.prompt
        else:
            body["prompt"] = ask.prompt
        body["max_tokens"] = ask.max_tokens
        if ask.stream:
            body["stream"] = True
            body["stream_options"] = self._stream_options
        if ask.session_id is not None:
            body["session_id"] = ask.session_id
        body.update(self._options.fields)
        body.update(ask.fields)
        return body


def _header_value(text: str) -> bytes:
    """The id itself if it can stand in a header, else with what cannot as `%XX`."""
    return (text if text.isascii() and text.isprintable() else quote(text, safe=" !#$&'()*+,/:;=?@[]~")).encode()
