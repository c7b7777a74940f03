"""`arriero lab recommend`: the fastest acceptable model file and thread counts, where a server finds them."""

import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from arriero.cli.lab.flag_values import flag_value
from arriero.cli.lab.interrupts import resumable
from arriero.cli.lab.recommend_files import DEFAULT_MODELS, bound_words, candidate_files
from arriero.cli.lab.report import require_matplotlib
from arriero.cli.lab.results import tell
from arriero.cli.machine import available_cores
from arriero.cli.quiet import busy_or_refused
from arriero.cli.recommendations import keep, kept_folder
from arriero.cli.simulation.output import ROOT, new_file, refuse_links
from arriero.cli.sources import LineParser, make_parser
from arriero.core.errors import ConfigError
from arriero.core.option_kinds import Numbers, Whole

if TYPE_CHECKING:
    from arriero.lab.recommend.rounds import Visit
    from arriero.lab.recommend.run import Plan
    from arriero.record.cpu_lab.recommendation import Mix, RecommendationRun
    from arriero.record.cpu_lab.run_log import JsonValue

DEFAULT_OUT: Final = f"{ROOT}/lab/recommend"
JSON_FILE: Final = "recommendation.json"
MIX: Final = "512:128:4"
SCREENING: Final = 3
CONFIRMING: Final = 12


class _Size(NamedTuple):
    """How much is measured."""

    mix: str
    screening: str
    confirming: str


_WHOLE: Final = _Size(MIX, f"{SCREENING}", f"{CONFIRMING}")
_QUICK: Final = _Size("64:16:2", "1", "2")


def main(arguments: Sequence[str]) -> int:
    """Measure, decide, write, keep.

    Raises:
        ConfigError: the machine is busy, a run exists already, a file or flag cannot work. DataError: an interrupted
            run is of something else.
    """
    flags = _parser().parse_args(arguments)
    out = Path(flags.out)
    refuse_links(out)
    require_matplotlib()
    _require_new(out, flags)
    size = _QUICK if flags.quick else _WHOLE
    busy = busy_or_refused("or use --busy-ok for a doubtful recommendation", busy_ok=flags.busy_ok)
    plan = _plan(flags, size)
    run = _run(plan, flags, out, busy)
    _write(run, out)
    if flags.json:
        print(msgspec.json.encode(run).decode())
    else:
        print("\n".join(lines_of(run)))
    _keep(run, flags)
    print(f"{out}: written", file=sys.stderr)
    return 0


def lines_of(run: "RecommendationRun") -> list[str]:
    """What a person wants to know."""
    found = [f"{each.name} was not considered: {each.refused}" for each in run.files if each.refused is not None]
    for choice in run.choices:
        judged = choice.judged
        if judged is None:
            found.append(f"{choice.file}: {choice.counts.words} threads, as before; no others looked faster")
            continue
        what = "recommended" if judged.is_better else f"not resolved, so it stays at {choice.counts.words}"
        found.append(
            f"{choice.file}: {judged.candidate} {judged.faster} against {judged.baseline}: {what} "
            f"({judged.num_pairs} pairs)"
        )
    if run.judged is not None:
        what = "recommended" if run.judged.is_better else "not resolved, so the present file stays"
        found.append(f"{run.judged.candidate} {run.judged.faster} against {run.judged.baseline}: {what}")
    choice = run.choice(run.best)
    found.append(f"recommended here for {run.mix.words}: {run.best}, --threads {choice.counts.words}")
    if run.busy is not None:
        found.append(f"doubtful: {run.busy}")
    return found


def _plan(flags: Namespace, size: _Size) -> "Plan":
    from arriero.lab.recommend.run import Plan
    from arriero.record.cpu_lab.recommendation import Counts

    cores = available_cores()
    counts, mix = _counts(flags, cores), _mix(flags.mix or size.mix)
    num_screening = flag_value("--screening", flags.screening or size.screening, Whole(1))
    num_confirming = flag_value("--rounds", flags.rounds or size.confirming, Whole(1))
    return Plan(
        files=candidate_files(flags),  # last, since it may make some
        counts=counts,
        present=Counts(decode=cores, prefill=cores),
        mix=mix,
        num_screening=num_screening,
        num_confirming=num_confirming,
    )


def _run(plan: "Plan", flags: Namespace, out: Path, busy: str | None) -> "RecommendationRun":
    from arriero.cli.advice_llama import LlamaPlace
    from arriero.lab.machine.load_samples import sample_conditions
    from arriero.lab.recommend.rounds import RecommendRecord
    from arriero.lab.recommend.run import Facts, Means, recommend
    from arriero.lab.recommend.worker import worker_process
    from arriero.record.cpu_lab.run_log import RunLog

    machine = dict(LlamaPlace().machine())
    manifest = _manifest(plan, machine)
    if flags.resume:
        log = RunLog[RecommendRecord].resume(out, RecommendRecord, manifest, force=flags.force, repair=True)
    else:
        if flags.force:
            _forget(out)
        log = RunLog[RecommendRecord].create(out, RecommendRecord, manifest)
    with log, resumable(out):
        means = Means(worker=worker_process(), sample=sample_conditions, tell=_tell)
        return recommend(log, plan, means, Facts(machine, bound_words(flags), busy))


