"""Where a result of the load generator comes from, as rows of names and values."""

from arriero.record.bench_parts import RunFacts, TargetFacts
from arriero.record.machine import MachineFacts
from arriero.report.bench_view import BenchView
from arriero.report.own_run import as_text


def result_rows(view: BenchView) -> tuple[tuple[str, str], ...]:
    """The file."""
    return (
        ("result file", view.file),
        ("sha256 of the file", view.sha256),
        ("format", view.result.schema_version),
        ("evidence", view.result.evidence.value),
    )


def run_rows(run: RunFacts) -> tuple[tuple[str, str], ...]:
    """How a run came about."""
    revision = run.revision or "unknown"
    return (
        ("command", " ".join(run.command)),
        ("started at", run.started_at),
        ("took", f"{run.seconds:,.1f} s{', interrupted' if run.was_interrupted else ''}"),
        ("code", f"arriero {run.version}, sha256 {run.code_sha256}"),
        ("revision", f"{revision}{', with changes' if run.is_dirty else ''}"),
        ("Python", run.python),
        ("packages", ", ".join(f"{name} {version}" for name, version in run.packages.items())),
    )


def target_rows(target: TargetFacts) -> tuple[tuple[str, str], ...]:
    """What was measured."""
    return (
        ("name", target.name),
        ("kind", target.kind),
        ("command", "it ran already" if target.command is None else " ".join(target.command)),
        ("model", target.model or "unknown"),
        *((name, str(value)) for name, value in target.facts.items()),
    )


def machine_rows(machine: MachineFacts) -> tuple[tuple[str, str], ...]:
    """Where it was measured."""
    memory = None if machine.memory_bytes is None else f"{machine.memory_bytes / 2**30:.1f} GiB"
    named = (
        ("CPU", machine.cpu), ("cores that may be used", machine.cores), ("cores online", machine.cores_online),
        ("cgroup limit (cores)", machine.cgroup_cores), ("governor", machine.governor),
        ("frequency (MHz)", machine.frequency_mhz), ("virtualised", machine.virtualised), ("memory", memory),
        ("kernel", machine.kernel), ("Python", machine.python),
    )  # fmt: skip
    reasons = tuple((f"{name}: unknown", why) for name, why in machine.reasons.items())
    return (*((name, str(value)) for name, value in named if value is not None), *reasons)


def schedule_rows(view: BenchView) -> tuple[tuple[str, str], ...]:
    """What was planned before the run, for each point."""
    rows: list[tuple[str, str]] = []
    for point in view.points:
        schedule = point.point.schedule
        seed = "none" if schedule.seed is None else str(schedule.seed)
        counts = (
            f"{schedule.loop} loop, {schedule.num_requests:,} requests, {schedule.num_warm_up:,} warm-ups, seed {seed}"
        )
        rows.append((point.setting or "schedule", f"sha256 {schedule.sha256}; {counts}"))
        rows.append(("", as_text(schedule.settings)))
    return tuple(rows)
