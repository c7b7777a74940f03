"""`arriero lab ab`: two variants in randomised pairs, against their noise floor."""

import argparse
import signal
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final

from arriero.cli.quiet import busy_or_refused
from arriero.cli.simulation.output import ROOT
from arriero.cli.sources import LineParser, make_parser

if TYPE_CHECKING:
    from arriero.record.cpu_lab.ab import AbResult

DEFAULT_OUT: Final = f"{ROOT}/lab/ab"
SIDES: Final = ("a", "b")
_EPILOG: Final = """
A is what is compared with, B is what is judged: a difference is 100 (B - A) / A.

examples:
  arriero lab ab --both model=smollm2-135m --a threads=1 --b threads=2
  arriero lab ab --both threads=2 --a model=old.gguf --b model=new.gguf --same-text
  arriero lab ab --both threads=2 --b-library builds/edited --rules published
  arriero lab ab --both threads=2 --b-env OMP_WAIT_POLICY=passive
  arriero lab ab --aa --both threads=2
  arriero lab ab --a-command 'sort -n old.txt' --b-command 'sort -n --parallel=1 old.txt'
  arriero lab ab --a-command '...' --b-command '...' --metric result.tokens_per_s:up

exit status:
  0  POSITIVE, or no difference is larger than --least-difference; with --aa: nothing was told apart
  1  a run failed or timed out; its record is kept, and --resume goes on; with --aa: two equal sides were told apart
  2  something given cannot work
  3  INCONCLUSIVE, because the samples allow no verdict: drift, two modes, too few pairs
  4  INCONCLUSIVE: the interval holds no difference, or the difference lies within the noise floor
  5  REJECT
  130  interrupted; --resume goes on
"""


def main(arguments: Sequence[str]) -> int:
    """Compare, or judge again what was measured; the exit status says the verdict.

    Raises:
        ConfigError: something given cannot work. DataError: a run's files break their format.
    """
    flags = _parser().parse_args(arguments)
    result = _recomputed(flags) if flags.recompute is not None else _measured(flags, arguments)
    folder = Path(flags.recompute or flags.out)
    _report(result, folder)
    if flags.json:
        from arriero.record.cpu_lab.ab import encode_ab

        sys.stdout.write(encode_ab(result).decode())
    else:
        from arriero.cli.lab.ab_view import result_lines

        print("\n".join(result_lines(result)))
    print(f"{folder}: written", file=sys.stderr)
    return _status(result)


def _measured(flags: Namespace, arguments: Sequence[str]) -> "AbResult":
    from arriero.cli.lab.ab_flags import options_of, plan_of, variants_of
    from arriero.lab.ab.plan import manifest_for
    from arriero.lab.ab.runner import AbSetup
    from arriero.lab.ab.session import run_ab
    from arriero.lab.machine.environment import lab_environment
    from arriero.lab.machine.load_samples import sample_conditions
    from arriero.record.provenance import portable_command

    variants, plan, options = variants_of(flags), plan_of(flags), options_of(flags)
    environment = lab_environment()
    setup = AbSetup(
        manifest=manifest_for(plan, variants, environment),
        variants=variants,
        environment=environment,
        command=tuple(portable_command(["arriero", "lab", "ab", *arguments])),
        sample=sample_conditions,
    )
    busy = busy_or_refused("or use --busy-ok for a result that says so", busy_ok=flags.busy_ok)
    if busy is not None:
        _tell(f"arriero: {busy}")
    signal.signal(signal.SIGTERM, _as_interrupt)
    try:
        return run_ab(setup, Path(flags.out), _tell, options)
    except KeyboardInterrupt:
        _tell(f"{flags.out}: holds what was measured; the same command with --resume goes on")
        raise


def _recomputed(flags: Namespace) -> "AbResult":
    from arriero.lab.ab.session import make_result

    return make_result(Path(flags.recompute))


def _report(result: "AbResult", folder: Path) -> None:
    """README.md, index.html and figures beside the result; a line instead where nothing can draw."""
    try:
        from arriero.report.cpu_lab.ab_document import ab_document
        from arriero.report.cpu_lab.ab_pictures import ab_pictures
        from arriero.report.cpu_lab.folder import pictures_by_key, write_report
    except ImportError:
        _tell("no report: figures need matplotlib; pip install 'arriero[report]', then use --recompute")
        return
    drawn = ab_pictures(result)
    write_report(ab_document(result, pictures_by_key(drawn)), drawn, folder, force=True)


