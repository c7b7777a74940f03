"""The promises that hold for any run, whatever it was made of: the published control plane's invariants.

Each function finds what is broken in a run that has ended; `check_run` is all of them.
"""

from collections.abc import Iterator
from itertools import pairwise
from types import MappingProxyType
from typing import Final

from arriero.core.events import Admitted, CancelObserved, Finished
from arriero.core.ids import TokenId
from arriero.core.plan import PrefillChunk, Row
from arriero.core.request import CancelReason, FinishReason
from arriero.engine.handle import CloseReason, Result
from arriero.engine.observer import EngineSummary, StepRecord
from arriero.testing.gates.findings import Findings
from arriero.testing.gates.run_record import Answer, RunRecord
from arriero.testing.gates.watch import StepLog

_OFFSET: Final = 0xCBF29CE484222325
_PRIME: Final = 0x100000001B3

_CLOSED_AS: Final = MappingProxyType({
    FinishReason.STOP: CloseReason.COMPLETED,
    FinishReason.LENGTH: CloseReason.COMPLETED,
    FinishReason.CANCELLED: CloseReason.CANCELLED,
    FinishReason.ABORTED: CloseReason.ERROR,
    FinishReason.FAILED: CloseReason.ERROR,
})


def hash_of(tokens: tuple[TokenId, ...]) -> int:
    """The token hash, computed here from its definition; 0 without tokens."""
    value = _OFFSET
    for token in tokens:
        value = (value ^ (token & 0xFFFFFFFF)) * _PRIME % 2**64
    return value if tokens else 0


def check_run(run: RunRecord, findings: Findings) -> None:
    """Check a run whose requests were all submitted through its rig."""
    log = run.log
    check_log(log, run.num_rows, findings)
    ended = sorted(result.request_id for result in log.results)
    findings.holds(
        "every request resolves exactly once", holds=ended == sorted(result.request_id for result in run.results)
    )
    for answer in run.answers:
        for rule in _broken_by(answer):
            findings.broke(f"request {answer.result.request_id}: {rule}")
    streamed = [answer for answer in run.answers if answer.streamed is not None]
    counts = run.summary.snapshot.streams
    findings.holds("every stream was opened once", holds=counts.opened == len(streamed))
    findings.holds(
        "tokens streamed are the tokens of the results",
        holds=counts.tokens == sum(answer.result.num_decoded for answer in streamed),
    )


def check_log(log: StepLog, num_rows: int, findings: Findings) -> None:
    """Check what the engine's side alone can tell."""
    if log.summary is None:
        findings.broke("the engine never said that it has ended")
        return
    for rule in (*_broken_summary(log.summary), *_broken_slots(log), *_broken_steps(log, num_rows)):
        findings.broke(rule)
    for result in log.results:
        for rule in _broken_result(result, log):
            findings.broke(f"request {result.request_id}: {rule}")
    wasted = wasted_rows(log)
    findings.holds(f"no row is computed for a request that has ended, not {wasted}", holds=wasted == 0)


def wasted_rows(log: StepLog) -> int:
    """Rows computed for requests that had ended before."""
    ended: set[tuple[int, int]] = set()
    wasted = 0
    for record in log.records:
        ended |= {_key(event) for event in record.plan.events if isinstance(event, Finished)}
        wasted += sum(row.num_rows for row in record.plan.rows if (row.request.request_id, row.request.epoch) in ended)
        ended |= {_key(event) for event in record.events if isinstance(event, Finished)}
    return wasted


def _key(event: Finished) -> tuple[int, int]:
    return event.request.request_id, event.request.epoch


def _broken_by(answer: Answer) -> Iterator[str]:
    """Of one caller's view: streams agree with results."""
    result = answer.result
    if answer.streamed is None:
        return
    if answer.streamed != result.tokens:
        yield f"streamed {len(answer.streamed)} ids, and its result has {result.num_decoded} (or others)"
    # a stop string was found: to its caller the answer is whole
    closed_as = CloseReason.COMPLETED if result.cancel_reason is CancelReason.STOP else _CLOSED_AS[result.reason]
    if answer.close_reason is not closed_as:
        yield f"its stream closed as {answer.close_reason} and it ended as {result.reason}"
    if not answer.closed_first:
        yield "its result came before its stream was closed"


def _broken_result(result: Result, log: StepLog) -> Iterator[str]:
    """Of one result by itself: hash, counts, clearing, positions, stamps, steps."""
    n = result.num_decoded
    if result.token_hash != hash_of(result.tokens):
        yield f"its hash is 0x{result.token_hash:016x}, and its tokens give 0x{hash_of(result.tokens):016x}"
    if n > result.decode_budget or (result.reason is FinishReason.LENGTH and n != result.decode_budget):
        yield f"it decoded {n} of {result.decode_budget}"
    cancelled = result.reason is FinishReason.CANCELLED
    if cancelled and n != result.num_decoded_at_cancel:
        yield f"it decoded {n}, and {result.num_decoded_at_cancel} when its cancel was observed"
    yield from _broken_clearing(result, log)
    # a preempted request was admitted again, maybe after its first token
    admitted_at = None if result.num_preemptions else result.admitted_at
    stamps = [result.arrival_at, admitted_at, result.first_token_at, result.finished_at]
    told = [stamp for stamp in stamps if stamp is not None]
    if any(earlier > later for earlier, later in pairwise(told)):
        yield f"its stamps are out of order: {stamps}"
    observed = result.cancel_observed_at
    if observed is not None and observed > result.finished_at:
        yield "its cancel was observed after its end"
    yield from _broken_prefill(result, log)


