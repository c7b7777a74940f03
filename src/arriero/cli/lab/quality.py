"""`arriero lab quality MODEL... --reference FILE`: how far model files predict and speak as a reference file does."""

import sys
from argparse import Namespace
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final

from arriero.cli.lab.flag_values import flag_value, whole_or
from arriero.cli.lab.results import make_folder, require_no_report
from arriero.cli.sources import LineParser, make_parser
from arriero.core.choices import FlashAttention, KvType
from arriero.core.errors import ConfigError
from arriero.core.option_kinds import Whole

if TYPE_CHECKING:
    from arriero.lab.quality.plan import QualityPlan
    from arriero.record.bench_parts import RunFacts
    from arriero.record.cpu_lab.quality import QualityResult

OUT: Final = ".artifacts/lab/quality.json"
QUICK_WINDOW: Final = 128
QUICK_WINDOWS: Final = 12
QUICK_TOKENS: Final = 16
_ALL_BUT_QUICK: Final = "--quick sets --window, --stride and --answer-tokens itself; leave out one or the other"


def main(arguments: Sequence[str]) -> int:
    """Measure, keep each file's figures as soon as they are there, and print a table.

    Raises:
        ConfigError: a flag that cannot work, a file that is no model, a text that is too short, another vocabulary.
        DataError: a text or an earlier result that cannot be used.
    """
    words = list(arguments)
    flags = _parser().parse_args(words)
    if flags.report is not None:
        _require_report(Path(flags.report), force=flags.force)
    result = _kept(flags) if flags.source is not None else _measured(flags, ["arriero", "lab", "quality", *words])
    if flags.report is not None:
        _write_report(result, Path(flags.report), force=flags.force)
    return _tell(result, as_json=flags.json)


def _kept(flags: Namespace) -> "QualityResult":
    from arriero.record.cpu_lab.quality import read_quality

    if flags.models or flags.reference is not None:
        raise ConfigError("--from prints a result that is there; leave out MODEL and --reference")
    return read_quality(Path(flags.source))


def _measured(flags: Namespace, command: Sequence[str]) -> "QualityResult":
    """The result, which is in its file too."""
    from arriero.cli.calibrate_progress import told
    from arriero.cli.logs import set_up_logs
    from arriero.cli.simulation.output import require_absent
    from arriero.core.config import LogFormat, LogLevel
    from arriero.lab.quality.measure import measure_quality
    from arriero.record.bench_result_run import run_facts
    from arriero.record.cpu_lab.quality import read_quality, write_quality

    out = Path(flags.out)
    plan = _plan(flags)
    kept = read_quality(out) if flags.resume and out.exists() else None
    if kept is None:
        require_absent([out], force=flags.force)
    make_folder(out.parent)
    set_up_logs(LogLevel.WARNING, LogFormat.TEXT)
    begun_at, begun = datetime.now(UTC), monotonic()

    def facts() -> "RunFacts":
        return run_facts(command, started_at=begun_at, seconds=monotonic() - begun)

    def keep(result: "QualityResult") -> None:
        write_quality(out, result)

    with _llama(), told("quality", sys.stderr) as tell:
        result = measure_quality(plan, facts=facts, tell=tell, keep=keep, kept=kept)
    print(f"result: {out}", file=sys.stderr)
    return result


@contextmanager
def _llama() -> Generator[None]:
    """Start llama.cpp, and stop it after the last model."""
    from arriero.backend.library import process_start, process_stop

    process_start()
    try:
        yield
    finally:
        process_stop()


