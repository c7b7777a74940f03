"""One key measured in a process of its own: `python -m arriero.lab.bench_worker JSON` prints one JSON line.

It does what llama-bench does for one key, through the binding: for the prompt and for the answer a context of their
own, just as large as needed; an untimed prompt and token first; the depth filled before each timed part, computed once
and restored after that; random tokens, the start token in front. Whatever goes wrong ends the process with one line on
standard error, so that a crash inside llama.cpp costs one record and not a matrix.
"""

import hashlib
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from arriero.backend.bench_context import BenchContext, BenchOptions
from arriero.backend.library import process_start, process_stop
from arriero.backend.llama_model import LlamaModel
from arriero.backend.models import resolve_model
from arriero.backend.vocabulary import LlamaVocabulary
from arriero.backend.work_buffer import Alignment, align_work_buffers
from arriero.core.errors import ArrieroError, ConfigError
from arriero.lab.machine.library_files import library_facts
from arriero.lab.process import peak_rss_kib
from arriero.lab.worker_process import LARGEST_SIZE, MODULE
from arriero.record.cpu_lab.worker import WorkerModel, WorkerOptions, WorkerResult

FIXED_PROMPT: Final = "The best way to find out whether a change makes a program faster is"
SEED: Final = 8081
_SECOND: Final = 1_000_000_000

Tokens = NDArray[np.int32]
Clock = Callable[[], int]


class Timed(NamedTuple):
    """One phase.

    Attributes:
        ns: of each repetition.
        kv_cache_bytes: of its context.
    """

    ns: tuple[int, ...]
    kv_cache_bytes: int | None


class Greedy(NamedTuple):
    """The answer to the fixed prompt."""

    tokens: tuple[int, ...]
    text: str


def measure(options: WorkerOptions, clock: Clock = time.perf_counter_ns) -> WorkerResult:
    """Load the model, measure both phases, and answer the fixed prompt if asked.

    Raises:
        ConfigError: the model cannot be read, there is no such context, or work buffers cannot be aligned.
        StepFailed: llama.cpp failed at a decode call.
    """
    path = resolve_model(options.model)
    model = LlamaModel(path, mmap=options.mmap)
    try:
        if options.align_work and align_work_buffers() is not Alignment.ALIGNED:
            raise ConfigError("align_work: cannot be had here; leave it out")
        vocabulary = LlamaVocabulary(model)
        draw = TokenSource(vocabulary)
        stand = Stand(model, options, draw, Depth(draw.take(options.depth)), clock)
        prompt = stand.phase(is_prompt=True) if options.prompt_tokens else None
        answer = stand.phase(is_prompt=False) if options.generated_tokens else None
        peak = peak_rss_kib()  # before the hashes and the greedy answer, which llama-bench has not
        greedy = _greedy(model, options, vocabulary) if options.greedy_tokens else None
        return _result(options, model, prompt, answer, greedy, peak)
    finally:
        model.close()


class TokenSource:
    """Random token ids, the same in each process; the start token in front where the model wants one."""

    def __init__(self, vocabulary: LlamaVocabulary) -> None:
        """Seeded."""
        self._random = np.random.default_rng(SEED)
        self._size = vocabulary.size
        first = vocabulary.encode("", add_special=True, parse_special=False)
        self._start = first[0] if vocabulary.adds_start_token and first else None

    def take(self, number: int, *, begins: bool = True) -> Tokens:
        """int32[number]; contiguous."""
        tokens = self._random.integers(0, self._size, number, dtype=np.int32)
        if begins and self._start is not None and number:
            tokens[0] = self._start
        return tokens


class Depth:
    """What stands before the timed tokens: computed the first time, restored after that, in any context."""

    def __init__(self, tokens: Tokens) -> None:
        """As many tokens as it is deep."""
        self._tokens = tokens
        self._state: NDArray[np.uint8] | None = None

    def reach(self, context: BenchContext) -> None:
        """Leave nothing else in a context.

        Raises:
            ConfigError: it cannot stand before several sequences.
        """
        context.clear()
        if not len(self._tokens):
            return
        if self._state is not None and context.restore(self._state):
            return
        context.clear()  # of a state that was refused
        context.prefill(self._tokens)
        self._state = context.save()
        if context.num_sequences > 1:  # the others want it too
            context.clear()
            if not context.restore(self._state):
                raise ConfigError("llama.cpp does not copy this model's memory; leave depth or sequences out")


