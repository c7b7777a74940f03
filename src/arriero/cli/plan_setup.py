"""Candidates of a plan: which configurations are tried, and what a server with each would build.

A candidate is a configuration of `arriero serve`. Its scheduler's setup is described by the same function that
describes the engine's in a journal, so a plan tries what would be served.
"""

from argparse import Namespace
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Final, NamedTuple

from arriero.backend.synthetic import SyntheticBackend, SyntheticOptions
from arriero.cli.loading import engine_options
from arriero.cli.plan_sweep import Task
from arriero.core.config import BackendKind, KvLayout, ServeConfig
from arriero.core.config_rules import STREAM_CELLS, check
from arriero.core.errors import ConfigError
from arriero.core.option_kinds import BadValue, Numbers
from arriero.engine.journal import describe
from arriero.engine.options import door_limits
from arriero.engine.pass_rules import rules_of
from arriero.record.capacity_plan import PlanSettings
from arriero.record.cost_profile import CostProfile, cost_of

MOST_CANDIDATES: Final = 256
USUAL_POLICIES: Final = ("fcfs", "shortest-prefill")
USUAL_ROWS: Final = (0, 128)
_NS_PER_MS: Final = 1_000_000


class Planned(NamedTuple):
    """One candidate.

    Attributes:
        settings: in what it differs from the others.
        config: of its server.
        task: what is simulated; None if it cannot serve.
        refused: why it cannot, or None.
    """

    settings: PlanSettings
    config: ServeConfig
    task: Task | None
    refused: str | None


def candidates(
    flags: Namespace, base: ServeConfig, profile: CostProfile, longest: int, gap_ns: int | None
) -> list[Planned]:
    """All candidates, in the order of declaration: sequences, then policies, rows and targets.

    Args:
        flags: lists of what is varied.
        base: what is the same for all.
        profile: the costs.
        longest: prompt and output of the longest request.
        gap_ns: the objective on gaps between tokens, which is a target worth trying; None without one.

    Raises:
        ConfigError: a list is none, or the product of all is too large.
    """
    sequences = _numbers(flags.sequences, "--sequences", 1) or _usual_sequences(profile)
    rows = _numbers(flags.prefill_rows_per_step, "--prefill-rows-per-step", 0) or USUAL_ROWS
    targets = _numbers(flags.itl_target, "--itl-target", 0) or _usual_targets(gap_ns)
    policies = USUAL_POLICIES if flags.policy is None else _words(flags.policy)
    total = len(sequences) * len(rows) * len(targets) * len(policies)
    if total > MOST_CANDIDATES:
        raise ConfigError(f"{total} candidates: at most {MOST_CANDIDATES} are tried; shorten the lists")
    return [
        _planned(PlanSettings(
            policy=policy,
            sequences=number,
            ctx_size=base.ctx_size if "ctx_size" in vars(flags) else _context(base, number, longest),
            prefill_rows_per_step=most or None,
            itl_target=target or None,
        ), base, profile)
        for number, policy, most, target in product(sequences, policies, rows, targets)
    ]  # fmt: skip


def _planned(settings: PlanSettings, base: ServeConfig, profile: CostProfile) -> Planned:
    config = replace(
        base,
        policy=settings.policy,
        sequences=settings.sequences,
        ctx_size=settings.ctx_size,
        prefill_rows_per_step=settings.prefill_rows_per_step,
        itl_target=settings.itl_target,
    )
    try:
        check(config)
        return Planned(settings, config, task_of(config, profile, label_of(settings)), None)
    except ConfigError as error:
        return Planned(settings, config, None, str(error))


def task_of(config: ServeConfig, profile: CostProfile, label: str) -> Task:
    """What a server of this configuration would build, and what its steps cost.

    Raises:
        ConfigError: it could not start.
    """
    options = SyntheticOptions(
        num_sequences=config.sequence_ids,
        num_rows=config.batch,
        micro_batch=config.micro_batch,
        num_cells=config.ctx_size,
        unified=config.kv is KvLayout.UNIFIED,
    )
    backend = SyntheticBackend(options)
    cost = cost_of(profile, threads=config.threads, rules=rules_of(backend.limits))
    # no store: what a run takes there is known of a loaded model only
    quiet = replace(config, backend=BackendKind.SYNTHETIC, cache_ram=0, adapt_threads=False)
    served = engine_options(quiet, backend, cost)
    return Task(label, describe(backend.limits, served, 0), cost, door_limits(backend.limits, served))


def label_of(settings: PlanSettings) -> str:
    """In a few words."""
    rows = "" if settings.prefill_rows_per_step is None else f", {settings.prefill_rows_per_step} prompt rows a step"
    target = "" if settings.itl_target is None else f", steps of {settings.itl_target} ms"
    return f"{settings.sequences} sequences, {settings.policy}{rows}{target}"


def _context(base: ServeConfig, sequences: int, longest: int) -> int:
    """Cells for so many of the longest requests, each in a stream of a whole number of pads."""
    each = -(-longest // STREAM_CELLS) * STREAM_CELLS
    return each * max(sequences, replace(base, sequences=sequences).num_streams)


def _usual_sequences(profile: CostProfile) -> tuple[int, ...]:
    """Powers of two as far as was calibrated, and the number that was."""
    most = profile.valid.sequences
    powers = (2**power for power in range(most.bit_length()))
    return tuple(sorted({most, *(number for number in powers if 2 * number > most // 8)}))


def _usual_targets(gap_ns: int | None) -> tuple[int, ...]:
    return (0,) if gap_ns is None or gap_ns < _NS_PER_MS else (0, gap_ns // _NS_PER_MS)


def _numbers(text: str | None, flag: str, least: int) -> tuple[int, ...]:
    """A list without doubles; empty if there is none."""
    if text is None:
        return ()
    try:
        return tuple(dict.fromkeys(Numbers(least).parse(text)))
    except BadValue as error:
        raise ConfigError(f"{flag} {text}: {error}") from None


def _words(text: str) -> tuple[str, ...]:
    return tuple(_split(text))


def _split(text: str) -> Iterator[str]:
    seen: set[str] = set()
    for word in (each.strip() for each in text.split(",")):
        if not word:
            raise ConfigError(f"--policy {text}: an empty entry; write words with commas between")
        if word not in seen:
            seen.add(word)
            yield word