def _plan(flags: Namespace) -> "QualityPlan":
    from arriero.backend.models import resolve_model
    from arriero.lab.quality.plan import ANSWER_TOKENS, QualityPlan
    from arriero.lab.quality.texts import read_prompts, read_text
    from arriero.lab.quality.windows import WINDOW

    if not flags.models:
        raise ConfigError("no MODEL given; name the files to compare; see arriero lab quality --help")
    if flags.reference is None:
        raise ConfigError("--reference: missing; name the file that the others are compared with")
    sizes = (flags.window, flags.stride, flags.answer_tokens)
    if flags.quick and any(value is not None for value in sizes):
        raise ConfigError(_ALL_BUT_QUICK)
    window, answer_tokens = (QUICK_WINDOW, QUICK_TOKENS) if flags.quick else (WINDOW, ANSWER_TOKENS)
    return QualityPlan(
        reference=resolve_model(flags.reference),
        candidates=tuple(map(resolve_model, flags.models)),
        passage=read_text(None if flags.text is None else Path(flags.text)),
        prompts=read_prompts(),
        window=whole_or("--window", flags.window, 1, window),
        stride=None if flags.stride is None else flag_value("--stride", flags.stride, Whole(1)),
        most_windows=QUICK_WINDOWS if flags.quick else None,
        answer_tokens=whole_or("--answer-tokens", flags.answer_tokens, 0, answer_tokens),
        threads=None if flags.threads is None else flag_value("--threads", flags.threads, Whole(1)),
        flash_attention=FlashAttention(flags.flash_attn),
        kv_type=KvType(flags.kv_type),
        note=flags.reference_note,
    )


def _tell(result: "QualityResult", *, as_json: bool) -> int:
    from arriero.cli.lab.quality_view import json_of, lines_of

    if as_json:
        print(json_of(result))
    else:
        for line in lines_of(result):
            print(line)
    return 0


def _require_report(folder: Path, *, force: bool) -> None:
    """Refuse before anything is measured what would be refused when the report is written."""
    from arriero.cli.lab.report import require_matplotlib

    require_matplotlib()
    require_no_report(folder, force=force)


def _write_report(result: "QualityResult", folder: Path, *, force: bool) -> None:
    from arriero.report.cpu_lab.folder import pictures_by_key, write_report
    from arriero.report.cpu_lab.quality_document import quality_document
    from arriero.report.cpu_lab.quality_plots import quality_pictures

    drawn = list(quality_pictures(result))
    paths = write_report(quality_document(result, pictures_by_key(drawn)), drawn, folder, force=force)
    print(f"report: {paths[0]}", file=sys.stderr)


def _parser() -> LineParser:
    parser = make_parser(
        "lab quality",
        "Perplexity of model files on a text, KL divergence of their next-token distributions from those of a "
        "reference file, and greedy answers beside its answers. No figure depends on how busy the machine is.",
    )
    parser.add_argument("models", metavar="MODEL", nargs="*", help="a GGUF file, smollm2-135m, or hf:ORG/REPO/FILE")
    parser.add_argument("--reference", metavar="MODEL", help="the file that the others are compared with")
    parser.add_argument(
        "--reference-note",
        metavar="TEXT",
        help="what a reader must know of the reference, such as what it is made from",
    )
    parser.add_argument("--text", metavar="FILE", help="the text to predict (default: the one that comes with arriero)")
    parser.add_argument("--window", metavar="N", help="tokens of a window, the first half context only (default: 512)")
    parser.add_argument("--stride", metavar="N", help="from window to window (default: half a window)")
    parser.add_argument("--answer-tokens", metavar="N", help="of a greedy answer; 0 leaves them out (default: 128)")
    parser.add_argument("--threads", metavar="N", help="compute threads (default: the cores available)")
    parser.add_argument(
        "--flash-attn",
        choices=[each.value for each in FlashAttention],
        default=FlashAttention.AUTO,
        help="fused attention (default: auto, which leaves it to llama.cpp)",
    )
    parser.add_argument(
        "--kv-type",
        choices=[each.value for each in KvType],
        default=KvType.F16,
        help="of the MODELs' keys and values; the reference keeps f16 (default: f16)",
    )
    parser.add_argument("--out", metavar="FILE", default=OUT, help=f"the result (default: {OUT})")
    parser.add_argument("--report", metavar="FOLDER", help="write a report with plots there")
    says = "measure nothing: print, or report on, an earlier result"
    parser.add_argument("--from", dest="source", metavar="FILE", help=says)
    parser.add_argument("--quick", action="store_true", help="a few short windows and answers, to see that all works")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--force", action="store_true", help="replace results that exist")
    kind.add_argument("--resume", action="store_true", help="go on with an --out that was interrupted")
    return parser
