"""What a server says when it is ready: the model, the sizes, every setting, and a `curl` line that works."""

import json
import logging
import shlex
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TextIO

from rich.console import Console
from rich.table import Table

from arriero import __version__
from arriero.cli.advice import Advice
from arriero.cli.cost_profiles import command
from arriero.cli.loading import LoadedModel, adapts_threads, no_reuse
from arriero.core.config import OPTIONS, CacheScope, LogFormat, ServeConfig, SessionReuse
from arriero.core.config_rules import public_view
from arriero.core.option import Option, Plain

logger = logging.getLogger(__name__)

ASKS: Final = {"messages": [{"role": "user", "content": "What is a mule?"}], "max_tokens": 64, "temperature": 0}
THREADS_FOLLOW: Final = " at most: as many as are fastest for each step, and fewer beside a busy neighbour"
ANY_ADDRESS: Final = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 - shown as one to connect to


@dataclass(frozen=True, slots=True, kw_only=True)
class Banner:
    """Everything that is told.

    Attributes:
        config: what holds.
        given: the same before what nobody gave was found out, such as the number of threads.
        port: the one that was got.
        loaded: the model.
        advice: of a kept recommendation; None where none was looked for.
    """

    config: ServeConfig
    given: ServeConfig
    port: int
    loaded: LoadedModel
    advice: Advice | None = None

    @property
    def url(self) -> str:
        """Where clients on this machine connect."""
        host = ANY_ADDRESS.get(self.config.host, self.config.host)
        scheme = "http" if self.config.ssl_certfile is None else "https"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def curl(self) -> str:
        """A command that asks for a chat completion; with TLS it trusts the server's own certificate."""
        words = ["curl", f"{self.url}/v1/chat/completions", "-H", "Content-Type: application/json"]
        if self.config.ssl_certfile is not None:
            words += ["--cacert", self.config.ssl_certfile]
        key = ' -H "Authorization: Bearer $API_KEY"' if self.config.api_key else ""
        return f"{shlex.join(words)}{key} -d {shlex.quote(json.dumps(ASKS))}"

    def sizes(self) -> dict[str, str]:
        """What can run at once, and how long a request can be."""
        limits, config = self.loaded.backend.limits, self.config
        running = limits.num_sequences - config.retained_ids
        layout = "one pool for all" if limits.unified else "a KV stream each"
        return {
            "sequences": f"{limits.num_sequences} ids: {running} running + {config.retained_ids} retained",
            "each holds": f"{limits.sequence_limit:,} tokens, prompt and answer together ({layout})",
            "memory": f"{limits.num_cells:,} KV cells in all",
            "waiting": _waiting(config),
            "a step": f"up to {limits.num_rows} rows, {limits.micro_batch} computed together",
            "threads": str(config.threads) + (THREADS_FOLLOW if adapts_threads(config, self.loaded.cost) else ""),
            "cost profile": self._profile(),
            **self._recommendation(),
        }

    def _recommendation(self) -> dict[str, str]:
        """Where thread counts come from, and which file would be faster."""
        if self.advice is None:
            return {}
        faster = self.advice.faster_file
        return {
            "recommendation": self.advice.words(self.loaded.threads),
            **({} if faster is None else {"faster file": faster}),
        }

    def _profile(self) -> str:
        """Where predictions come from."""
        profile = self.loaded.profile
        return f"none; make one with: {command(self.given)}" if profile is None else profile.words

    def reuse(self) -> dict[str, str]:
        """Whose prefixes are shared, and how much is kept of them."""
        config, support = self.config, self.loaded.backend.reuse_support
        if reason := no_reuse(config, support):
            return {"prefixes": f"not reused ({reason})"}
        rules = (
            ""
            if config.session_reuse is SessionReuse.OFF
            else f", by the rules of --session-reuse {config.session_reuse}"
        )
        has_store = support.save and config.host_mib > 0
        kept = [f"{config.host_mib:,} MiB outside the context" if has_store else "only in the context"]
        if support.save and config.cache_dir is not None:
            kept.append(f"over restarts in {config.cache_dir}")
        if config.retained_ttl_s:
            kept.append(f"for {config.retained_ttl_s:g} s after the last use")
        return {"prefixes": f"shared by {_sharers(config)}{rules}", "kept": ", ".join(kept)}


