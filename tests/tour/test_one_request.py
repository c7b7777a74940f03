"""One request, top to bottom, by hand: read it beside docs/request-life.md.

Nothing here is faked but the model. Each step is what the server does, called once, and the last test checks that the
server as a whole gives the same answer.
"""

import json
from dataclasses import replace

import pytest

from arriero.backend.synthetic import SyntheticBackend
from arriero.core.events import Admitted, DropSequence, Event, Finished, Queued, TokenEmitted
from arriero.core.ids import Epoch, RequestId
from arriero.core.plan import DecodeRow, PrefillChunk, Sampled
from arriero.core.request import FinishReason, Request
from arriero.engine.door import Door
from arriero.engine.executor import Executor
from arriero.engine.handle import RequestHandle, TokenStream
from arriero.engine.inbox import Cancel, Inbox, Submit
from arriero.engine.open_requests import OpenRequests
from arriero.http.chat import read_chat
from arriero.kv.cells import CellLayout, CellManager
from arriero.scheduler.backlog import BacklogLimits
from arriero.scheduler.draft import PrefillBudget
from arriero.scheduler.planners import DecodeFirst
from arriero.scheduler.policies import FirstComeFirstServed
from arriero.scheduler.rules import SchedulerLimits
from arriero.scheduler.scheduler import Scheduler
from arriero.tokens.detokenizer import Detokenizer
from tests.http.rig import SMALL, serving

LETTERS = tuple(range(ord("a"), ord("z") + 1))
BODY = {"messages": [{"role": "user", "content": "Tell me of mules"}], "max_tokens": 3, "temperature": 0}


@pytest.mark.anyio
async def test_one_request_from_json_to_text_and_back() -> None:  # noqa: PLR0915 - a tour has many stops
    async with serving(synthetic=True) as rig:
        # 1. http: bytes become an order, or a 4xx that names the field.
        order = read_chat(rig.service, json.dumps(BODY).encode())
        assert order.endpoint == "chat"

        # 2. engine/door: a place in the backlog, before any work is done for it.
        door = Door(BacklogLimits(sequences=1, waiting=0))
        place = door.enter()

        # 3. tokens: the model's own template; on a worker, since it may take long.
        (ask,) = order.prepare()
        assert ask.max_tokens == 3

        # 4. engine/inbox: the submission gets its epoch; the caller holds a handle and goes on.
        inbox, posted = Inbox(), list[Cancel]()
        request = Request(
            request_id=RequestId(1),
            prompt=tuple(ask.prompt),
            max_tokens=ask.max_tokens,
            arrival_at=100,
            sampling=ask.sampling,
        )

        def submission(epoch: Epoch) -> Submit:
            handle = RequestHandle(request.request_id, epoch, TokenStream(), lambda _: posted.clear())
            return Submit(replace(request, epoch=epoch), handle)

        handle = inbox.submit(submission)
        assert handle.stream is not None

        # 5. engine/actor: at the next boundary the message reaches the scheduler, which queues it.
        backend = SyntheticBackend(replace(SMALL, speaks=LETTERS))
        limits = backend.limits
        layout = CellLayout(
            num_sequences=limits.num_sequences,
            num_cells=limits.num_cells,
            sequence_limit=limits.sequence_limit,
            unified=limits.unified,
        )
        scheduler = Scheduler(
            kv=CellManager(layout),
            planner=DecodeFirst(),
            policy=FirstComeFirstServed(),
            limits=SchedulerLimits(num_rows=limits.num_rows, budget=PrefillBudget(per_step=len(ask.prompt) - 1)),
        )
        requests, executor = OpenRequests(None), Executor(backend, check=True)
        (message,) = inbox.take()
        assert isinstance(message, Submit)
        queued = scheduler.submit(message.request, now=110)
        requests.open(message, queued)
        assert queued == (Queued(message.request, position=0),)

        # 6 to 10. Steps: plan, run, commit. The budget leaves one prompt token over, so the prefill takes two.
        first = scheduler.plan(now=110)
        (admitted,) = first.events
        assert isinstance(admitted, Admitted)
        (chunk,) = first.rows
        assert isinstance(chunk, PrefillChunk)
        assert (chunk.start, chunk.num_rows, chunk.wants_logits) == (0, len(ask.prompt) - 1, False)
        requests.tell(first.events, executor.settle(first.events))
        assert scheduler.commit(executor.run(first), now=120) == ()

        second = scheduler.plan(now=120)
        (rest,) = second.rows
        assert (rest.start, rest.num_rows, rest.wants_logits) == (len(ask.prompt) - 1, 1, True)
        outcome = executor.run(second)
        assert isinstance(outcome, Sampled)
        (token,) = scheduler.commit(outcome, now=130)
        assert isinstance(token, TokenEmitted)
        assert token.index == 0

        # 11. engine/open_requests: events become tokens in a stream; nobody waits for the reader.
        requests.tell((token,), {})
        assert handle.stream.take() == (token.token,)

        # Decode rows until the allowed output is used up. The sequence is cleared before the end is told.
        tokens, events = [token.token], tuple[Event, ...]()
        for now in (140, 150):
            plan = scheduler.plan(now)
            assert all(isinstance(row, DecodeRow) for row in plan.rows)
            events = scheduler.commit(executor.run(plan), now)
            tokens += [event.token for event in events if isinstance(event, TokenEmitted)]
            requests.tell(events, executor.settle(events))
        assert [type(event) for event in events] == [TokenEmitted, DropSequence, Finished]
        result = handle.wait(0)
        assert result.reason is FinishReason.LENGTH
        assert list(result.tokens) == tokens
        assert result.pos_max_at_clear == len(ask.prompt) + 3 - 2  # the last token never enters KV
        place.leave()
        assert door.counts.in_flight == 0

        # 12. tokens: ids become text, never half a character; http wraps it.
        detokenizer = Detokenizer(rig.service.vocabulary, order.stops)
        text = detokenizer.feed(tokens).text + detokenizer.finish().text

        _, answer = await rig.ask("/v1/chat/completions", BODY)
        assert answer["choices"][0]["message"]["content"] == text
        assert answer["choices"][0]["finish_reason"] == "length"
        assert answer["usage"]["completion_tokens"] == len(tokens)
