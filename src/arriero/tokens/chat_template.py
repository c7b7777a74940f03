"""ChatTemplate: messages in, token ids out, by the model's own template.

The template is a jinja2 program that came with the model: it runs in a sandbox and is given what such programs expect
(`messages`, `add_generation_prompt`, `bos_token`, `eos_token`, `tools`, `documents`, `raise_exception`,
`strftime_now`, `tojson`, loop controls, `generation` blocks). Its words never mix with the caller's:
`control_text` says how.

Choices that the public schema leaves open:

    developer    becomes system, unless the template's source knows the word
    no content   an empty string, so that templates that join strings go on
    tool calls   arguments are an object where they can be
    today        `strftime_now` reads UTC; a prompt that holds the date changes at midnight
    start token  exactly one where the vocabulary adds one, also if the template writes it itself
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Final, NoReturn

from jinja2 import TemplateError, TemplateSyntaxError, nodes, pass_context
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from arriero.core.errors import ConfigError, InvalidRequest
from arriero.core.ids import TokenId
from arriero.tokens.control_text import ControlTexts, Json, escape_of
from arriero.tokens.messages import ChatMessage, Role, ToolCall
from arriero.tokens.vocabulary import Vocabulary

FALLBACK_TEMPLATE: Final = """\
{% for message in messages %}
{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endfor %}
{% if add_generation_prompt %}
{{ '<|im_start|>assistant\\n' }}
{%- endif %}
"""
"""ChatML, for models whose file carries no template."""

MARK_NAME: Final = "arriero_mark"

# What a template can raise while it runs on messages that it was not written for.
_RENDER_ERRORS: Final = (
    TemplateError, TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError,
)  # fmt: skip


def utc_now() -> datetime:
    """The clock behind `strftime_now`."""
    return datetime.now(tz=UTC)


class ChatTemplate:
    """One compiled template with its vocabulary; read-only, from any thread."""

    def __init__(self, source: str | None, vocabulary: Vocabulary, *, now: Callable[[], datetime] = utc_now) -> None:
        """Compile.

        Args:
            source: the model's template; None for ChatML.
            now: read when the template asks for the date.

        Raises:
            ConfigError: the template is no valid jinja2.
        """
        self._is_fallback = source is None
        self._source = FALLBACK_TEMPLATE if source is None else source
        self._vocabulary = vocabulary
        self._controls = ControlTexts(vocabulary)
        self._knows_developer = Role.DEVELOPER in self._source

        def strftime_now(form: str) -> str:
            return now().strftime(form)

        functions = {"raise_exception": _raise_exception, "strftime_now": strftime_now}
        try:
            self._template = _environment().from_string(self._source, globals=functions)
        except TemplateSyntaxError as error:
            message = f"the model's chat template cannot be read, line {error.lineno}: {error.message}"
            raise ConfigError(f"{message}; use a model file with a sound template") from None

    @property
    def is_fallback(self) -> bool:
        """Whether the model had no template, so that ChatML stands in; a model trained on another form does worse."""
        return self._is_fallback

    def render(self, messages: Sequence[ChatMessage], *, add_generation_prompt: bool = True) -> list[TokenId]:
        """Prompt of a chat.

        Args:
            add_generation_prompt: end with the beginning of the assistant's next message.

        Raises:
            InvalidRequest: the template refuses these messages; its own words are in the text.
        """
        written = json.dumps([asdict(message) for message in messages], ensure_ascii=False)
        mark = self._controls.choose_mark((self._source, written))
        text = self._text(messages, mark, add_generation_prompt=add_generation_prompt)
        return self._with_start_token(self._controls.encode(text, mark))

    def _text(self, messages: Sequence[ChatMessage], mark: str, *, add_generation_prompt: bool) -> str:
        """What the template makes of it, marks included."""
        try:
            return self._template.render(
                messages=[self._entry(message, mark) for message in messages],
                add_generation_prompt=add_generation_prompt,
                bos_token=self._vocabulary.bos_text,
                eos_token=self._vocabulary.eos_text,
                tools=None,
                documents=None,
                **{MARK_NAME: mark},
            )
        except _RENDER_ERRORS as error:
            words = " ".join(str(error).replace(mark, "").split()) or type(error).__name__
            message = f"the model's chat template refuses these messages: {words}"
            raise InvalidRequest(message, field="messages") from error

    def _entry(self, message: ChatMessage, mark: str) -> dict[str, Json]:
        """The message as templates know it, the caller's words broken up; the role is from a closed list, and stays."""
        is_unknown = message.role is Role.DEVELOPER and not self._knows_developer
        entry: dict[str, Json] = {
            "role": str(Role.SYSTEM if is_unknown else message.role),
            "content": self._controls.break_up(message.content, mark),
        }
        if message.name is not None:
            entry["name"] = self._controls.break_up(message.name, mark)
        if message.tool_call_id is not None:
            entry["tool_call_id"] = self._controls.break_up(message.tool_call_id, mark)
        if message.tool_calls:
            entry["tool_calls"] = [self._call_entry(call, mark) for call in message.tool_calls]
        return entry

    def _call_entry(self, call: ToolCall, mark: str) -> dict[str, Json]:
        name = self._controls.break_up(call.name, mark)
        function = {"name": name, "arguments": self._controls.break_value(call.arguments, mark)}
        return {"id": self._controls.break_up(call.call_id, mark), "type": "function", "function": function}

    def _with_start_token(self, tokens: list[TokenId]) -> list[TokenId]:
        if not self._vocabulary.adds_start_token:
            return tokens
        start = self._vocabulary.encode("", add_special=True, parse_special=False)[0]
        # Only the template can have written it: nothing of the caller's is a control token.
        return tokens if tokens[:1] == [start] else [start, *tokens]


def _environment() -> ImmutableSandboxedEnvironment:
    """What templates of language models are written for."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.loopcontrols", GenerationBlocks],
    )
    environment.filters["tojson"] = _to_json  # pyright: ignore[reportUnknownMemberType] - declared without types
    return environment


class GenerationBlocks(Extension):
    """`{% generation %}`: marks for training what the assistant said; here its body, as it is."""

    tags = {"generation"}  # noqa: RUF012 - jinja2 declares it so

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """Take the block for its body."""
        next(parser.stream)
        return list(parser.parse_statements(("name:endgeneration",), drop_needle=True))


def _raise_exception(words: object) -> NoReturn:
    raise TemplateError(str(words))


@pass_context
def _to_json(
    context: Context,
    value: object,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    *,
    ensure_ascii: bool = False,
    sort_keys: bool = False,
) -> str:
    """JSON as templates expect it: nothing escaped for HTML; a mark stays a mark."""
    text = json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    mark = str(context[MARK_NAME])
    return text.replace(escape_of(mark), mark)
