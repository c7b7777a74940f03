"""`arriero sim whatif JOURNAL`: the requests of a journal through another configuration, old and new side by side."""

import json
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from arriero.cli.progress import Progress
from arriero.cli.simulation.numbers import amount, count, positive
from arriero.cli.sources import LineParser, make_parser
from arriero.core.errors import ConfigError

if TYPE_CHECKING:
    from arriero.cli.simulation.whatif_cost import StepCosts
    from arriero.metrics.client_figures import ClientSlos
    from arriero.sim.recorded_run import RecordedRun
    from arriero.sim.whatif import SimulatedLoad
    from arriero.sim.whatif_figures import Figures
    from arriero.sim.whatif_setup import Changes

_CHANGES: Final = (
    "policy", "prefill_rows_per_step", "prefill_rows_per_seq", "itl_target", "sequences", "ctx_size",
)  # fmt: skip


class Side(NamedTuple):
    """One column.

    Attributes:
        figures: by name, in the order of the table; None where undefined.
        outside: in what steps lay beyond the calibrated range -> the share of them.
    """

    name: str
    figures: "Figures"
    outside: dict[str, float]


def main(arguments: Sequence[str]) -> int:
    """Simulate the recorded requests as they were served and as they might be, and print one table.

    Raises:
        ConfigError: nothing is to be changed, or a change cannot be made. BadJournal: the journal cannot be used.
    """
    flags = _parser().parse_args(arguments)
    if all(getattr(flags, name) is None for name in _CHANGES):
        words = ", ".join(f"--{name.replace('_', '-')}" for name in _CHANGES)
        raise ConfigError(f"nothing is to be changed; give one of {words}")
    from arriero.cli.simulation.whatif_cost import costs_of
    from arriero.sim.recorded_run import read_recorded_run

    with Progress(f"reading {flags.journal}"):
        run = read_recorded_run(Path(flags.journal))
        costs = costs_of(run, None if flags.profile is None else Path(flags.profile))
    with Progress("simulating"):
        sides = _sides(run, costs, _changes(flags), _slos(flags))
    if flags.json:
        print(json.dumps(_as_json(flags.journal, run, costs, sides), indent=2))
    else:
        for line in table_lines(flags.journal, run, costs, sides):
            print(line)
    return 0


def _sides(run: "RecordedRun", costs: "StepCosts", changes: "Changes", slos: "ClientSlos | None") -> list[Side]:
    from arriero.costmodel.calibrated import CalibratedCost
    from arriero.sim.whatif import simulate
    from arriero.sim.whatif_figures import recorded_figures
    from arriero.sim.whatif_setup import Changes, changed, cost_for

    old = changed(run.setup, Changes(), costs.cost)
    memory = changed(run.setup, changes, costs.cost)
    cost = cost_for(costs.cost, memory) if isinstance(costs.cost, CalibratedCost) else costs.cost
    new = changed(run.setup, changes, cost)
    return [
        Side("recorded", recorded_figures(run, slos), {}),
        _side("simulated, old", simulate(old, costs.cost, run.asked, looks_outside=True), slos),
        _side("simulated, new", simulate(new, cost, run.asked, looks_outside=True), slos),
    ]


def _side(name: str, load: "SimulatedLoad", slos: "ClientSlos | None") -> Side:
    from arriero.sim.whatif_figures import load_figures, summary_of

    outside = {words: number / load.num_steps for words, number in load.outside.items()}
    return Side(name, load_figures(load, summary_of(load.lives, slos)), outside)


