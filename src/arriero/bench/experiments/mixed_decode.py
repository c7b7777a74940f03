"""E9: the engine's own scheduler on a real backend and on a simulated one, decision by decision.

decisions   admission order, the steps of each request, rows of each decode call: identical
time        three costs, fitted on half of the steps, predict the other half
"""

import json
from collections.abc import Iterator, Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from arriero.bench.experiments.contexts import ModelSettings, open_model, story_tokens
from arriero.bench.experiments.experiment import Experiment, Outcome, Tell
from arriero.bench.experiments.mixed_decode_fit import fit_half, halves
from arriero.bench.experiments.mixed_decode_runs import (
    Case,
    LiveRun,
    preset_lengths,
    run_live,
    run_presets,
    run_simulated,
)
from arriero.bench.experiments.mixed_decode_statements import Judged, statements
from arriero.bench.experiments.mixed_decode_tables import tables
from arriero.core.ids import TokenId
from arriero.record.strict import Count, Name, Positive


class MixedCase(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One run.

    Attributes:
        name: as in tables.
        slots: requests that run at once.
        requests: in all, there at once.
        budgets: tokens, dealt round-robin.
        num_rows: rows of a decode call.
    """

    name: Name
    slots: Positive
    requests: Positive
    budgets: list[Positive]
    num_rows: Positive


class MixedDecodeConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The configuration.

    Attributes:
        model: what computes.
        prompt_tokens: of every request.
        threads: compute threads; left out: every CPU.
        repeats: how often each case is run by the engine; the answers must be the same every time.
        seed: draws the steps that costs are fitted on.
        makespan_tolerance: relative error of the held-out half that still counts as agreement.
        cases: at least one.
    """

    model: ModelSettings
    prompt_tokens: Positive
    threads: Positive | None = None
    repeats: Annotated[int, Meta(ge=2, le=100)]
    seed: Count
    makespan_tolerance: Annotated[float, Meta(gt=0, lt=1)]
    cases: list[MixedCase]


def run(config: MixedDecodeConfig, tell: Tell) -> Outcome:
    """Run every case on both backends and judge."""
    judged: list[Judged] = []
    with open_model(config.model) as source:
        prompt = story_tokens(source.vocabulary, config.prompt_tokens)
        for settings in config.cases:
            case = _case(settings, prompt, config.threads)
            lives: list[LiveRun] = []
            for number in range(config.repeats):
                tell(f"{case.name}, engine, run {number + 1} of {config.repeats}")
                lives.append(run_live(source, case))
            judged.append(_judge(case, lives, config.seed, tell))
        facts = {
            **source.facts(),
            "threads": config.threads or "every CPU",
            "placement": "a thread of the engine's own",
        }
    return Outcome(
        statements=tuple(statements(judged, config.makespan_tolerance)),
        tables=tables(judged, is_model=config.model.backend == "llama"),
        limits=LIMITS,
        facts=facts,
        raw={"steps.jsonl": b"".join(_raw(judged))},
    )


def _case(settings: MixedCase, prompt: tuple[TokenId, ...], threads: int | None) -> Case:
    return Case(
        name=settings.name,
        slots=settings.slots,
        budgets=tuple(settings.budgets[number % len(settings.budgets)] for number in range(settings.requests)),
        prompt=prompt,
        num_rows=settings.num_rows,
        threads=threads,
    )


def _judge(case: Case, lives: Sequence[LiveRun], seed: int, tell: Tell) -> Judged:
    """The last run is the one that is fitted: those before it have warmed the machine up."""
    tell(f"{case.name}, simulator")
    last = lives[-1]
    chosen = halves(last.trace.steps, seed)
    fits = tuple(fit for name, half in chosen.items() if (fit := fit_half(last.trace, name, half)) is not None)
    deciding = fits[0] if fits else None
    return Judged(
        case=case,
        lives=tuple(lives),
        simulated=run_simulated(case, last.limits, deciding),
        presets=run_presets(case, deciding),
        preset_lengths=preset_lengths(case),
        fits=fits,
    )


def _raw(judged: Sequence[Judged]) -> Iterator[bytes]:
    """A line for each step of each run of the engine; durations in us."""
    for each in judged:
        for number, live in enumerate(each.lives):
            for step, duration in zip(live.trace.steps, live.trace.durations, strict=True):
                line = {
                    "case": each.case.name,
                    "run": number,
                    "step": step.number,
                    "us": duration,
                    "prefill_rows": step.prefill_rows,
                    "decode_rows": step.decode_rows,
                    "requests": [request for request, _, _, _ in step.rows],
                    "admitted": list(step.admitted),
                    "finished": list(step.finished),
                }
                yield json.dumps(line, sort_keys=True, separators=(",", ":")).encode() + b"\n"


LIMITS: Final = (
    "Every request is there at the start, so nothing is said about arrivals during a step.",
    "End tokens are ignored: a simulator cannot know where a model ends its answer.",
    "Three costs do not know how far a sequence has come; attention grows with it, and that is part of the error.",
    "The deciding halves are drawn by chance, so a drift of the machine is in both; the first half shows it.",
    "Where prompts are computed in one step only, their cost rests on that one sample.",
)

EXPERIMENT: Final = Experiment(
    name="mixed-decode",
    number="E9",
    decides="Does the scheduler take the same decisions in simulation and in reality, and is its time predictable?",
    metric="differing steps; error of the makespan of the held-out steps",
    comparison="the engine on a backend, the same scheduler in the simulator; costs fitted on half of the steps",
    difference="any differing decision; a held-out makespan further off than the stated tolerance",
    config=MixedDecodeConfig,
    run=run,
)