def _broken_clearing(result: Result, log: StepLog) -> Iterator[str]:
    """Its sequence was cleared, at the position where it ended; where runs are kept, it may have been kept, or cut."""
    if result.sequence_id is None or result.num_preemptions:
        return
    # the last token sampled never enters KV; an end token's predecessor does
    last = result.prompt_tokens + result.num_decoded - (1 if result.reason is FinishReason.STOP else 2)
    has_run = result.num_decoded > 0 and result.reason is not FinishReason.FAILED
    if log.reuses and has_run:
        if (result.pos_max_at_clear or 0) > last:
            yield f"its highest position was {result.pos_max_at_clear}, above {last}"
        return
    if not result.kv_cleared and not log.reuses:
        yield "its sequence was not cleared"
    if has_run and result.pos_max_at_clear != last:
        yield f"its highest position was {result.pos_max_at_clear}, not {last}"


def _broken_prefill(result: Result, log: StepLog) -> Iterator[str]:
    """Every prompt token that was not in KV is computed exactly once before the first token comes."""
    rows = [row for step, row in log.rows_of(result.request_id) if step not in log.uncomputed]
    lives = {row.request.epoch for row in rows}
    if result.num_decoded == 0 or result.num_preemptions or len(lives) != 1 or result.reason is FinishReason.FAILED:
        return
    prompt_rows = sum(map(_prefill, rows))
    if prompt_rows != result.prompt_tokens - result.cached_tokens:
        told = f"{result.prompt_tokens} prompt tokens, {result.cached_tokens} of them cached"
        yield f"{prompt_rows} prompt rows were computed for {told}"
    first = next(row for row in rows if row.wants_logits)
    if first.start + first.num_rows < result.prompt_tokens:
        yield "a token came before its prompt was complete"


def _broken_summary(summary: EngineSummary) -> Iterator[str]:
    """Of the end: everything resolved, every stream closed, memory empty."""
    totals, streams, kv = summary.snapshot.totals, summary.snapshot.streams, summary.snapshot.scheduler.kv
    if summary.crashed is not None:
        yield f"the engine crashed: {summary.crashed}"
    if summary.residual_sequences:
        yield f"KV is left in sequences {list(summary.residual_sequences)}"
    if totals.submitted != totals.resolved:
        yield f"{totals.submitted} requests were submitted and {totals.resolved} resolved"
    ends = totals.completed + totals.cancelled + totals.queued_cancelled + totals.aborted + totals.failed
    if ends != totals.resolved:
        yield f"{ends} ends were counted for {totals.resolved} results"
    if streams.opened != streams.completed + streams.cancelled + streams.error:
        yield f"streams do not add up: {streams}"
    if kv.active_cells or kv.sequences_held:
        yield f"{kv.active_cells} cells and {kv.sequences_held} sequences are still held"
    if kv.retained_cells or kv.sequences_retained:
        yield f"{kv.retained_cells} cells and {kv.sequences_retained} sequences are still kept for others"


def _broken_steps(log: StepLog, num_rows: int) -> Iterator[str]:
    """Of each step: rows within the batch, ascending, one entry a sequence, counted right."""
    for record in log.records:
        rows = record.plan.rows
        ids = [row.sequence_id for row in rows]
        total = sum(row.num_rows for row in rows)
        if total > num_rows:
            yield f"step {record.plan.step} has {total} rows, and a batch holds {num_rows}"
        if ids != sorted(set(ids)):
            yield f"step {record.plan.step} has its sequences in the order {ids}"
        if total != record.plan.shape.num_rows or prefill_rows(record) != record.plan.shape.prefill_rows:
            yield f"step {record.plan.step} is counted as {record.plan.shape}, and its rows are others"


def _broken_slots(log: StepLog) -> Iterator[str]:
    """A slot is free from the step after the one that freed it."""
    freed: dict[int, tuple[int, str]] = {}
    for record in log.records:
        for event in record.events:
            match event:
                case CancelObserved(sequence_id=sequence_id, step=step):
                    freed[sequence_id] = step, "cancelled"
                case Finished(sequence_id=int(sequence_id), step=step):
                    freed[sequence_id] = step, "ended"
                case Admitted(sequence_id=sequence_id, step=step) if sequence_id in freed:
                    freed_at, how = freed.pop(sequence_id)
                    if step <= freed_at:
                        yield f"sequence {sequence_id} was used again in step {step}, its holder {how} in {freed_at}"
                case _:
                    pass


def prefill_rows(record: StepRecord) -> int:
    """Prompt rows of a step, counted from its rows."""
    return sum(_prefill(row) for row in record.plan.rows)


def _prefill(row: Row) -> int:
    return row.num_rows if isinstance(row, PrefillChunk) else 0