def _waiting(config: ServeConfig) -> str:
    tokens = "" if config.backlog_tokens is None else f" with {config.backlog_tokens:,} prompt tokens"
    bound = "" if config.queue_timeout is None else f", for {config.queue_timeout:g} s"
    return f"up to {config.backlog} more requests{tokens}{bound}; the next gets 503"


def _sharers(config: ServeConfig) -> str:
    num_keys = len(set(config.api_key))
    match config.cache_scope:
        case CacheScope.GLOBAL:
            return "all requests" + (f", of all {num_keys} API keys" if num_keys > 1 else "")
        case CacheScope.SESSION:
            return "the requests of one session" + (" and API key" if num_keys else "") + "; by none without session_id"
        case CacheScope.KEY:
            return f"the requests of one API key ({num_keys} keys)" if num_keys else "all requests (no API keys)"


def tell(banner: Banner, stream: TextIO | None = None) -> None:
    """Say it in the form that the configuration asks for: log lines in JSON, else text; a table on a terminal."""
    if banner.config.log_format is LogFormat.JSON:
        _log(banner)
        return
    out = stream or sys.stdout
    if out.isatty():
        _draw(banner, Console(file=out))
    else:
        out.writelines(f"{line}\n" for line in _lines(banner))
    out.flush()


def _log(banner: Banner) -> None:
    messages: tuple[tuple[str, dict[str, object]], ...] = (
        ("configuration", {"config": public_view(banner.config)}),
        ("model", {"name": banner.loaded.name, **banner.loaded.facts}),
        ("sizes", dict(banner.sizes())),
        ("reuse", dict(banner.reuse())),
        ("ready", {"version": __version__, "url": banner.url, "curl": banner.curl}),
    )
    for message, fields in messages:
        logger.info(message, extra={"fields": fields})


def _lines(banner: Banner) -> Iterable[str]:
    yield f"arriero {__version__}"
    for title, rows in _sections(banner):
        yield f"{title}:"
        yield from (f"  {name:<{_width(rows)}}  {value}" for name, value in rows.items())
    yield f"Ready on {banner.url}; try:"
    yield banner.curl


def _draw(banner: Banner, console: Console) -> None:
    console.print(f"[bold]arriero {__version__}[/bold]", highlight=False)
    for title, rows in _sections(banner):
        table = Table(title=title, title_justify="left", show_header=False, box=None, padding=(0, 2, 0, 2))
        for name, value in rows.items():
            table.add_row(name, value)
        console.print(table)
    console.print(f"[bold green]Ready[/bold green] on {banner.url}; try:", highlight=False)
    # One long line, so that it can be copied: no table, no wrapping.
    console.print(banner.curl, soft_wrap=True, markup=False, highlight=False)


def _sections(banner: Banner) -> tuple[tuple[str, dict[str, str]], ...]:
    view = public_view(banner.config)
    settings = {
        option.flag: _shown(view[option.name], option) + ("" if _is_default(banner.given, option) else "  (set)")
        for option in OPTIONS
    }
    return (
        ("Model", {"name": banner.loaded.name, **banner.loaded.facts}),
        ("Sizes", banner.sizes()),
        ("Prefix reuse", banner.reuse()),
        ("Settings", settings),
    )


def _is_default(config: ServeConfig, option: Option) -> bool:
    return bool(getattr(config, option.name) == option.default)


def _shown(value: Plain, option: Option) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value)) or option.shown_default
    match value:
        case None:
            return option.shown_default
        case bool():
            return "on" if value else "off"
        case _:
            return str(value)


def _width(rows: dict[str, str]) -> int:
    return max(map(len, rows), default=0)