def table_lines(journal: str, run: "RecordedRun", costs: "StepCosts", sides: Sequence[Side]) -> list[str]:
    """The table, below what it rests on."""
    fit = "" if costs.typical is None or costs.bias is None else (
        f"; steps take {costs.bias:+.1%} against their prediction, typically off by {costs.typical:.1%}"
    )  # fmt: skip
    lines = [f"{journal}: {len(run.asked):,} requests, {len(run.steps):,} steps; costs: {costs.words}{fit}"]
    if run.num_rejected:
        lines.append(f"{run.num_rejected} requests that the scheduler rejected are left out")
    lines.append(f"{'':<26}" + "".join(f"{side.name:>16}" for side in sides) + f"{'new / old':>12}")
    for label in sides[-1].figures:
        cells = [side.figures.get(label) for side in sides]
        if any(value is not None for value in cells):
            old, new = cells[-2], cells[-1]
            ratio = f"{new / old:.2f}" if old and new is not None else "-"
            lines.append(f"{label:<26}" + "".join(f"{_cell(value):>16}" for value in cells) + f"{ratio:>12}")
    lines += [
        f"{side.name}: {part:.1%} of the steps lie beyond what was calibrated in {words}; they are guesses"
        for side in sides
        for words, part in side.outside.items()
    ]
    lines.append("new against old, both simulated, is the answer; recorded against old is the error of the simulation")
    return lines


def _cell(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value == int(value) and abs(value) >= 1 else f"{value:,.2f}"


def _as_json(journal: str, run: "RecordedRun", costs: "StepCosts", sides: Sequence[Side]) -> dict[str, Any]:
    return {
        "journal": Path(journal).name,
        "evidence": {side.name: "SIMULATED" for side in sides} | ({"recorded": "MEASURED"} if run.is_measured else {}),
        "requests": len(run.asked),
        "left_out": run.num_rejected,
        "costs": {"from": costs.words, "typical_error": costs.typical, "bias": costs.bias},
        "figures": {side.name: side.figures for side in sides},
        "outside": {side.name: side.outside for side in sides if side.outside},
    }


def _changes(flags: Namespace) -> "Changes":
    from arriero.sim.whatif_setup import Changes

    return Changes(
        policy=flags.policy,
        ageing_s=flags.ageing,
        rows_per_step=flags.prefill_rows_per_step,
        rows_per_sequence=flags.prefill_rows_per_seq,
        itl_target_ms=flags.itl_target,
        sequences=flags.sequences,
        ctx_size=flags.ctx_size,
    )


def _slos(flags: Namespace) -> "ClientSlos | None":
    from arriero.metrics.client_figures import ClientSlos

    slos = ClientSlos(
        ttft_ns=_ns(flags.slo_ttft), tpot_ns=_ns(flags.slo_tpot), e2e_ns=_ns(flags.slo_e2e),
        largest_gap_ns=_ns(flags.slo_gap),
    )  # fmt: skip
    return None if slos == ClientSlos() else slos


def _ns(milliseconds: float | None) -> int | None:
    return None if milliseconds is None else round(milliseconds * 1e6)


def _parser() -> LineParser:
    parser = make_parser(
        "sim whatif", "The arrivals and answers of a journal through another configuration; old and new side by side."
    )
    parser.add_argument("journal", metavar="JOURNAL", help="of one run, as `arriero serve --journal` writes it")
    group = parser.add_argument_group("what is changed")
    group.add_argument("--policy", metavar="WORD", help="as of `arriero serve`, or module:Class")
    group.add_argument("--ageing", metavar="S", type=amount, default=10.0, help="worth one level of priority (10)")
    for flag in ("--prefill-rows-per-step", "--prefill-rows-per-seq"):
        group.add_argument(flag, metavar="N", type=count, help="0 is no limit")
    group.add_argument("--itl-target", metavar="MS", type=amount, help="0 is none; needs a cost profile")
    says = "each keeps the cells that one had, unless --ctx-size says otherwise"
    group.add_argument("--sequences", metavar="N", type=positive, help=says)
    group.add_argument("--ctx-size", metavar="N", type=positive, help="cells of all sequences together")
    group = parser.add_argument_group("costs and objectives")
    says = "of `arriero calibrate` (default: the one in the journal, else a fit of its own steps)"
    group.add_argument("--profile", metavar="FILE", help=says)
    for name, says in (("ttft", "first token"), ("tpot", "mean gap"), ("e2e", "last token"), ("gap", "largest gap")):
        group.add_argument(f"--slo-{name}", metavar="MS", type=amount, help=f"objective: {says} within")
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object")
    return parser
