"""One prompt, one engine in this process, one answer on the terminal as it comes."""

import os
import sys
import time
from typing import Final

from arriero.cli.advice import take_advice
from arriero.cli.generate import DEFAULT_TOKENS, AnswerOptions
from arriero.cli.loading import LoadedModel, engine_options, load_model, placement_of
from arriero.cli.progress import Progress
from arriero.core.config import ServeConfig
from arriero.core.ids import TokenId
from arriero.core.request import CancelReason, FinishReason, SamplingParams
from arriero.engine.engine import Engine
from arriero.engine.handle import RequestHandle, Result
from arriero.tokens.detokenizer import Detokenizer
from arriero.tokens.messages import ChatMessage, Role
from arriero.tokens.vocabulary import require_unicode

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_INTERRUPTED: Final = 130


def answer(prompt: str, options: AnswerOptions, config: ServeConfig) -> int:
    """Load, answer, free; the exit status.

    Raises:
        ConfigError, CallerError: the model, a flag or the prompt cannot work; the text says how to mend it.
    """
    with Progress("loading the model"):
        advice = take_advice(config, os.environ)
        config = advice.config
        loaded = load_model(config, advice.threads)
    try:
        engine = Engine(loaded.backend, engine_options(config, loaded.backend, loaded.cost))
        detokenizer = Detokenizer(loaded.vocabulary, options.stop)
        engine.start(placement_of(config))
        try:
            return _tell(_submit(engine, prompt, options, loaded), detokenizer)
        finally:
            engine.cancel_all()
            engine.shutdown()
            engine.join()
    finally:
        loaded.close()


def prompt_tokens(prompt: str, options: AnswerOptions, loaded: LoadedModel) -> list[TokenId]:
    """The prompt as the model is to see it: through its chat template, unless it has none or nobody wants it."""
    require_unicode(prompt, "PROMPT")
    if options.raw or (loaded.template.is_fallback and options.system is None):
        return loaded.vocabulary.encode(prompt, add_special=True, parse_special=False)
    system = [] if options.system is None else [ChatMessage(role=Role.SYSTEM, content=options.system)]
    return loaded.template.render([*system, ChatMessage(role=Role.USER, content=prompt)])


def _submit(engine: Engine, prompt: str, options: AnswerOptions, loaded: LoadedModel) -> RequestHandle:
    tokens = prompt_tokens(prompt, options, loaded)
    fits = engine.limits.sequence_limit - len(tokens) + 1
    return engine.submit(
        tokens,
        options.max_tokens or max(1, min(DEFAULT_TOKENS, fits)),
        sampling=SamplingParams(
            temperature=options.temperature,
            top_k=options.top_k,
            top_p=options.top_p,
            min_p=options.min_p,
            repeat_penalty=options.repeat_penalty,
            seed=options.seed,
        ),
        end_tokens=frozenset() if options.ignore_eos else None,
        want_stream=True,
    )


def _tell(handle: RequestHandle, detokenizer: Detokenizer) -> int:
    """Print the answer as it comes; Ctrl-C cancels it."""
    began_at = time.monotonic()
    try:
        _print_stream(handle, detokenizer)
        result = handle.wait()
    except KeyboardInterrupt:
        handle.cancel()
        result = handle.wait()
    print(flush=True)
    print(_summary(result, detokenizer, time.monotonic() - began_at), file=sys.stderr)
    if result.error is not None:
        raise result.error
    if result.reason is FinishReason.CANCELLED and result.cancel_reason is not CancelReason.STOP:
        return EXIT_INTERRUPTED
    return EXIT_OK if result.reason is not FinishReason.ABORTED else EXIT_FAILED


def _print_stream(handle: RequestHandle, detokenizer: Detokenizer) -> None:
    assert handle.stream is not None, "submitted with a stream"
    for tokens in handle.stream:
        delta = detokenizer.feed(tokens)
        print(delta.text, end="", flush=True)
        if delta.stopped is not None:
            handle.cancel(CancelReason.STOP)
            return
    print(detokenizer.finish().text, end="", flush=True)


def _summary(result: Result, detokenizer: Detokenizer, seconds: float) -> str:
    num_tokens = detokenizer.num_tokens
    reason = "stop string" if detokenizer.stopped is not None else result.reason.value
    rate = f", {num_tokens / seconds:,.1f} tokens/s" if seconds > 0 else ""
    return f"[{result.prompt_tokens} + {num_tokens} tokens in {seconds:.2f} s{rate}; ended by {reason}]"
