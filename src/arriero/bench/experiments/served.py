"""Served: this project's server in a process of its own, with diagnostics, and a client to it.

    async with served(model, options) as server:
        life = await server.target.ask(...)
        log = await server.stop()

The server ends through `POST /shutdown`, so that every row of its diagnostics is on disk when they are read.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from arriero.backend.context import available_cpus
from arriero.backend.llama_model import check_file
from arriero.backend.models import resolve_model
from arriero.bench.client import HttpTarget
from arriero.bench.client_options import HttpOptions, TimeLimits
from arriero.bench.experiments.calls import CallFailed, Reply, call
from arriero.bench.experiments.contexts import ModelSettings, file_sha256
from arriero.bench.experiments.placements import PlacementWord, last_cpu
from arriero.bench.peers import arriero
from arriero.bench.servers import Server, ServerFailed, started
from arriero.bench.servers_commands import ServerValues, with_flags
from arriero.core.errors import DataError
from arriero.metrics.client_life import ClientLife, Outcome
from arriero.record.diagnostics import EngineSummaryRow, GapRow, IterRow, ServerRequestRow, decode_row

END_WITHIN_S: Final = 60.0
GIVE_UP_AFTER_S: Final = 120.0
_LOOK_AGAIN_S: Final = 0.02

HearText = Callable[[str, str], None]
"""Told the id of a request and the text of its answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """How the server is started.

    Attributes:
        slots: requests that run at once.
        slot_tokens: KV positions of each.
        backlog: requests that may wait.
        threads: compute threads; 0: every CPU.
        batch_rows: rows of one decode call.
        placement: where its engine runs; `pinned` takes the last CPU.
        prefill_rows_per_seq, prefill_rows_per_step: caps on prompt rows; 0: none.
        reuses: whether prompts may share prefixes; without it every prompt is computed, as in the published runs.
        flags: further ones.
    """

    slots: int
    slot_tokens: int
    backlog: int
    threads: int = 0
    batch_rows: int = 512
    placement: PlacementWord = "dedicated"
    prefill_rows_per_seq: int = 0
    prefill_rows_per_step: int = 0
    reuses: bool = False
    flags: tuple[str, ...] = ()

    def words(self, model: ModelSettings, diagnostics: Path) -> tuple[str, ...]:
        """The flags beside those that every server gets.

        Raises:
            PlacementRefused: a pinned engine cannot be had here.
        """
        where = ("--placement", "shared") if self.placement == "shared" else ("--placement", "dedicated")
        pinned = ("--engine-cpus", str(last_cpu())) if self.placement == "pinned" else ()
        return (
            *("--backend", model.backend, "--flash-attn", model.flash_attention),
            *("--batch", str(self.batch_rows), "--micro-batch", str(min(model.micro_batch, self.batch_rows))),
            *("--backlog", str(self.backlog), *where, *pinned),
            *("--prefill-rows-per-seq", str(self.prefill_rows_per_seq)),
            *("--prefill-rows-per-step", str(self.prefill_rows_per_step)),
            *(() if self.reuses else ("--no-reuse",)),
            *("--diagnostics", str(diagnostics), "--allow-shutdown", *self.flags),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLog:
    """What a server wrote about a run; times are whole microseconds on its engine's clock.

    Attributes:
        steps: one row for each pass of the engine's loop.
        requests: one row for each request, in the order in which they were over.
        summary: of the engine; None if it did not end in order.
        num_missing: rows that the disk was too slow for.
    """

    steps: tuple[IterRow, ...]
    requests: tuple[ServerRequestRow, ...]
    summary: EngineSummaryRow | None
    num_missing: int

    @property
    def computed(self) -> list[IterRow]:
        """The passes that had rows."""
        return [row for row in self.steps if row.batch_n_tokens]

    def of(self, request_id: str) -> ServerRequestRow | None:
        """The row of a request by the id that its client gave it."""
        return next((row for row in self.requests if row.answer_id == request_id), None)

    @property
    def problems(self) -> tuple[str, ...]:
        """Why its figures are not to be trusted."""
        found = [f"{self.num_missing} rows of diagnostics are missing"] if self.num_missing else []
        if self.summary is None:
            found.append("the engine did not end in order")
        elif not self.summary.residual_kv_empty:
            found.append("KV was left at the end")
        return tuple(found)

    def problems_with(self, lives: Iterable[ClientLife]) -> tuple[str, ...]:
        """The same, and requests of these that were answered, in whole or in part, and have no row."""
        known = {row.answer_id for row in self.requests}
        num_lost = sum(_has_an_answer(life) and life.request_id not in known for life in lives)
        return (*self.problems, f"{num_lost} answered requests have no row") if num_lost else self.problems


class Served:
    """One running server; asked on the event loop that started it.

    Attributes:
        target: asks it.
    """

    def __init__(self, server: Server, target: HttpTarget, diagnostics: Path) -> None:
        """Made by `served`."""
        self.target = target
        self._server = server
        self._diagnostics = diagnostics
        self._log: ServerLog | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return self._server.url

    @property
    def pid(self) -> int:
        """Its process."""
        return self._server.pid

    async def call(self, method: str, path: str, body: object = None) -> Reply:
        """Ask for something beside the measurement."""
        return await call(self.url, method, path, body)

    async def tokens_of(self, text: str, *, add_special: bool = False, parse_special: bool = False) -> tuple[int, ...]:
        """The model's tokens of a text.

        Raises:
            CallFailed: the server does not say.
        """
        return await tokens_of(self.url, text, add_special=add_special, parse_special=parse_special)

    async def in_flight(self) -> int:
        """Places that are taken at the door.

        Raises:
            CallFailed: the server does not say.
        """
        reply = await self.call("GET", "/debug/state")
        try:
            return int(reply.body["door"]["in_flight"])
        except (KeyError, TypeError) as error:
            raise CallFailed(f"{self.url}/debug/state: {reply.status} without the door's figures") from error

    async def stop(self) -> ServerLog:
        """End the server in order; everything that it wrote.

        Raises:
            CallFailed, ServerFailed: it did not end, or what it wrote cannot be read.
        """
        if self._log is None:
            await self.target.close()
            await self.call("POST", "/shutdown")
            await _until_ended(self._server)
            try:
                self._log = read_log(self._diagnostics)
            except (OSError, DataError) as error:
                raise ServerFailed(f"{self._server.name}: its diagnostics cannot be read ({error})") from error
        return self._log


@asynccontextmanager
async def served(
    model: ModelSettings, options: ServeOptions, *, on_text: HearText | None = None
) -> AsyncGenerator[Served]:
    """A fresh server for the length of a block.

    Args:
        model: what it computes with.
        options: how it is started.
        on_text: told the text of every answer.

    Raises:
        PlacementRefused: its placement cannot be had. ServerFailed: it ended or did not answer.
    """
    with TemporaryDirectory(prefix="arriero-experiment-") as folder:
        diagnostics = Path(folder) / "diagnostics.jsonl"
        command = with_flags(arriero(), options.words(model, diagnostics))
        values = ServerValues(
            model=model.reference,
            threads=options.threads or available_cpus(),
            slots=options.slots,
            slot_context=options.slot_tokens,
        )
        async with started(command, values, log=Path(folder) / "server.log") as server:
            target = HttpTarget(server.url, client_options(), on_text=on_text)
            await target.open()
            try:
                yield Served(server, target, diagnostics)
            finally:
                await target.close()


def client_options(fields: Mapping[str, Any] | None = None) -> HttpOptions:
    """How experiments ask a server: they give up after two minutes; `fields` are in every body."""
    return HttpOptions(limits=TimeLimits(total_s=GIVE_UP_AFTER_S), fields={} if fields is None else fields)


async def tokens_of(url: str, text: str, *, add_special: bool = False, parse_special: bool = False) -> tuple[int, ...]:
    """A server's tokens of a text, from its `/tokenize`.

    Raises:
        CallFailed: it does not say.
    """
    body = {"content": text, "add_special": add_special, "parse_special": parse_special}
    reply = await call(url, "POST", "/tokenize", body)
    try:
        return tuple(int(token) for token in reply.body["tokens"])
    except (KeyError, TypeError, ValueError) as error:
        raise CallFailed(f"{url}/tokenize: {reply.status} without tokens") from error


def read_log(path: Path) -> ServerLog:
    """A diagnostics file, strictly.

    Raises:
        DataError: a line cannot be read.
    """
    steps: list[IterRow] = []
    requests: list[ServerRequestRow] = []
    summary: EngineSummaryRow | None = None
    num_missing = 0
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        try:
            row = decode_row(line)
        except ValueError as error:
            raise DataError(f"line {number}: {error}", file=path.name, line=number) from None
        match row:
            case IterRow():
                steps.append(row)
            case ServerRequestRow():
                requests.append(row)
            case EngineSummaryRow():
                summary = row
            case GapRow(dropped=dropped):
                num_missing += dropped
            case _:
                pass
    return ServerLog(steps=tuple(steps), requests=tuple(requests), summary=summary, num_missing=num_missing)


def model_facts(model: ModelSettings) -> dict[str, Any]:
    """What a server computes with: the file by name, size and hash.

    Raises:
        ConfigError: the model cannot be had.
    """
    facts: dict[str, Any] = {"backend": model.backend, "flash_attention": model.flash_attention}
    if model.backend == "synthetic":
        return facts
    path = resolve_model(model.reference)
    check_file(path)
    return facts | {"model_file": path.name, "model_bytes": path.stat().st_size, "model_sha256": file_sha256(path)}


def _has_an_answer(life: ClientLife) -> bool:
    return life.outcome.is_normal or life.outcome is Outcome.CANCELLED_BY_CLIENT


async def _until_ended(server: Server) -> None:
    try:
        async with asyncio.timeout(END_WITHIN_S):
            while server.ended is None:  # noqa: ASYNC110 - another process tells nobody of its end
                await asyncio.sleep(_LOOK_AGAIN_S)
    except TimeoutError:
        raise ServerFailed(f"{server.name}: did not end within {END_WITHIN_S:g} s after POST /shutdown") from None
