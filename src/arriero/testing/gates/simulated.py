"""Gates of the simulator; they need neither a model nor an engine."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from arriero.metrics.mixed_decode import MixedCost, MixedPolicy, MixedRun
from arriero.record.mixed_csv import MixedSetup, iterations_csv, requests_csv, run_id, summary_csv
from arriero.sim.mixed_decode import run_mixed_decode
from arriero.sim.mixed_workloads import REALISTIC, mixed_workload
from arriero.testing.gates.context import GateContext
from arriero.testing.gates.findings import Findings
from arriero.testing.gates.mixed_faults import TAMPERINGS, Tampering, stopped_by
from arriero.testing.gates.mixed_table import Compared, compared

_SETUPS: Final = (
    (MixedSetup("exp11_like_all_short", 100, 4, 128, 42, MixedCost()), "d26c1609bcc4"),
    (MixedSetup(REALISTIC, 50, 4, 128, 7, MixedCost()), "a2fa5ef0ddcd"),
)
"""What is run twice, and the published ids of these runs."""


async def check_mixed_decode(context: GateContext, findings: Findings) -> None:
    """The published tables digit by digit, the same bytes on a second run, and rules that stop a run that breaks them.

    The event loop has nothing else to do meanwhile.
    """
    check_lines(compared(context.size.mixed_workloads), findings, context.on_progress)
    for setup, published_id in _SETUPS:
        context.on_progress(f"{setup.workload} twice")
        first, second = _files(setup), _files(setup)
        findings.equal(f"run_id_of_{setup.workload}", run_id(setup, tuple(MixedPolicy)), published_id)
        same = sum(first[name] == text for name, text in second.items())
        findings.equal(f"files_alike_of_{setup.workload}", same, len(first))
    context.on_progress("runs that were tampered with")
    check_stopped(TAMPERINGS, findings)


def check_lines(lines: Iterable[Compared], findings: Findings, on_progress: Callable[[str], None]) -> None:
    """Every figure as it is published."""
    num_lines = num_figures = 0
    for line in lines:
        on_progress(line.what)
        for seen, published in zip(line.seen, line.published, strict=True):
            num_figures += 1
            if seen != published:
                findings.broke(f"{line.what}: {seen}, published {published}")
        num_lines += 1
    findings.count("table_lines", num_lines)
    findings.count("figures", num_figures)


def check_stopped(tamperings: Sequence[Tampering], findings: Findings) -> None:
    """Every tampered run stopped, by the rule that it breaks."""
    num_stopped = 0
    for tampering in tamperings:
        rule = stopped_by(tampering)
        findings.holds(
            f"{tampering.rule!r} stops the run that breaks it, not {rule!r}", holds=tampering.rule in str(rule)
        )
        num_stopped += rule is not None
    findings.equal("tampered_runs_stopped", num_stopped, len(tamperings))


def _files(setup: MixedSetup) -> dict[str, str]:
    """Every CSV file that `arriero sim mixed-decode --out` writes for this setup."""
    requests = mixed_workload(setup.workload, cap=setup.workload_cap, seed=setup.seed)
    runs: dict[MixedPolicy, MixedRun] = {
        policy: run_mixed_decode(policy, requests, num_slots=setup.n_slots, n_batch=setup.n_batch, cost=setup.cost)
        for policy in MixedPolicy
    }
    files = {"summary": summary_csv(setup, runs)}
    for policy, run in runs.items():
        files[f"{policy} requests"] = requests_csv(run)
        files[f"{policy} iterations"] = iterations_csv(run)
    return files
