"""`arriero plan`: which rate a machine sustains under objectives, and with which configuration."""

import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from arriero.cli.plan_flags import PLAN_OPTIONS, plan_parser, slos_of
from arriero.cli.simulation.output import require_absent, write_texts
from arriero.cli.sources import configure
from arriero.core.config import ServeConfig
from arriero.core.errors import ConfigError

if TYPE_CHECKING:
    from arriero.cli.plan_setup import Planned
    from arriero.cli.plan_workload import PlannedWork
    from arriero.record.capacity_plan import Candidate, CapacityPlan, ErrorBars, Prospect
    from arriero.record.cost_profile import CostProfile
    from arriero.sim.capacity import Demand, Sustained


def main(arguments: Sequence[str]) -> int:
    """Simulate every candidate at several rates, write the plan, print it.

    Returns:
        1 if no candidate sustains anything.

    Raises:
        ConfigError: flags that do not go together, no candidate that could start, or a file that exists.
        DataError: a file cannot be used.
    """
    flags = plan_parser().parse_args(arguments)
    slos = slos_of(flags)
    outs = [Path(name) for name in (flags.out, flags.write_config) if name is not None]
    require_absent(outs, force=flags.force)

    from arriero.cli.plan_setup import candidates
    from arriero.cli.plan_workload import load_planned
    from arriero.record.cost_profile import read_cost_profile

    base = configure(flags, os.environ, PLAN_OPTIONS)
    profile = read_cost_profile(Path(flags.profile))
    work = load_planned(flags)
    planned = candidates(flags, base, profile, work.longest, slos.largest_gap_ns)
    plan = _plan(flags, base, profile, work, planned, ["arriero", "plan", *arguments])
    texts = _texts(flags, plan, planned)
    write_texts(texts, force=flags.force)
    _show(flags, plan, planned)
    for path in texts:
        print(f"{path}: written", file=sys.stderr)
    return 0 if plan.best is not None else 1


def _plan(
    flags: Namespace,
    base: ServeConfig,
    profile: "CostProfile",
    work: "PlannedWork",
    planned: "list[Planned]",
    command: Sequence[str],
) -> "CapacityPlan":
    from arriero.cli.calibrate_progress import told
    from arriero.cli.plan_sweep import sweep
    from arriero.record.capacity_plan import CapacityPlan, best_of, plan_run
    from arriero.record.profile_facts import profile_facts
    from arriero.sim.capacity import Demand
    from arriero.workload.manifest import sha256_of

    tasks = [each.task for each in planned if each.task is not None]
    if not tasks:
        raise ConfigError(f"no candidate could start; the first says: {planned[0].refused}")
    demand = Demand(asked=work.asked, slos=slos_of(flags), share=flags.share)
    with told(f"planning for {work.facts.name}", sys.stderr) as tell:
        found = dict(zip(map(id, tasks), sweep(tasks, demand, jobs=flags.jobs, tell=tell), strict=True))
    tried = tuple(_candidate(each, found.get(id(each.task))) for each in planned)
    best = best_of(tried)
    chosen = None if best is None else planned[best]
    path = Path(flags.profile)
    return CapacityPlan(
        run=plan_run(tuple(command)),
        model=base.model,
        workload=work.facts,
        profile=profile_facts(path, sha256_of(path), profile, base.threads),
        slos=demand.slos,
        share=demand.share,
        candidates=tried,
        best=best,
        prospect=None if chosen is None else _prospect(chosen, found[id(chosen.task)], demand),
        error_bars=None if chosen is None else _error_bars(flags, chosen, found[id(chosen.task)], demand),
    )


def _candidate(planned: "Planned", sustained: "Sustained | None") -> "Candidate":
    from arriero.record.capacity_plan import Candidate, Tried

    if sustained is None:
        return Candidate(
            settings=planned.settings, rate_per_s=0.0, attainment=None, saturation_per_s=0.0, is_saturated=False,
            tried=(), refused=planned.refused,
        )  # fmt: skip
    return Candidate(
        settings=planned.settings,
        rate_per_s=sustained.rate_per_s,
        attainment=sustained.attainment,
        saturation_per_s=sustained.saturation_per_s,
        is_saturated=sustained.is_saturated,
        tried=tuple(Tried(rate_per_s=each.rate_per_s, attainment=each.attainment) for each in sustained.tried),
    )


def _prospect(planned: "Planned", sustained: "Sustained", demand: "Demand") -> "Prospect":
    """The best candidate at its rate once more, looking whether its steps lie in the calibrated range."""
    from arriero.record.capacity_plan import Prospect
    from arriero.sim.asked import at_rate
    from arriero.sim.capacity import judged
    from arriero.sim.whatif import simulate
    from arriero.sim.whatif_figures import load_figures

    assert planned.task is not None, "it has a rate"
    asked = at_rate(demand.asked, sustained.rate_per_s)
    task = planned.task
    load = simulate(task.setup, task.cost, asked, door=task.door, looks_outside=True)
    outside = {name: number / load.num_steps for name, number in load.outside.items()}
    return Prospect(figures=load_figures(load, judged(load, demand)), outside=outside)


def _error_bars(flags: Namespace, planned: "Planned", sustained: "Sustained", demand: "Demand") -> "ErrorBars | None":
    """The rate if every step took longer, or less, by as much as simulated capacities were off."""
    if flags.validation is None:
        return None
    from arriero.cli.plan_sweep import sweep
    from arriero.costmodel.calibrated import CalibratedCost
    from arriero.record.capacity_plan import ErrorBars
    from arriero.record.validation import read_validation
    from arriero.sim.cost_changes import scaled
    from arriero.workload.manifest import sha256_of

    path = Path(flags.validation)
    error = read_validation(path).cost_error
    assert planned.task is not None, "it has a rate"
    task = planned.task
    assert isinstance(task.cost, CalibratedCost), "plans rest on a profile"
    tasks = [task._replace(cost=scaled(task.cost, factor)) for factor in (1 + error, 1 / (1 + error))]
    low, high = sweep(tasks, demand, jobs=flags.jobs, tell=lambda _part, _words: None)
    return ErrorBars(
        validation=path.name,
        sha256=sha256_of(path),
        cost_error=error,
        low_per_s=min(low.rate_per_s, sustained.rate_per_s),
        high_per_s=max(high.rate_per_s, sustained.rate_per_s),
    )


def _texts(flags: Namespace, plan: "CapacityPlan", planned: "list[Planned]") -> dict[Path, str]:
    from arriero.record.capacity_plan import encode_plan

    texts = {Path(flags.out): encode_plan(plan, file=flags.out).decode()}
    if flags.write_config is not None and plan.best is not None:
        from arriero.cli.plan_config import as_toml
        from arriero.cli.plan_view import heading, recommended

        settings = recommended(planned[plan.best].config, flags.profile)
        texts[Path(flags.write_config)] = as_toml(settings, heading(plan))
    return texts


def _show(flags: Namespace, plan: "CapacityPlan", planned: "list[Planned]") -> None:
    from arriero.cli.plan_view import live_lines, plan_lines, serve_line
    from arriero.cli.plan_workload import is_journal

    if flags.json:
        from arriero.record.capacity_plan import encode_plan

        sys.stdout.write(encode_plan(plan).decode())
        return
    for line in plan_lines(plan):
        print(line)
    if plan.best is not None:
        print("to serve it, and to ask for that rate:")
        print(f"  {serve_line(planned[plan.best].config, flags.profile)}")
        path = Path(flags.workload)
        for line in live_lines(plan, flags, is_journal=path.is_file() and is_journal(path)):
            print(f"  {line}")
