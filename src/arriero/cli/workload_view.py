"""How `arriero workload` shows figures: tables, histograms, and the account of an import."""

from itertools import pairwise
from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from arriero.workload.files import Workload
from arriero.workload.importing import Account
from arriero.workload.records import numbered
from arriero.workload.summary import Sharing, Spread, WorkloadSummary, histogram
from arriero.workload.traces import TraceOptions

BAR_CELLS: Final = 40
_NONE: Final = "-"


def show(name: str, workload: Workload, summary: WorkloadSummary, console: Console | None = None) -> None:
    """Print the figures and three histograms."""
    console = console or Console(highlight=False, soft_wrap=True)
    console.print(Text(f"{name}: {summary.num_requests:,} requests, sha256 {workload.sha256}"))
    for line in _facts(summary):
        console.print(Text(f"  {line}"))
    if not workload.records:
        return
    console.print(_spreads(summary))
    times = [record.arrival_time_us for record in numbered(workload.records)]
    for title, values in (
        ("prompt tokens", [record.prompt_token_count for record in workload.records]),
        ("output tokens", [record.max_new_tokens for record in workload.records]),
        ("gaps, us", [later - earlier for earlier, later in pairwise(times)]),
    ):
        console.print(_histogram(title, values))


def account_lines(account: Account, options: TraceOptions) -> list[str]:
    """What was taken of a trace, how it was scaled, and the reuse that an ideal cache would find."""
    output_scale = options.output_scale or options.scale
    minutes = account.last_recorded_us / 60e6
    span_s = account.span_us / 1e6
    demand = f"{account.prompt_tokens / span_s:,.1f} / {account.output_tokens / span_s:,.1f}" if span_s else _NONE
    left_out = f"left out because longer than {options.context} tokens: {account.num_left_out:,}"
    tokens = f"tokens: {account.prompt_tokens:,} prompt, {account.output_tokens:,} output"
    lines = [
        f"  rows read: {account.num_rows:,}, recorded minutes 0 to {minutes:.2f}",
        f"  {left_out if options.context else 'left out: none'}",
        f"  prompts divided by {options.scale}, outputs by {output_scale}, arrival times by {float(options.speed):g}",
        f"  {tokens}; demand per second {demand} over {span_s:,.1f} s",
    ]
    if account.block_tokens:
        left = account.prompt_tokens - account.reusable_tokens
        share = account.reusable_tokens / account.prompt_tokens if account.prompt_tokens else 0
        lines.append(
            f"  blocks of {account.block_tokens} tokens; an ideal cache reuses {share:.2%} and computes {left:,} tokens"
        )
    return lines


def _facts(summary: WorkloadSummary) -> list[str]:
    classes = ", ".join(f"{name} {num:,}" for name, num in summary.classes.items())
    facts = [f"classes: {classes or _NONE}"]
    if summary.span_us is not None:
        rate = _NONE if summary.rate_per_s is None else f"{summary.rate_per_s:,.3f} per s"
        burstiness = _NONE if summary.burstiness is None else f"{summary.burstiness:.3f}"
        facts.append(f"arrivals: over {summary.span_us / 1e6:,.3f} s, {rate}, burstiness {burstiness}")
    facts.append(_sharing(summary.sharing))
    facts.append(f"prefix groups: {summary.num_groups:,}; conversations: {summary.num_sessions:,}")
    if summary.num_following:
        facts.append(
            f"closed loop: {summary.num_following:,} requests wait for the end of another one; "
            "their arrivals here assume nominal answers"
        )
    return facts


def _sharing(sharing: Sharing) -> str:
    if sharing.ratio is None:
        return "exact prompts: none"
    return (
        f"exact prompts: {sharing.num_prompts:,}; {sharing.ratio:.2%} of their {sharing.prompt_tokens:,} tokens "
        "stand in a beginning that an earlier prompt has as well"
    )


def _spreads(summary: WorkloadSummary) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    for word in ("total", "mean", "least", "p50", "p90", "p99", "greatest"):
        table.add_column(word, justify="right", no_wrap=True)
    for word, spread in (
        ("prompt tokens", summary.prompts),
        ("output tokens", summary.outputs),
        ("gaps, us", summary.gaps),
    ):
        table.add_row(word, *_figures(spread))
    return table


def _figures(spread: Spread | None) -> list[str]:
    if spread is None:
        return [_NONE] * 7
    ranks = (spread.least, spread.p50, spread.p90, spread.p99, spread.greatest)
    return [
        f"{spread.total:,}",
        f"{spread.mean:,.1f}",
        *(_NONE if each is None else f"{each:,}" for each in ranks),
    ]


def _histogram(title: str, values: list[int]) -> Table:
    bars = histogram(values)
    most = max((bar.num for bar in bars), default=1)
    table = Table(title=title, title_justify="left", box=None, show_header=False, pad_edge=False)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    for bar in bars:
        edges = f"{bar.low:,}" if bar.low == bar.high else f"{bar.low:,} - {bar.high:,}"
        length = -(-bar.num * BAR_CELLS // most)  # what is there is seen
        table.add_row(edges, f"{bar.num:,}", Text("█" * length, style="cyan"))
    return table
