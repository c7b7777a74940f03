"""`arriero generate PROMPT`: reads the flags; `answer.py` loads the model and prints what it says."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Annotated, Any, Final

from arriero.cli.logs import set_up_logs
from arriero.cli.sources import add_options, configure, from_flags, make_parser
from arriero.core.config import OPTIONS, ServeConfig, options_of
from arriero.core.errors import ConfigError
from arriero.core.option import Spec
from arriero.core.option_kinds import Real, Switch, Text, Texts, Whole

ANSWER: Final = "Answer"
DEFAULT_TOKENS: Final = 256
# One sequence, so the whole context is its own.
MACHINE: Final = ServeConfig(sequences=1, ctx_size=4096, backlog=0, reuse=False)
_TAKEN: Final = (
    "model", "backend", "ctx_size", "kv", "flash_attn", "kv_type", "exact", "threads", "n_gpu_layers", "batch",
    "micro_batch", "check", "log_level", "log_format",
)  # fmt: skip
MACHINE_OPTIONS: Final = tuple(
    replace(option, default=getattr(MACHINE, option.name)) for option in OPTIONS if option.name in _TAKEN
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerOptions:
    """How the answer is made."""

    max_tokens: Annotated[
        int | None,
        Spec(ANSWER, Whole(1), "length of the answer", unit="tokens", unset=f"{DEFAULT_TOKENS}, or what fits"),
    ] = None
    system: Annotated[str | None, Spec(ANSWER, Text("TEXT"), "what the model is told first; not with --raw")] = None
    raw: Annotated[bool, Spec(ANSWER, Switch(), "continue the prompt as it stands, without the chat template")] = False
    stop: Annotated[tuple[str, ...], Spec(ANSWER, Texts("TEXT"), "end before this text; repeatable")] = ()
    ignore_eos: Annotated[bool, Spec(ANSWER, Switch(), "go on after the model's own end")] = False
    temperature: Annotated[float, Spec(ANSWER, Real(), "how freely tokens are drawn; 0 takes the likeliest")] = 0.0
    top_k: Annotated[int, Spec(ANSWER, Whole(0), "draw from so many tokens; 0 from all", unit="tokens")] = 0
    top_p: Annotated[float, Spec(ANSWER, Real(0, 1), "draw from tokens of this probability together")] = 1.0
    min_p: Annotated[float, Spec(ANSWER, Real(0, 1), "draw from tokens of this share of the likeliest one's")] = 0.0
    repeat_penalty: Annotated[float, Spec(ANSWER, Real(), "above 1, repeating is less likely")] = 1.0
    seed: Annotated[int, Spec(ANSWER, Whole(0, 2**32 - 1), "the same seed gives the same answer")] = 0


ANSWER_OPTIONS: Final = options_of(AnswerOptions)


def main(arguments: Sequence[str]) -> int:
    """Answer one prompt on standard output."""
    parser = make_parser("generate", "Answer one prompt in the terminal.")
    parser.add_argument("prompt", metavar="PROMPT", help="the prompt; - reads standard input")
    add_options(parser, ANSWER_OPTIONS, with_file=False)
    add_options(parser, MACHINE_OPTIONS)
    flags = parser.parse_args(arguments)
    given: dict[str, Any] = from_flags(flags, ANSWER_OPTIONS)
    options = AnswerOptions(**given)
    if options.raw and options.system is not None:
        raise ConfigError("--system: there is no system message without the chat template; leave out --raw or --system")
    config = configure(flags, os.environ, MACHINE_OPTIONS, MACHINE)
    set_up_logs(config.log_level, config.log_format)
    prompt = sys.stdin.read() if flags.prompt == "-" else str(flags.prompt)
    status: int = import_module("arriero.cli.answer").answer(prompt, options, config)
    return status
