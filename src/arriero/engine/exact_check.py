"""The start-up self-test of exact mode: does a row of logits depend on anything but its own sequence?

Which kernels compute a row is a property of the weights' format, the build and the machine, so it is compared on the
loaded model, every bit, and never assumed. The reference is a request alone; then come the shapes that the engine will
make of it: other chunks, the caps' own among them, a place beside others, decode calls of every size and with holes,
a prefix that was copied, or kept on the host, and a sequence that was swapped out and in.

Nothing is timed and nothing is drawn by chance: the same backend gives the same answer again.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from typing import Final

from arriero.backend.passing_thread import in_passing_thread
from arriero.backend.protocol import Backend, BackendLimits
from arriero.core.errors import ConfigError
from arriero.core.events import CopySequence, ForgetSaved, RestoreSequence, SaveSequence, TrimSequence
from arriero.core.ids import SavedKey, SequenceId
from arriero.core.request import Request
from arriero.engine.logit_bench import LogitBench, made_up_request, unlike

MULTIPLES: Final = (1, 2, 4, 8)
"""Canonical row counts that are tried, cheapest first."""

SIZES: Final = (2, 3, 4, 5, 7, 8, 16, 31, 37, 64)
"""Chunks that are tried one by one: around the groups in which kernels take rows, and some that no group divides."""

COUNTS: Final = (*range(1, 17), 24, 31, 32, 33, 48, 63, 64, 65, 96, 127, 128, 192, 255, 256)
"""Rows of decode calls; the largest possible count and the one before are always among them."""

LENGTHS: Final = (23, 71)  # of the prompts that are cut: each size is tried on the first that is long enough
SHORT: Final = (13, 22)  # of those that decode, or only keep company
SCOPE: Final = "exact-self-test"
KEY: Final = SavedKey(2**31 - 1)  # no manager's counter comes this far


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactShapes:
    """What the engine will make of requests, beside the limits of its backend.

    Attributes:
        caps: prompt rows of one call, where they are capped; None is no cap.
        reuses: whether prefixes will be copied, and kept on the host.
        threads: numbers of threads that will compute in turns; fewer than two: it stays with those there are.
    """

    caps: tuple[int | None, ...] = ()
    reuses: bool = True
    threads: tuple[int, ...] = ()

    def longest_chunk(self, limits: BackendLimits) -> int:
        """Rows of the longest chunk that one call can have."""
        return min(limits.micro_batch, limits.num_rows, *(cap for cap in self.caps if cap is not None))


@dataclass(frozen=True, slots=True)
class Difference:
    """A shape that changes bits.

    Attributes:
        shape: in a few words.
        largest: the largest difference of two logits; 0 for a backend that could not compute the shape.
    """

    shape: str
    largest: float


@dataclass(frozen=True, slots=True)
class ExactProof:
    """What was compared.

    Attributes:
        num_shapes: how many.
        differing: those that change bits; empty is a proof.
    """

    num_shapes: int
    differing: tuple[Difference, ...]


@dataclass(frozen=True, slots=True)
class ExactBackend:
    """A backend on which exact mode is proven.

    Attributes:
        multiple: every call has a multiple of so many rows; 1 for calls as they are.
        proof: what was compared.
    """

    backend: Backend
    multiple: int
    proof: ExactProof


def open_exact(make: Callable[[int], Backend], shapes: ExactShapes) -> ExactBackend:
    """The first backend that passes the self-test, empty again.

    Args:
        make: a fresh backend whose calls have multiples of so many rows; closed here if it does not pass.
        shapes: what will be asked of it.

    Raises:
        ConfigError: none passes: names the shape that differs and what to do. Or `make` cannot make the first one.
    """
    first: Difference | None = None
    for multiple in MULTIPLES:
        try:
            backend = make(multiple)
        except ConfigError:
            if first is None:
                raise
            continue  # the canonical count does not go with the options: another one may
        try:
            proof = in_passing_thread(partial(check_exact, backend, shapes))
        except BaseException:
            backend.close()
            raise
        if not proof.differing:
            return ExactBackend(backend, multiple, proof)
        backend.close()
        first = first or proof.differing[0]
    assert first is not None, "one multiple at least was tried"
    message = (
        f"--exact: with this model, build and machine {first.shape} gives other bits than the same request alone "
        f"(logits differ by up to {first.largest:.2g}), and calls filled up to multiples of 2, 4 or 8 rows do not mend "
        "it; use weights in a format that passes, such as Q8_0 or Q4_0 (docs/exactness.md), or leave out --exact"
    )
    raise ConfigError(message)


def check_exact(backend: Backend, shapes: ExactShapes, *, fail_fast: bool = True) -> ExactProof:
    """Compare every shape with the same request alone; leaves the memory empty.

    Args:
        backend: empty, with separate streams.
        shapes: what will be asked of it.
        fail_fast: stop at the first difference.
    """
    bench = LogitBench(backend)
    differing: list[Difference] = []
    num_shapes = 0
    for shape, largest in _compared(bench, shapes):
        num_shapes += 1
        if largest is not None:
            differing.append(Difference(shape, largest))
            if fail_fast:
                break
    bench.clear()
    return ExactProof(num_shapes, tuple(differing))


Compared = Iterator[tuple[str, float | None]]
"""A shape in words, and the largest difference if there is one."""


def _compared(bench: LogitBench, shapes: ExactShapes) -> Compared:
    yield from _decode_calls(bench)
    yield from _chunks(bench)
    if shapes.reuses:
        yield from _copied(bench)
        yield from _kept_on_host(bench)
    yield from _threads(bench, shapes.threads)
    yield from _longest_chunk(bench, shapes.longest_chunk(bench.limits))


def _decode_calls(bench: LogitBench) -> Compared:
    """Every row of calls of every size against the same row alone; neighbours differ in content and length."""
    bench.clear()
    num = bench.limits.num_sequences
    subjects = [made_up_request(number, bench.fits(length)) for number, length in enumerate(SHORT, 1)]
    alone = [bench.solo(subject) for subject in subjects]
    for place in range(num):
        which = place % len(subjects)
        if (largest := unlike(bench.prefill(subjects[which], place), alone[which][0])) is not None:
            yield f"a prompt beside {place} others in memory", largest
    for ids, words in _calls(num):
        rows = [bench.answer(subjects[place % len(subjects)], place, 0) for place in ids]
        found = bench.decode(rows)
        expected = [alone[place % len(subjects)][1] for place in ids]
        differences = [unlike(*pair) for pair in zip(found, expected, strict=True)]
        yield words, max((each for each in differences if each is not None), default=None)
        for row in rows:
            bench.apply(TrimSequence(row.sequence_id, row.start))


def _calls(num_sequences: int) -> Iterator[tuple[range, str]]:
    """Ids of decode calls: the first so many, and every other one."""
    counts = sorted({count for count in COUNTS if count < num_sequences} | {num_sequences})
    for count in counts:
        yield range(count), f"a decode call of {count} row{'s' if count > 1 else ''}"
    if num_sequences > 2:
        yield range(0, num_sequences, 2), "a decode call with a hole after each row"
        yield range(num_sequences - 1, num_sequences), "a decode call of the last sequence alone"


def _chunks(bench: LogitBench) -> Compared:
    """A prompt in two chunks, the first one of every size, beside others in memory."""
    bench.clear()
    subjects = [made_up_request(number, bench.fits(length)) for number, length in enumerate(LENGTHS, 1)]
    alone = [bench.solo(subject)[0] for subject in subjects]
    last = bench.limits.num_sequences - 1
    if last:
        bench.prefill(made_up_request(9, bench.fits(SHORT[0])), 0)
    for size in SIZES:
        which = next((i for i, subject in enumerate(subjects) if size + 2 <= len(subject.prompt)), None)
        if which is not None and size <= bench.longest:
            words = f"a chunk of {size} rows, then one of {len(subjects[which].prompt) - size}"
            yield words, unlike(bench.prefill(subjects[which], last, [size]), alone[which])


def _longest_chunk(bench: LogitBench, longest: int) -> Compared:
    """The longest chunk that a call can have, against the same prompt in chunks of all sizes."""
    bench.clear()
    length = bench.fits(longest + 5)
    subject = made_up_request(3, length)
    cuts: list[int] = []
    sizes = cycle(size for size in SIZES if size <= longest)
    while length - (end := (cuts[-1] if cuts else 0) + next(sizes)) >= 2:
        cuts.append(end)
    reference = bench.prefill(subject, 0, [longest] if length - longest >= 2 else [])
    found = bench.prefill(subject, bench.limits.num_sequences - 1, cuts)
    yield f"a chunk of {min(longest, length)} rows", unlike(found, reference)


def _copied(bench: LogitBench) -> Compared:
    """A prefix that another sequence holds, copied while that one stays, and the rest of the prompt."""
    num = bench.limits.num_sequences
    if num < 2 or not bench.support.copy:
        return
    bench.clear()
    subject = made_up_request(1, bench.fits(LENGTHS[0]))
    alone = bench.solo(subject)
    last = SequenceId(num - 1)
    for length in _prefixes(subject):
        bench.clear()
        bench.prefill(subject, 0)
        bench.apply(CopySequence(SequenceId(0), last, length))
        yield f"a prefix of {length} tokens copied", unlike(bench.finish(subject, last, length), alone[0])


def _kept_on_host(bench: LogitBench) -> Compared:
    """A prefix that went to the host store and came back elsewhere; and a whole sequence that was swapped."""
    if not bench.support.save:
        return
    bench.clear()
    subject = made_up_request(1, bench.fits(LENGTHS[0]))
    alone = bench.solo(subject)
    last = SequenceId(bench.limits.num_sequences - 1)
    for length in (*_prefixes(subject), len(subject.prompt)):
        bench.clear()
        bench.prefill(subject, 0)
        bench.apply(SaveSequence(SequenceId(0), KEY, length, SCOPE, tuple(subject.prompt[:length])))
        bench.clear()
        bench.apply(RestoreSequence(last, KEY, length))
        bench.apply(ForgetSaved(KEY))
        if length == len(subject.prompt):
            row = bench.answer(subject, last, 0)
            yield "a sequence swapped out and in", unlike(bench.decode([row])[0], alone[1])
        else:
            found = bench.finish(subject, last, length)
            yield f"a prefix of {length} tokens kept on the host", unlike(found, alone[0])


def _threads(bench: LogitBench, numbers: tuple[int, ...]) -> Compared:
    """A request alone by each number of threads, against the same by the most; those compute at the end."""
    if len(numbers) < 2:
        return
    bench.clear()
    *fewer, most = sorted(numbers)
    subject = made_up_request(1, bench.fits(LENGTHS[1]))
    bench.compute_with(most)
    expected = bench.solo(subject)
    for number in fewer:
        bench.compute_with(number)
        found = bench.solo(subject)
        bench.compute_with(most)
        differences = [unlike(*pair) for pair in zip(found, expected, strict=True)]
        words = f"a request computed with {number} of {most} threads (--adapt-threads)"
        yield words, max((each for each in differences if each is not None), default=None)


def _prefixes(request: Request) -> tuple[int, ...]:
    """Half of a prompt, and all of it but the two rows that exact mode always computes."""
    num_prompt = len(request.prompt)
    return (num_prompt // 2, num_prompt - 2) if num_prompt > 4 else ()
