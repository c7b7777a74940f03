"""Service: everything that the endpoints need, put together once by whoever starts the server."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from arriero.core.choices import CacheScope, PolicyWord
from arriero.core.errors import UnknownModel
from arriero.engine.engine import Engine
from arriero.engine.explain_book import ExplainBook
from arriero.http.exposition import MetricsPage
from arriero.http.metrics import Metrics
from arriero.http.request_log import RequestLog
from arriero.tokens.chat_template import ChatTemplate
from arriero.tokens.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions:
    """How the endpoints behave.

    Attributes:
        api_keys: keys of which every request must show one; empty: none is needed.
        max_body_bytes: a longer body is answered with 413.
        max_header_bytes: a longer request head is answered with 431.
        max_prompt_tokens: a longer prompt is answered with 413; None: what the context holds.
        strict_fields: a body field outside the interface is an error instead of being ignored.
        diagnostics, allow_shutdown: both must be on for `POST /shutdown` to exist.
        default_temperature: of `/v1` requests that name none; 1 as OpenAI's, 0 for greedy.
        cors_origins: origins that browsers may ask from; `*` is any.
        tokenizer_threads: workers that read messages, run the template and tokenise.
        ask_timeout_s: how long pages that ask the engine wait for its next step boundary.
        queue_timeout_ms: a request that has not started after so long is answered with 503; None: it waits on.
        head_timeout_s: from the first byte of a request to the end of its head.
        body_timeout_s: from there to the end of its body.
        cache_scope: which requests share prefixes.
    """

    api_keys: tuple[str, ...] = field(default=(), repr=False)
    max_body_bytes: int = 8 << 20
    max_header_bytes: int = 64 << 10
    max_prompt_tokens: int | None = None
    strict_fields: bool = False
    diagnostics: bool = False
    allow_shutdown: bool = False
    default_temperature: float = 1.0
    cors_origins: tuple[str, ...] = ("*",)
    tokenizer_threads: int = 2
    ask_timeout_s: float = 30.0
    queue_timeout_ms: int | None = None
    head_timeout_s: float = 20.0
    body_timeout_s: float = 120.0
    cache_scope: CacheScope = CacheScope.KEY


def _no_stop() -> None:
    """Nobody listens: the engine is shut down by the endpoint itself, and there is no listener."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """One engine with its vocabulary, as clients see it.

    Attributes:
        model_id: the name that clients send and see.
        aliases: other names that are accepted.
        created: when the server started, Unix seconds.
        metrics: the observer that was given to the engine, told as well what HTTP answers.
        page: what `/metrics` shows of it; None: no such page.
        request_log: told the row of every request; None: no rows are made and no clock is read for them.
        book: the observer that explains requests, given to the engine as well; None: nobody can ask.
        config: what `/debug/config` shows; without secrets.
        stop: called by `/shutdown` after the engine was told to drain; stops the listener.
        policy: in which order the waiting start, as a word or a class.
        no_reuse: why no prefix is reused, or None if prefixes are.
        flush: waits until everything that was saved is on disk; None: nothing outlives the server, and there is no
            `/slots`.
    """

    engine: Engine
    vocabulary: Vocabulary
    template: ChatTemplate
    model_id: str
    created: int
    aliases: Sequence[str] = ()
    options: HttpOptions = field(default_factory=HttpOptions)
    metrics: Metrics | None = None
    page: MetricsPage | None = None
    request_log: RequestLog | None = None
    book: ExplainBook | None = None
    config: Mapping[str, object] = field(default_factory=dict[str, object])
    stop: Callable[[], None] = _no_stop
    policy: str = PolicyWord.FCFS.value
    no_reuse: str | None = None
    flush: Callable[[], None] | None = None

    @property
    def has_shutdown(self) -> bool:
        """Whether `POST /shutdown` exists."""
        return self.options.diagnostics and self.options.allow_shutdown

    def check_model(self, name: str | None) -> None:
        """Accept the served model's names, and no name.

        Raises:
            UnknownModel: any other name.
        """
        if name is not None and name != self.model_id and name not in self.aliases:
            message = f"the model {name[:100]!r} is not served here; use {self.model_id!r}"
            raise UnknownModel(message, field="model")


def unix_now() -> int:
    """Whole seconds since 1970, for `created`; nothing is measured with it."""
    return int(datetime.now(UTC).timestamp())
