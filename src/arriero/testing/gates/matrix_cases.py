"""What may change the bits of a row of logits: one case for each thing that varies, on any backend.

A case compares the same rows under one variation after another with the plain way, and yields what each variation was
and the largest difference of two logits, None for none. No case assumes the composition of exact mode: they are what
it is made from.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final, TypeAlias

from arriero.core.events import CopySequence, ForgetSaved, RestoreSequence, SaveSequence, TrimSequence
from arriero.core.ids import SavedKey, SequenceId
from arriero.core.plan import DecodeRow, PrefillChunk, Row
from arriero.core.request import Request
from arriero.engine.logit_bench import LogitBench, made_up_request, unlike

Compared: TypeAlias = Iterator[tuple[str, float | None]]
Case: TypeAlias = Callable[[LogitBench], Compared]

SEQUENCES: Final = 8
POSITIONS: Final = 1600
PROMPT: Final = 700
SIZES: Final = (7, 32, 63, 64, 65, 128, 256, 512)
COUNTS: Final = (2, 3, 5, 8)
STEPS: Final = 4
KEY: Final = SavedKey(2**31 - 1)


def chunk_sizes(bench: LogitBench) -> Compared:
    """A prompt in chunks of one size after another, against the whole prompt in one chunk."""
    request = made_up_request(1, bench.fits(PROMPT))
    whole = bench.prefill(request, 0)
    for size in SIZES:
        cuts = range(size, len(request.prompt) - 1, size)
        yield f"{size} rows", unlike(bench.prefill(request, 0, cuts), whole)


def single_rows(bench: LogitBench) -> Compared:
    """A prompt row by row."""
    request = made_up_request(1, bench.fits(40))
    whole = bench.prefill(request, 0)
    yield "1 row", unlike(bench.prefill(request, 0, range(1, len(request.prompt))), whole)


def residents(bench: LogitBench) -> Compared:
    """A prompt and a decode row while another sequence holds this many tokens."""
    request = made_up_request(1, bench.fits(120))
    alone = bench.solo(request)
    for length in (96, 1500):
        bench.clear()
        bench.prefill(made_up_request(2, bench.fits(length)), 0)
        prompt = unlike(bench.prefill(request, 1), alone[0])
        row = unlike(bench.decode([bench.answer(request, 1, 0)])[0], alone[1])
        yield f"{length} tokens", _larger(prompt, row)


def copied_prefix(bench: LogitBench) -> Compared:
    """A prefix copied from a longer sequence, the rest of the prompt computed; the other one stays."""
    request = made_up_request(1, bench.fits(300))
    alone = bench.solo(request)
    for length in (60, 200):
        bench.clear()
        bench.prefill(request, 0)
        bench.apply(CopySequence(SequenceId(0), SequenceId(1), length))
        yield f"{length} tokens", unlike(bench.finish(request, 1, length), alone[0])


def trimmed_tail(bench: LogitBench) -> Compared:
    """A sequence whose tail is trimmed and computed again in its place."""
    request = made_up_request(1, bench.fits(300))
    whole = bench.prefill(request, 0)
    for length in (60, 200):
        bench.apply(TrimSequence(SequenceId(0), length))
        yield f"to {length} tokens", unlike(bench.finish(request, 0, length), whole)


def together(bench: LogitBench) -> Compared:
    """Two prompts in one call, of one length and of two."""
    request = made_up_request(1, bench.fits(100))
    alone = bench.solo(request)
    for length in (100, 60):
        bench.clear()
        other = made_up_request(2, bench.fits(length))
        rows: list[Row] = [_whole(other, 0), _whole(request, 1)]
        yield f"100 and {length} rows", unlike(bench.decode(rows)[1], alone[0])


def decode_company(bench: LogitBench) -> Compared:
    """Decode rows alone, and in calls of several sequences, over some steps."""
    request = made_up_request(1, bench.fits(80))
    bench.prefill(request, 0)
    alone = [bench.decode([bench.answer(request, 0, step)])[0] for step in range(STEPS)]
    bench.clear()
    others = [made_up_request(10 + place, bench.fits(20 + 9 * place)) for place in range(SEQUENCES)]
    for place, other in enumerate(others):
        bench.prefill(request if place == 0 else other, place)
    others[0] = request
    for count in COUNTS:
        largest: float | None = None
        for step in range(STEPS):
            found = bench.decode([bench.answer(others[place], place, step) for place in range(count)])
            largest = _larger(largest, unlike(found[0], alone[step]))
        yield f"{count} rows", largest
        for place in range(count):
            bench.apply(TrimSequence(SequenceId(place), len(others[place].prompt)))


def beside_prefill(bench: LogitBench) -> Compared:
    """A decode row in a call with prompt rows of another sequence."""
    request = made_up_request(1, bench.fits(80))
    alone = bench.solo(request)
    bench.clear()
    bench.prefill(request, 0)
    rows: list[Row] = [bench.answer(request, 0, 0), _whole(made_up_request(2, bench.fits(50)), 1)]
    yield "50 prompt rows", unlike(bench.decode(rows)[0], alone[1])


def swapped(bench: LogitBench) -> Compared:
    """A sequence that went to the host and came back under another id, then decodes."""
    request = made_up_request(1, bench.fits(300))
    alone = bench.solo(request)
    bench.clear()
    bench.prefill(request, 0)
    bench.apply(SaveSequence(SequenceId(0), KEY, len(request.prompt), "matrix", tuple(request.prompt)))
    bench.clear()
    bench.prefill(made_up_request(2, bench.fits(96)), 0)
    bench.apply(RestoreSequence(SequenceId(3), KEY, len(request.prompt)))
    bench.apply(ForgetSaved(KEY))
    yield "another id", unlike(bench.decode([bench.answer(request, 3, 0)])[0], alone[1])


def decoded_then_reused(bench: LogitBench) -> Compared:
    """KV that decoding wrote, under a prompt that goes on after it, against the same text prefilled."""
    whole = made_up_request(1, bench.fits(60))
    prefilled = bench.prefill(whole, 0)
    beginning = replace(whole, prompt=whole.prompt[:40])
    bench.prefill(beginning, 0)
    for place in range(40, 50):
        bench.decode([DecodeRow(beginning, SequenceId(0), place, whole.prompt[place])])
    yield "10 tokens", unlike(bench.finish(whole, 0, 50), prefilled)


CASES: Final[tuple[tuple[str, Case], ...]] = (
    ("prefill chunk size", chunk_sizes),
    ("chunks of one row", single_rows),
    ("other sequences in memory", residents),
    ("prefix copied from another sequence", copied_prefix),
    ("tail trimmed and computed again", trimmed_tail),
    ("two prompts in one call", together),
    ("decode rows in company", decode_company),
    ("decode row beside prompt rows", beside_prefill),
    ("swapped out, and in under another id", swapped),
    ("KV of an answer reused as a prompt's", decoded_then_reused),
)
"""What varies, in the order of the table."""

CHUNKING: Final[tuple[Case, ...]] = (chunk_sizes,)
COMPANY: Final[tuple[Case, ...]] = (decode_company,)
REUSE: Final[tuple[Case, ...]] = (copied_prefix, trimmed_tail, swapped, residents)


def _whole(request: Request, sequence_id: int) -> Row:
    return PrefillChunk(request, SequenceId(sequence_id), 0, request.prompt, wants_logits=True)


def _larger(one: float | None, other: float | None) -> float | None:
    found = [each for each in (one, other) if each is not None]
    return max(found, default=None)
