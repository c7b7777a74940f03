"""`arriero explain JOURNAL`: where the time of each request of a journal went.

The figures are those that `GET /v1/requests/{id}/explain` gives while the server runs, without the way of the last
bytes, which no journal knows.
"""

from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from arriero.cli.progress import Progress
from arriero.cli.reports import Form, form_of, pictures_of, write_document
from arriero.cli.simulation.numbers import positive
from arriero.cli.simulation.output import add_force
from arriero.cli.sources import LineParser, make_parser
from arriero.core.errors import ConfigError

if TYPE_CHECKING:
    from arriero.costmodel.calibrated import CalibratedCost
    from arriero.metrics.explain_parts import Explanation, Share, Split
    from arriero.report.explain_journal import ExplainedRun

MOST_ROWS: Final = 20


def main(arguments: Sequence[str]) -> int:
    """Read a journal, then print and perhaps write a page.

    Raises:
        ConfigError: flags that do not go together, or no such request. BadJournal: it cannot be read.
    """
    flags = _parser().parse_args(arguments)
    form = _form(flags)
    from arriero.report.explain_journal import explain_journal

    cost = _cost(flags.cost_profile)
    with Progress(f"reading {flags.journal}"):
        runs = explain_journal(Path(flags.journal), cost)
    _require(runs, flags)
    if flags.json:
        _print_json(runs, flags.request)
    else:
        for line in _lines(runs, flags):
            print(line)
    if form is not None:
        _write(runs, form, flags)
    return 0


def _parser() -> LineParser:
    parser = make_parser("explain", "Where the time of each request went: waiting, own work, others' work.")
    parser.add_argument("journal", metavar="JOURNAL", help="as written by `arriero serve --journal` or `sim run`")
    parser.add_argument("--request", metavar="ID", type=int, help="one request, with whose prompts it waited for")
    says = f"print so many, the slowest ones (default: {MOST_ROWS})"
    parser.add_argument("--slowest", metavar="N", type=positive, default=MOST_ROWS, help=says)
    parser.add_argument("--json", action="store_true", help="print every request as one JSON line instead of a table")
    says = "divide steps among their rows by the costs in this profile; without it by those in the journal, or by rows"
    parser.add_argument("--cost-profile", metavar="FILE", help=says)
    parser.add_argument("--out", metavar="FILE", help="write a page, .html or .md, with a bar for each request")
    add_force(parser)
    return parser


def _form(flags: Namespace) -> Form | None:
    """The form of the page; looked at before anything is read."""
    if flags.out is None:
        return None
    form = form_of(Namespace(out=flags.out, plots=None, force=flags.force))
    if form is Form.CSV:
        raise ConfigError(f"--out {flags.out}: a page is .html or .md; --json prints what a program can read")
    return form


def _cost(path: str | None) -> "CalibratedCost | None":
    if path is None:
        return None
    from arriero.record.cost_profile import cost_of, read_cost_profile

    return cost_of(read_cost_profile(Path(path)))


def _require(runs: "Sequence[ExplainedRun]", flags: Namespace) -> None:
    if flags.request is not None and not any(_chosen(run, flags.request) for run in runs):
        raise ConfigError(f"--request {flags.request}: {flags.journal} has no such request; leave it out to see all")


def _chosen(run: "ExplainedRun", request_id: int | None) -> "list[Explanation]":
    return [each for each in run.requests if request_id is None or each.request_id == request_id]


def _print_json(runs: "Sequence[ExplainedRun]", request_id: int | None) -> None:
    import msgspec

    from arriero.record.explained import explained_row

    for run in runs:
        for each in _chosen(run, request_id):
            print(msgspec.json.encode(explained_row(each)).decode())


def _lines(runs: "Sequence[ExplainedRun]", flags: Namespace) -> Iterator[str]:
    from arriero.report.explain_view import slowest

    for run in runs:
        chosen = _chosen(run, flags.request)
        shown = slowest(chosen, flags.slowest)
        yield f"{run.name}: {run.evidence}, {len(run.requests):,} requests, steps divided by {run.basis.value}"
        if run.num_lost:
            yield f"  {run.num_lost:,} requests were alive where records are missing; nothing is told of them"
        if len(shown) < len(chosen):
            yield f"  the {len(shown):,} slowest:"
        if shown:
            yield from _table(shown)
        if flags.request is not None:
            for each in shown:
                yield from _story(each)


def _table(shown: "Sequence[Explanation]") -> Iterator[str]:
    """Milliseconds; parts that none of them has are left out."""
    from arriero.metrics.explain_parts import PARTS
    from arriero.report.explain_view import WORDS

    used = [part for part in PARTS if any(each.split.of(part) for each in shown)]
    widths = [max(11, len(WORDS[part])) for part in used]
    heads = " ".join(f"{WORDS[part]:>{width}}" for part, width in zip(used, widths, strict=True))
    yield f"  {'request':>8} {'state':<10} {'tokens':>7} {'total, ms':>11} {heads}"
    for each in shown:
        cells = " ".join(f"{_ms(each.split.of(part)):>{width}}" for part, width in zip(used, widths, strict=True))
        state = each.ending.state.value
        yield f"  {each.request_id:>8} {state:<10} {each.num_tokens:>7,} {_ms(each.total):>11} {cells}"


def _story(each: "Explanation") -> Iterator[str]:
    """One request stretch by stretch, with names; milliseconds."""
    stretches = (
        ("until first token", each.until_first),
        ("between tokens", each.between),
        ("closing", each.closing),
    )
    for name, split in stretches:
        if split.total:
            yield f"  {name + ':':<19} {_ms(split.total)} = {_sum(split)}"
    if each.others:
        yield f"  {'waited for prompts:':<19} {_names(each.others)}"
    if each.leaders:
        yield f"  {'for a prefix:':<19} {_names(each.leaders)}"
    for gap in each.gaps:
        named = f"; prompts: {_names(gap.others)}" if gap.others else ""
        yield f"  {f'gap, token {gap.index:,}:':<19} {_ms(gap.split.total)} = {_sum(gap.split)}{named}"


def _sum(split: "Split") -> str:
    from arriero.metrics.explain_parts import PARTS
    from arriero.report.explain_view import WORDS

    return " + ".join(f"{WORDS[part]} {_ms(split.of(part))}" for part in PARTS if split.of(part))


def _names(shares: "Sequence[Share]") -> str:
    named = ("others, not named," if share.request_id is None else f"request {share.request_id}" for share in shares)
    return ", ".join(f"{name} {_ms(share.time)}" for name, share in zip(named, shares, strict=True))


def _ms(time: int) -> str:
    return f"{time / 1000:,.3f}"


def _write(runs: "Sequence[ExplainedRun]", form: Form, flags: Namespace) -> None:
    from arriero.report.explain_view import explain_document

    pictures = {}
    if form is Form.HTML:
        from arriero.report.explain_plots import explain_pictures

        with Progress("drawing"):
            pictures = pictures_of(explain_pictures(runs), Namespace(plots=None, force=flags.force))
    write_document(explain_document(runs, pictures, flags.request), form, flags)
    if not flags.json:
        print(f"{flags.out}: written")
