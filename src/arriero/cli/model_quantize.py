"""`arriero model quantize MODEL FORMAT`: the same model in another weight format."""

import re
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from arriero.cli.progress import Progress
from arriero.cli.simulation.output import ROOT, add_force, require_absent
from arriero.cli.sources import LineParser, make_parser
from arriero.core.errors import ConfigError
from arriero.core.option_kinds import BadValue, Whole

if TYPE_CHECKING:
    from arriero.backend.models import WeightFormat
    from arriero.record.cpu_lab.model_facts import ModelFacts

FOLDER: Final = f"{ROOT}/models"
_FORMAT_AT_END: Final = re.compile(r"[.\-_](?:I?Q\d[A-Z0-9_]*|BF16|FP?16|FP?32)\Z", re.IGNORECASE)


def main(arguments: Sequence[str]) -> int:
    """Convert, then say what the new file really holds.

    Raises:
        ConfigError: no such format, or the new file exists already. ModelUnreadable: the source cannot be converted.
    """
    flags = _parser().parse_args(arguments)
    from arriero.backend.library import process_start, process_stop
    from arriero.backend.models import quantize, resolve_model
    from arriero.cli.logs import set_up_logs
    from arriero.cli.model_show import model_lines
    from arriero.core.config import LogFormat, LogLevel
    from arriero.lab.machine.model_file import model_facts

    wanted = format_of(flags.format)
    threads = _threads(flags)
    source = resolve_model(flags.model)
    facts = model_facts(source)
    out = Path(flags.out) if flags.out is not None else Path(FOLDER) / new_name(facts.file, wanted)
    _check_place(source, out, flags)
    for line in doubts(facts, wanted):
        print(f"note: {line}", file=sys.stderr)
    set_up_logs(LogLevel.WARNING, LogFormat.TEXT)
    process_start()
    try:
        with Progress(f"writing {out.name}"):
            quantize(source, out, wanted, num_threads=threads)
    finally:
        process_stop()
    print("\n".join(model_lines(model_facts(out))))
    print(f"{out}: written", file=sys.stderr)
    return 0


def format_of(word: str) -> "WeightFormat":
    """The format that a word names, in any case.

    Raises:
        ConfigError: none.
    """
    from arriero.backend.models import WeightFormat

    try:
        return WeightFormat(word.upper())
    except ValueError:
        raise ConfigError(f"FORMAT {word}: no such format; use {', '.join(WeightFormat)}") from None


def new_name(file: str, wanted: "WeightFormat") -> str:
    """The name of the new file: the format at the end of the old one gives way to the new one."""
    stem = file.removesuffix(".gguf")
    return f"{_FORMAT_AT_END.sub('', stem)}.{wanted}.gguf"


def doubts(facts: "ModelFacts", wanted: "WeightFormat") -> list[str]:
    """What the user should know before, one line each."""
    from arriero.backend.gguf_types import is_quantised

    lines: list[str] = []
    quantised = [each.type for each in facts.tensor_types if is_quantised(each.type)]
    if quantised:
        lines.append(
            f"{facts.file} is quantised already ({', '.join(quantised)}): what was lost does not come back, so the "
            "new file is fit for measuring speed and no reference for quality; take an F16 original if there is one"
        )
    if facts.declared_format == wanted:
        lines.append(f"{facts.file} says that it is {wanted} already")
    return lines


def _check_place(source: Path, out: Path, flags: Namespace) -> None:
    if out.resolve() == source.resolve():
        raise ConfigError(f"--out {out}: is the source itself; name another file")
    require_absent([out], force=flags.force)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = (error.strerror or "an error of the system").lower()
        raise ConfigError(f"{out.parent}: no folder can be made there ({reason}); name another with --out") from None


def _threads(flags: Namespace) -> int:
    try:
        return Whole(0).parse(flags.threads)
    except BadValue as error:
        raise ConfigError(f"--threads {flags.threads}: {error}") from None


def _parser() -> LineParser:
    parser = make_parser(
        "model quantize",
        "Write a model's weights in another format. The new file appears when it is complete. Rows that a K-quant's "
        "blocks do not fit fall back to other types; the real types are told at the end.",
    )
    parser.add_argument("model", metavar="MODEL", help="a GGUF file, smollm2-135m, or hf:ORG/REPO/FILE")
    parser.add_argument("format", metavar="FORMAT", help="F16, BF16, Q8_0, Q4_0, Q4_1 or Q4_K_M")
    parser.add_argument("--out", metavar="FILE", help=f"the new file (default: {FOLDER}/NAME.FORMAT.gguf)")
    parser.add_argument("--threads", metavar="N", default="0", help="threads that convert (default: all CPUs)")
    add_force(parser)
    return parser