def _status(result: "AbResult") -> int:
    from arriero.metrics.paired_verdict import Verdict

    if result.verdict is None:
        print(f"arriero: {result.error}", file=sys.stderr)
        return 1
    statuses = {
        Verdict.BETTER: 0,
        Verdict.NO_LARGER_DIFFERENCE: 0,
        Verdict.NO_VERDICT: 3,
        Verdict.NOT_RESOLVED: 4,
        Verdict.WORSE: 5,
    }
    if result.manifest.is_aa:
        return int(result.verdict in {Verdict.BETTER, Verdict.WORSE})
    return statuses[result.verdict]


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _as_interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _parser() -> LineParser:
    parser = make_parser(
        "lab ab",
        "Compare two variants in randomised pairs of runs, a fresh process for each, A against itself first.",
    )
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    _add_sides(parser)
    _add_plan(parser)
    _add_rules(parser)
    _add_result(parser)
    return parser


def _add_sides(parser: LineParser) -> None:
    shared = parser.add_argument_group("both sides")
    says = (
        "settings of the bench worker, repeatable: model, threads, batch_threads, prompt_tokens, generated_tokens, "
        "depth, sequences, batch, micro_batch, kv (or kv_key, kv_value), flash_attention, mmap, repetitions, warmups, "
        "align_work, greedy_tokens"
    )
    shared.add_argument("--both", metavar="K=V,K=V", action="append", default=[], help=says)
    shared.add_argument("--aa", action="store_true", help="B is A: how often does this machine tell equal sides apart")
    for side in SIDES:
        group = parser.add_argument_group(f"side {side.upper()}")
        group.add_argument(f"--{side}", metavar="K=V,K=V", action="append", default=[], help="on top of --both")
        group.add_argument(f"--{side}-env", metavar="K=V", action="append", default=[], help="a variable; repeatable")
        group.add_argument(f"--{side}-library", metavar="DIR", help="folder of another build's libllama")
        group.add_argument(f"--{side}-command", metavar="TEXT", help="any command instead of the worker; no shell")
        group.add_argument(f"--{side}-name", metavar="NAME", help="its name in tables")


def _add_plan(parser: LineParser) -> None:
    from arriero.cli.simulation.numbers import amount, count, positive

    group = parser.add_argument_group("runs")
    group.add_argument("--pairs", metavar="N", type=positive, help="of A and B (default: 20)")
    group.add_argument("--aa-pairs", metavar="N", type=count, help="of A with itself, before (default: as many)")
    group.add_argument("--warm-ups", metavar="N", type=count, help="of each side, in turns, before all (default: 3)")
    group.add_argument("--seed", metavar="N", type=int, default=8081, help="of the order in pairs (default: 8081)")
    group.add_argument("--cpus", metavar="LIST", help="pin every run to these, such as 0,1 (default: free)")
    group.add_argument("--timeout", metavar="S", type=amount, default=600.0, help="of one run (default: 600)")
    group.add_argument("--quick", action="store_true", help="few pairs of short runs, to see that it works")
    group.add_argument("--busy-ok", action="store_true", help="begin beside busy processes; the result says so")


def _add_rules(parser: LineParser) -> None:
    from arriero.cli.bench.compare_numbers import share
    from arriero.cli.simulation.numbers import positive

    group = parser.add_argument_group("rules, stated before the run")
    says = "arriero: one error rate for all questions, and the noise floor counts (default); published: docs/lab/ab.md"
    group.add_argument("--rules", choices=["arriero", "published"], default="arriero", help=says)
    says = "decides; repeatable; a command's own metrics are keys of the JSON that it prints (default: both rates)"
    group.add_argument("--metric", metavar="NAME[:up|down]", action="append", default=[], help=says)
    says = "the smallest difference that matters, such as 2%% (default: none stated; the power estimate asks about 2%%)"
    group.add_argument("--least-difference", metavar="SHARE", type=share, help=says)
    says = "judge so often while pairs are added, and stop once it is decided (default: 1)"
    group.add_argument("--looks", metavar="N", type=positive, default=1, help=says)
    group.add_argument("--same-text", action="store_true", help="no verdict unless both sides answer a prompt alike")


def _add_result(parser: LineParser) -> None:
    group = parser.add_argument_group("result")
    says = f"folder of the records, the result and its report (default: {DEFAULT_OUT})"
    group.add_argument("--out", metavar="FOLDER", default=DEFAULT_OUT, help=says)
    group.add_argument("--resume", action="store_true", help="go on with the run in that folder")
    group.add_argument("--repair", action="store_true", help="with --resume: set a line that was cut off aside")
    group.add_argument("--force", action="store_true", help="with --resume: go on although something else is compared")
    group.add_argument("--recompute", metavar="FOLDER", help="measure nothing: judge that folder's records again")
    group.add_argument("--json", action="store_true", help="print the result as JSON")