def _manifest(plan: "Plan", machine: dict[str, str]) -> "dict[str, JsonValue]":
    return {
        "what": "arriero lab recommend",
        "files": [[file.name, file.sha256, file.refused] for file in plan.files],
        "counts": list(plan.counts),
        "present": plan.present.words,
        "mix": [plan.mix.prompt_tokens, plan.mix.generated_tokens, plan.mix.requests],
        "rounds": [plan.num_screening, plan.num_confirming],
        "machine": dict(machine),
    }


def _require_new(out: Path, flags: Namespace) -> None:
    """Refuse before anything is made what would be refused after it.

    Raises:
        ConfigError: it is no folder, or one that holds a run.
    """
    from arriero.record.cpu_lab.run_log import holds_run

    if out.exists() and not out.is_dir():
        raise ConfigError(f"--out {out}: is no folder; name one")
    if holds_run(out) and not flags.resume and not flags.force:
        raise ConfigError(f"--out {out}: holds a run already; go on with --resume, or begin anew with --force")


def _forget(out: Path) -> None:
    """Take away an earlier run, and nothing else that may lie there."""
    from arriero.record.cpu_lab.run_log import LINES, MANIFEST, SUMMARY, TORN

    for name in (MANIFEST, LINES, SUMMARY, TORN):
        (out / name).unlink(missing_ok=True)


def _tell(number: int, total: int, visit: "Visit") -> None:
    counts = visit.setting.counts
    tell(f"{visit.stage} {number}/{total}: {visit.setting.file}, {counts.words} threads")


def _write(run: "RecommendationRun", out: Path) -> None:
    """The result and its page; they belong to the run in this folder, so older ones give way."""
    from arriero.report.cpu_lab.folder import pictures_by_key, write_report
    from arriero.report.cpu_lab.recommend_document import recommend_document
    from arriero.report.cpu_lab.recommend_pictures import recommend_pictures

    with new_file(out / JSON_FILE, force=True) as file:
        file.write(msgspec.json.format(msgspec.json.encode(run), indent=2) + b"\n")
    drawn = list(recommend_pictures(run))
    write_report(recommend_document(run, pictures_by_key(drawn)), drawn, out, force=True)


def _keep(run: "RecommendationRun", flags: Namespace) -> None:
    folder = kept_folder(os.environ)
    if flags.quick or flags.no_keep or folder is None:
        why = "--quick decides nothing" if flags.quick else "as asked"
        print(f"not kept for servers: {why}", file=sys.stderr)
        return
    for path in keep(folder, run):
        print(f"kept: {path}; a server of this model finds it there", file=sys.stderr)


def _counts(flags: Namespace, cores: int) -> tuple[int, ...]:
    """Numbers of threads, ascending, all cores among them; without the flag powers of two and all cores."""
    if flags.threads is None:
        return tuple(sorted({*(2**power for power in range(cores.bit_length())), cores}))
    return tuple(sorted({*flag_value("--threads", flags.threads, Numbers(1)), cores}))


def _mix(text: str) -> "Mix":
    from arriero.record.cpu_lab.recommendation import Mix

    words = text.split(":")
    if len(words) not in (2, 3):
        raise ConfigError(f"--mix {text}: give prompt tokens, generated ones and requests at once, such as {MIX}")
    prompt, generated, *at_once = (flag_value("--mix", each, Whole(1)) for each in words)
    return Mix(prompt_tokens=prompt, generated_tokens=generated, requests=at_once[0] if at_once else 1)


def _parser() -> LineParser:
    parser = make_parser(
        "lab recommend",
        "Measure model files and thread counts on this machine, and keep what is faster beyond the noise where "
        "`arriero serve` finds it. Without --formats and --file only thread counts are looked at.",
    )
    says = "the model that is used now (default: smollm2-135m)"
    parser.add_argument("--model", metavar="REF", default="smollm2-135m", help=says)
    parser.add_argument("--formats", metavar="LIST", help="formats to make of it and look at, such as Q4_0,Q8_0")
    says = "another file of the same model to look at; repeatable"
    parser.add_argument("--file", metavar="FILE", action="append", help=says)
    says = f"where formats are made (default: {DEFAULT_MODELS})"
    parser.add_argument("--models", metavar="FOLDER", default=DEFAULT_MODELS, help=says)
    parser.add_argument("--quality", metavar="FILE", help="the file of `lab quality` that speaks of these files")
    says = "kl=X, perplexity=X, agreement=X or none; repeatable (default: perplexity=1.02)"
    parser.add_argument("--quality-bound", metavar="BOUND", action="append", help=says)
    says = f"prompt and generated tokens of the request whose seconds count, and how many at once (default: {MIX})"
    parser.add_argument("--mix", metavar="P:N[:C]", help=says)
    says = "numbers of threads, such as 1,2 (default: powers of two, all cores)"
    parser.add_argument("--threads", metavar="LIST", help=says)
    parser.add_argument("--screening", metavar="N", help=f"rounds that pick candidates (default: {SCREENING})")
    parser.add_argument("--rounds", metavar="N", help=f"rounds that judge them (default: {CONFIRMING})")
    parser.add_argument(
        "--quick", action="store_true", help="few and short rounds, to see that it works; decides nothing"
    )
    parser.add_argument("--out", metavar="FOLDER", default=DEFAULT_OUT, help=f"log and page (default: {DEFAULT_OUT})")
    parser.add_argument("--resume", action="store_true", help="go on with an interrupted run")
    parser.add_argument("--force", action="store_true", help="begin anew where a run exists")
    parser.add_argument("--no-keep", action="store_true", help="keep nothing for servers")
    parser.add_argument("--busy-ok", action="store_true", help="measure beside busy processes; the result says so")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    return parser