class Stand(NamedTuple):
    """What both phases need."""

    model: LlamaModel
    options: WorkerOptions
    draw: TokenSource
    depth: Depth
    clock: Clock

    def phase(self, *, is_prompt: bool) -> Timed:
        """Time the prompt, or the answer, in a context just large enough for it and the depth before it."""
        options = self.options
        number = options.prompt_tokens if is_prompt else options.generated_tokens
        sequences = 1 if is_prompt else options.sequences
        context = BenchContext(self.model, _context_options(options, options.depth + number, sequences))
        try:
            act = context.prefill if is_prompt else context.generate
            for _ in range(options.warmups):
                context.clear()
                act(self.draw.take(number if is_prompt else 1))
            ns = tuple(self._time(act, context, number) for _ in range(options.repetitions))
            return Timed(ns, context.kv_cache_bytes)
        finally:
            context.close()

    def _time(self, act: Callable[[Tokens], None], context: BenchContext, number: int) -> int:
        tokens = self.draw.take(number)
        self.depth.reach(context)
        began = self.clock()
        act(tokens)
        return max(1, self.clock() - began)


def _greedy(model: LlamaModel, options: WorkerOptions, vocabulary: LlamaVocabulary) -> Greedy:
    prompt = vocabulary.encode(FIXED_PROMPT, add_special=True, parse_special=False)
    context = BenchContext(model, _context_options(options, len(prompt) + options.greedy_tokens))
    try:
        tokens = context.greedy(prompt, options.greedy_tokens, frozenset(vocabulary.end_tokens))
    finally:
        context.close()
    text = b"".join(vocabulary.piece(token) for token in tokens).decode(errors="replace")
    return Greedy(tuple(tokens), text)


def _context_options(options: WorkerOptions, cells_each: int, sequences: int = 1) -> BenchOptions:
    return BenchOptions(
        num_cells=cells_each * sequences,
        sequences=sequences,
        batch=options.batch,
        micro_batch=options.micro_batch,
        threads=options.threads,
        batch_threads=options.batch_threads or options.threads,
        kv_key=options.kv_key,
        kv_value=options.kv_value,
        flash_attention=options.flash_attention,
    )


def _result(
    options: WorkerOptions,
    model: LlamaModel,
    prompt: Timed | None,
    answer: Timed | None,
    greedy: Greedy | None,
    peak: int | None,
) -> WorkerResult:
    can = model.capabilities
    sizes = [each.kv_cache_bytes for each in (prompt, answer) if each is not None]
    known = [size for size in sizes if size is not None]
    reasons = {} if known else {"kv_cache_bytes": "this llama.cpp printed no KV buffer size"}
    if peak is None:
        reasons["peak_rss_kib"] = "the kernel keeps no VmHWM here"
    return WorkerResult(
        prompt_tokens_per_s=mean_rate(options.prompt_tokens, prompt),
        generated_tokens_per_s=mean_rate(options.generated_tokens * options.sequences, answer),
        prompt_ns=prompt.ns if prompt is not None else (),
        generation_ns=answer.ns if answer is not None else (),
        kv_cache_bytes=max(known, default=None),
        peak_rss_kib=peak,
        model=WorkerModel(
            name=model.path.name,
            file_bytes=model.path.stat().st_size,
            description=can.description,
            weight_format=can.weight_format,
            num_parameters=can.num_parameters,
            weight_bytes=can.weight_bytes,
        ),
        library=library_facts().hashes,
        system_info=model.library.system_info().strip(),
        text=None if greedy is None else greedy.text,
        text_sha256=None if greedy is None else hashlib.sha256(greedy.text.encode()).hexdigest(),
        text_tokens=() if greedy is None else greedy.tokens,
        reasons=reasons,
    )


def mean_rate(num_tokens: int, timed: Timed | None) -> float | None:
    """Mean over the repetitions of tokens per second, as llama-bench computes it; None if nothing was timed."""
    if timed is None:
        return None
    return sum(num_tokens * _SECOND / ns for ns in timed.ns) / len(timed.ns)


def read_options(words: Sequence[str]) -> WorkerOptions:
    """The options in the one argument, or in the file that `@PATH` names.

    Raises:
        ConfigError: not one argument, not of the form of `WorkerOptions`, or a number beyond `LARGEST_SIZE`.
    """
    if len(words) != 1:
        raise ConfigError(f"{MODULE}: give one JSON object, or @FILE")
    try:
        text = Path(words[0][1:]).read_bytes() if words[0].startswith("@") else words[0].encode()
        options = msgspec.json.decode(text, type=WorkerOptions)
    except (OSError, msgspec.DecodeError) as error:  # a validation error is one
        raise ConfigError(f"{MODULE}: {error}; give the options as JSON") from None
    for name, value in msgspec.structs.asdict(options).items():
        if isinstance(value, int) and value > LARGEST_SIZE:
            what = f"{value} is more than llama.cpp can count; give {LARGEST_SIZE} or fewer"
            raise ConfigError(f"{MODULE}: {name}: {what}")
    return options


def main(words: Sequence[str]) -> int:
    """Measure and print; 0, or 2 with one line of complaint."""
    try:
        options = read_options(words)
        process_start()
        result = measure(options)
    except ArrieroError as error:
        sys.stderr.write(f"{MODULE}: {error}\n")
        return 2
    sys.stdout.write(msgspec.json.encode(result).decode() + "\n")
    sys.stdout.flush()
    process_stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
