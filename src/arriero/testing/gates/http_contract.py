"""G34 and G39: status, code and headers of every outcome of the native endpoint, and what takes a place for it."""

from typing import Final

from arriero.backend.protocol import Backend
from arriero.http.service import HttpOptions
from arriero.testing.faults import FailedRequest
from arriero.testing.gates.backends import Shape
from arriero.testing.gates.context import PROMPT, GateContext
from arriero.testing.gates.findings import Findings
from arriero.testing.gates.http_client import Json, Reply
from arriero.testing.gates.http_rig import Endless, HttpRig

PATH: Final = "/completion"
MAX_PROMPT: Final = 64
BUDGET: Final = 4


def _sampled(sampling: Json) -> Json:
    return {"prompt": PROMPT, "decode_budget": BUDGET, "sampling": sampling}


# what is wrong, the body, status and code; all of these are found before a place is taken
BEFORE_A_PLACE: Final[tuple[tuple[str, Json, int, str], ...]] = (
    ("no JSON", b'{"prompt": ', 400, "bad_request"),
    ("no object", [1, 2], 400, "bad_request"),
    ("no prompt", {"decode_budget": BUDGET}, 400, "bad_request"),
    ("no decode_budget", {"prompt": PROMPT}, 400, "bad_request"),
    ("prompt is a number", {"prompt": 7, "decode_budget": BUDGET}, 400, "bad_request"),
    ("decode_budget is text", {"prompt": PROMPT, "decode_budget": "4"}, 400, "bad_request"),
    ("decode_budget is a fraction", {"prompt": PROMPT, "decode_budget": 4.5}, 400, "bad_request"),
    ("stream is text", {"prompt": PROMPT, "decode_budget": BUDGET, "stream": "yes"}, 400, "bad_request"),
    ("session_id is a number", {"prompt": PROMPT, "decode_budget": BUDGET, "session_id": 7}, 400, "bad_request"),
    ("sampling is text", {"prompt": PROMPT, "decode_budget": BUDGET, "sampling": "greedy"}, 400, "bad_request"),
    ("decode_budget is 0", {"prompt": PROMPT, "decode_budget": 0}, 422, "invalid_argument"),
    ("decode_budget is negative", {"prompt": PROMPT, "decode_budget": -1}, 422, "invalid_argument"),
    *(
        (f"sampling {sampling}", _sampled(sampling), 422, "invalid_sampling")
        for sampling in (
            {"mode": "beam"},
            {"mode": "stochastic", "temperature": "hot"},
            {"mode": "stochastic", "temperature": 0},
            {"mode": "stochastic", "top_k": -1},
            {"mode": "stochastic", "top_p": 0},
            {"mode": "stochastic", "top_p": 1.5},
            {"mode": "stochastic", "top_p_min_keep": 0},
            {"mode": "stochastic", "seed": -1},
            {"mode": "stochastic", "seed": 2**32},
        )
    ),
)  # fmt: skip


def after_a_place(limit: int) -> tuple[tuple[str, Json, int, str], ...]:
    """The same for what is found only once the prompt is tokenised; `limit` is the context of one sequence."""
    too_long = {"prompt": PROMPT * MAX_PROMPT, "decode_budget": BUDGET}
    return (
        ("no tokens", {"prompt": "", "decode_budget": BUDGET}, 422, "invalid_argument"),
        ("too many tokens", too_long, 413, "payload_too_large"),
        ("beyond the context", {"prompt": PROMPT, "decode_budget": limit}, 422, "invalid_argument"),
    )


def request(prompt: str = PROMPT, budget: int = BUDGET, **more: Json) -> Json:
    """A native body."""
    return {"prompt": prompt, "decode_budget": budget, **more}


def _rig(context: GateContext, findings: Findings) -> HttpRig:
    shape = Shape(num_sequences=1, positions=MAX_PROMPT + BUDGET)
    return HttpRig(context, findings, shape, backlog=0, http=HttpOptions(max_prompt_tokens=MAX_PROMPT))


async def check_table(context: GateContext, findings: Findings) -> None:
    """G34: every row of the table of outcomes, with its exact status, code and `Retry-After`."""
    num_rows = 0
    async with _rig(context, findings) as rig:
        _check_ok(findings, await rig.client.post(PATH, request()))
        _check_stream(findings, await rig.client.post(PATH, request(stream=True)))
        _check_ok(findings, await rig.client.post(PATH, request(sampling={"mode": "stochastic", "seed": 42})))
        rows = (*BEFORE_A_PLACE, *_without_start_token(context, after_a_place(rig.engine.limits.sequence_limit)))
        for what, body, status, code in rows:
            _check_error(findings, what, await rig.client.post(PATH, body), status, code)
            num_rows += 1
        beyond = await rig.client.post(PATH, request(budget=rig.engine.limits.sequence_limit))
        numbers = (len(context.prompt), rig.engine.limits.sequence_limit)
        message = beyond.json["error"]["message"]
        findings.holds("the context's error names its numbers", holds=all(str(each) in message for each in numbers))
        with rig.engine.enter():
            busy = await rig.client.post(PATH, request())
        _check_error(findings, "busy", busy, 503, "server_busy", retry_after="1")
        findings.equal("in_flight", rig.engine.door.in_flight, 0)
        await rig.stop()
        gone = await rig.client.post(PATH, request())
        _check_error(findings, "shutting down", gone, 503, "unavailable", retry_after="1")
    await _check_failing(context, findings)
    findings.count("rows_of_the_table", num_rows + 6)


