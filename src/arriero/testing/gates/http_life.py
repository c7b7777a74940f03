"""G35 to G38: streamed text, disconnects, the end of a server, and clients beyond its capacity."""

import asyncio
from typing import Final

from arriero.backend.protocol import Backend
from arriero.engine.diagnostics import Diagnostics
from arriero.http.service import HttpOptions
from arriero.record.diagnostics import EngineSummaryRow, IterRow, RequestRows, ServerRequestRow, decode_row
from arriero.record.lines import LineList
from arriero.testing.faults import BlockedCall
from arriero.testing.gates.backends import Shape
from arriero.testing.gates.context import NARRATIVE, PROMPT, GateContext
from arriero.testing.gates.findings import Findings
from arriero.testing.gates.http_client import Reply
from arriero.testing.gates.http_contract import BUDGET, PATH, request
from arriero.testing.gates.http_rig import Endless, HttpRig

LONG_ANSWER: Final = 2000
"""Tokens of an answer that is still coming when its client leaves."""

TEXTS: Final = (
    PROMPT,
    NARRATIVE,
    "Die Größe der Brücke über den Fluß:",
    "日本語で答えてください。東京は",
    "Repeat: 😀😃😄😁😆😅😂",
)


async def check_text(context: GateContext, findings: Findings) -> None:
    """G35: the pieces of a stream are the text of the same answer in one body, whatever bytes the tokens have."""
    budget = context.size.budgets[1]
    longest = max(len(_encode(context, text)) for text in TEXTS)
    num_beyond_ascii = 0
    async with HttpRig(context, findings, Shape(num_sequences=1, positions=longest + budget), backlog=0) as rig:
        for number, text in enumerate(TEXTS):
            whole = (await rig.client.post(PATH, request(text, budget))).json
            stream = await rig.client.post(PATH, request(text, budget, stream=True))
            *pieces, (last, done) = stream.events
            joined = "".join(data["token"] for _, data in pieces)
            ids = [data["token_id"] for _, data in pieces if data["token_id"] is not None]
            again = (await rig.client.post("/detokenize", {"tokens": ids})).json["content"]
            findings.holds(f"text {number}: the stream ends with `done`", holds=last == "done")
            findings.holds(f"text {number}: pieces are the whole text", holds=joined == whole["text"])
            findings.holds(f"text {number}: they are the text of its token ids", holds=joined == again)
            findings.holds(f"text {number}: the hashes are the same", holds=done["hash"] == whole["hash"])
            findings.holds(f"text {number}: one id for each token", holds=len(ids) == done["n_decoded"] == budget)
            num_beyond_ascii += sum(not data["token"].isascii() for _, data in pieces)
        await rig.stop()
    findings.equal("texts", len(rig.rows.rows), 2 * len(TEXTS))
    findings.count("pieces_beyond_ascii", num_beyond_ascii)


def _encode(context: GateContext, text: str) -> list[int]:
    return context.backends.vocabulary.encode(text, add_special=True, parse_special=True)


async def check_disconnect(context: GateContext, findings: Findings) -> None:
    """G36: a client that leaves is cancelled once, its place is free again, and the next one is served as usual."""
    shape = Shape(num_sequences=1, positions=len(context.prompt) + LONG_ANSWER)
    async with HttpRig(context, findings, shape, backlog=0) as rig:
        async with rig.client.open("POST", PATH, request(budget=LONG_ANSWER, stream=True)) as leaving:
            first = await leaving.read_some()
            findings.holds("it had a token before it left", holds=b"event: token" in first)
            challenger = await rig.client.post(PATH, request())
            findings.equal("challenger", challenger.status, 503)
        await rig.until_in_flight(0)
        cancels = (await rig.engine.ask_snapshot()).scheduler.cancels
        findings.equal("cancel_calls", cancels.calls, 1)
        findings.equal("cancels_observed", cancels.active_observed, 1)
        following = await rig.client.post(PATH, request())
        findings.equal("next", following.status, 200)
        await rig.rows.wait_for(3)
        log = await rig.stop()
    gone = next(row for row in rig.rows.rows if row.disconnect_observed)
    findings.holds("its row says so", holds=gone.cancel_issued and gone.final_status == "cancelled")
    findings.holds("it was cancelled long before its end", holds=log.results[0].num_decoded < LONG_ANSWER)
    findings.equal("peak", rig.engine.door.peak, 1)
    findings.equal("refused", rig.engine.door.refused, 1)


async def check_shutdown(context: GateContext, findings: Findings) -> None:
    """G37: `/shutdown` exists only with both switches; it ends the server, and every request has left its row."""
    shape = Shape(num_sequences=1, positions=len(context.prompt) + BUDGET)
    for diagnostics, allowed in ((False, False), (True, False), (False, True)):
        options = HttpOptions(diagnostics=diagnostics, allow_shutdown=allowed)
        async with HttpRig(context, findings, shape, backlog=0, http=options) as rig:
            reply = await rig.client.post("/shutdown", b"")
            findings.equal(f"diagnostics_{int(diagnostics)}_allowed_{int(allowed)}", reply.status, 404)
            findings.holds("the engine goes on", holds=rig.engine.health.accepting)
            await rig.stop()
    lines = LineList()
    options = HttpOptions(diagnostics=True, allow_shutdown=True)
    async with HttpRig(context, findings, shape, backlog=0, http=options, observers=[Diagnostics(lines)]) as rig:
        for _ in range(3):
            await rig.client.post(PATH, request())
        reply = await rig.client.post("/shutdown", b"")
        findings.equal("both", reply.status, 200)
        findings.equal("says", reply.json["status"], "shutting_down")
        findings.holds("the listener was told to stop", holds=rig.stopped.is_set())
        await rig.stop()
        for row in rig.rows.rows:
            RequestRows(lines).on_request(row)
    rows = [decode_row(line) for line in lines.lines]
    findings.equal("summaries", sum(isinstance(row, EngineSummaryRow) for row in rows), 1)
    findings.equal("request_rows", sum(isinstance(row, ServerRequestRow) for row in rows), 3)
    findings.equal("step_rows", sum(isinstance(row, IterRow) for row in rows), len(rig.log.records))
    findings.equal("in_flight", rig.engine.door.in_flight, 0)


async def check_capacity(context: GateContext, findings: Findings) -> None:
    """G38: clients up to the cap are served, queued where slots are fewer; those beyond it are refused."""
    shape = Shape(num_sequences=2, positions=len(context.prompt) + BUDGET)
    for backlog in (0, 2):
        block = BlockedCall(0)  # the engine stays inside its first decode call until every client has come

        def wrap(backend: Backend, block: BlockedCall = block) -> Endless:
            return Endless(backend, block)

        cap = 2 + backlog
        async with HttpRig(context, findings, shape, backlog=backlog, wrap=wrap) as rig:
            clients = [asyncio.create_task(rig.client.post(PATH, request())) for _ in range(cap)]
            await rig.until_in_flight(cap)
            beyond = [await rig.client.post(PATH, request()) for _ in range(3)]
            block.release.set()
            served: list[Reply] = [await client for client in clients]
            log = await rig.stop()
        findings.equal(f"served_cap_{cap}", [reply.status for reply in served], [200] * cap)
        findings.equal(f"refused_cap_{cap}", [reply.status for reply in beyond], [503] * 3)
        findings.equal(f"peak_cap_{cap}", rig.engine.door.peak, cap)
        findings.equal(f"queued_cap_{cap}", max(log.waiting_depths()), backlog)
        findings.equal(f"reached_the_engine_cap_{cap}", len(log.results), cap)