async def _check_failing(context: GateContext, findings: Findings) -> None:
    """A request that fails inside the engine, and two in a row that make it unwell."""

    def wrap(backend: Backend) -> Endless:
        return Endless(backend, FailedRequest(1), FailedRequest(2))

    shape = Shape(num_sequences=1, positions=MAX_PROMPT + BUDGET)
    async with HttpRig(context, findings, shape, backlog=0, wrap=wrap) as rig:
        for _ in range(2):
            _check_error(findings, "engine error", await rig.client.post(PATH, request()), 500, "engine_error")
        unwell = await rig.client.post(PATH, request())
        _check_error(findings, "unhealthy", unwell, 503, "unavailable", retry_after="1")
        await rig.stop()


async def check_places(context: GateContext, findings: Findings) -> None:
    """G39: what is malformed is answered at capacity too and takes no place; what is found later gives it back."""
    async with _rig(context, findings) as rig:
        with rig.engine.enter():
            accepted = rig.engine.door.accepted
            for what, body, status, code in BEFORE_A_PLACE:
                _check_error(findings, f"at capacity: {what}", await rig.client.post(PATH, body), status, code)
            findings.equal("places_taken_by_malformed", rig.engine.door.accepted - accepted, 0)
            rows = _without_start_token(context, after_a_place(rig.engine.limits.sequence_limit))
            for what, body, _, _ in rows:
                reply = await rig.client.post(PATH, body)
                _check_error(findings, f"at capacity: {what}", reply, 503, "server_busy", retry_after="1")
        findings.equal("in_flight_between", rig.engine.door.in_flight, 0)
        accepted = rig.engine.door.accepted
        for what, body, status, code in rows:
            _check_error(findings, what, await rig.client.post(PATH, body), status, code)
            await rig.until_in_flight(0)
        findings.equal("places_taken_and_given_back", rig.engine.door.accepted - accepted, len(rows))
        findings.equal("submitted", (await rig.engine.ask_snapshot()).totals.submitted, 0)
        _check_ok(findings, await rig.client.post(PATH, request()))
        await rig.stop()
    findings.equal("peak", rig.engine.door.peak, 1)


def _without_start_token(
    context: GateContext, rows: tuple[tuple[str, Json, int, str], ...]
) -> tuple[tuple[str, Json, int, str], ...]:
    """A vocabulary that adds a start token never has a prompt of zero tokens."""
    adds = context.backends.vocabulary.adds_start_token
    return tuple(row for row in rows if not (adds and row[0] == "no tokens"))


def _check_ok(findings: Findings, reply: Reply) -> None:
    findings.equal("ok_status", reply.status, 200)
    body = reply.json
    promised = {"request_id", "status", "n_decoded", "hash", "text"}
    findings.holds(f"a body has the fields {sorted(promised)}, not only {sorted(body)}", holds=promised <= set(body))
    findings.holds(
        f"it completed with {BUDGET} tokens", holds=(body["status"], body["n_decoded"]) == ("completed", BUDGET)
    )
    findings.holds("its hash has 16 digits", holds=len(body["hash"]) == 18 and int(body["hash"], 16) > 0)


def _check_stream(findings: Findings, reply: Reply) -> None:
    findings.equal("stream_status", reply.status, 200)
    content_type = reply.headers["content-type"].partition(";")[0]
    findings.equal("stream_type", content_type, "text/event-stream")
    *tokens, (last, done) = reply.events
    ids = [data["token_id"] for name, data in tokens if name == "token" and data["token_id"] is not None]
    findings.equal("stream_tokens", len(ids), BUDGET)
    findings.equal("stream_end", last, "done")
    promised = {"request_id", "status", "n_decoded", "hash"}
    findings.holds(f"`done` has the fields {sorted(promised)}, not only {sorted(done)}", holds=promised <= set(done))


def _check_error(
    findings: Findings, what: str, reply: Reply, status: int, code: str, retry_after: str | None = None
) -> None:
    seen = (reply.status, reply.code if reply.status >= 400 else None, reply.headers.get("retry-after"))
    promised = (status, code, retry_after)
    findings.holds(f"{what} is answered with {promised}, not {seen}", holds=seen == promised)
    if reply.status >= 400:
        findings.holds(f"{what}: the error has a message", holds=bool(reply.json["error"]["message"]))
