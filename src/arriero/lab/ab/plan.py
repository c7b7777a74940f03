"""From two variants to a manifest: numbers of pairs, metrics and rules, checked before anything runs."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from arriero.core.errors import ConfigError
from arriero.lab.ab.judging import PUBLISHED_METRICS
from arriero.lab.ab.provenance import inherited_variables, variant_facts
from arriero.lab.ab.schedule import SEED
from arriero.lab.ab.variants import GENERATION_RATE, PROMPT_RATE, Variant, Worker
from arriero.metrics.ab_verdict import AbRules
from arriero.metrics.paired_figures import fewest_pairs
from arriero.metrics.published_verdict import FEWEST_PAIRS
from arriero.record.cpu_lab.ab_run import (
    DURATION,
    PEAK_RSS,
    AbManifest,
    MetricFacts,
    RuleFacts,
    RuleSet,
    SideName,
)
from arriero.record.cpu_lab.environment import LabEnvironment

WARM_UPS: Final = 3
PAIRS: Final = 20
LONGEST_RUN_S: Final = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AbPlan:
    """What is stated before the run.

    Attributes:
        num_pairs: of the comparison.
        num_aa_pairs: for the noise floor; 0 leaves it unknown.
        num_warm_ups: of each side.
        seed: of the order within pairs, and of the bootstraps and permutations of arriero's rules.
        cpus: that runs are pinned to; None leaves them free.
        timeout_s: of one run.
        rules: that judge.
        num_looks: at growing numbers of pairs, the last one included; arriero's rules only.
        margin: the smallest relative difference that matters; None if none was stated.
        metrics: that decide, in the order of importance; empty for the usual ones of the variants.
        same_text: no verdict unless both sides give the same greedy answer.
    """

    num_pairs: int = PAIRS
    num_aa_pairs: int = PAIRS
    num_warm_ups: int = WARM_UPS
    seed: int = SEED
    cpus: tuple[int, ...] | None = None
    timeout_s: float = LONGEST_RUN_S
    rules: RuleSet = RuleSet.ARRIERO
    num_looks: int = 1
    margin: float | None = None
    metrics: tuple[MetricFacts, ...] = ()
    same_text: bool = False


def manifest_for(plan: AbPlan, variants: Mapping[SideName, Variant], environment: LabEnvironment) -> AbManifest:
    """What a run of these variants is.

    Raises:
        ConfigError: a variant cannot be had, or the rules cannot judge what is planned.
    """
    a, b = variants["a"], variants["b"]
    manifest = AbManifest(
        seed=plan.seed,
        num_warm_ups=plan.num_warm_ups,
        num_aa_pairs=plan.num_aa_pairs,
        num_pairs=plan.num_pairs,
        cpus=plan.cpus,
        timeout_s=plan.timeout_s,
        a=variant_facts(a),
        b=variant_facts(b),
        metrics=_metrics(plan, a, b),
        rules=_rules(plan),
        environment=environment.fingerprint,
        inherited=inherited_variables(os.environ),
    )
    _check(manifest)
    return manifest


def usual_metrics(a: Variant, b: Variant) -> tuple[MetricFacts, ...]:
    """Both rates of two workers, as far as they are measured; else the duration."""
    first, second = a.target, b.target
    if not (isinstance(first, Worker) and isinstance(second, Worker)):
        return (MetricFacts(name=DURATION, higher_is_better=False),)
    wanted = (
        (PROMPT_RATE, first.options.prompt_tokens and second.options.prompt_tokens),
        (GENERATION_RATE, first.options.generated_tokens and second.options.generated_tokens),
    )
    return tuple(MetricFacts(name=name, higher_is_better=True) for name, tokens in wanted if tokens)


def _metrics(plan: AbPlan, a: Variant, b: Variant) -> tuple[MetricFacts, ...]:
    """The deciding ones, then those that every run has."""
    deciding = plan.metrics or usual_metrics(a, b)
    if plan.rules is RuleSet.PUBLISHED:
        if plan.metrics:
            raise ConfigError(f"--metric: the published rules look at {', '.join(PUBLISHED_METRICS)}; leave it out")
        deciding = tuple(MetricFacts(name=name, higher_is_better=name != DURATION) for name in PUBLISHED_METRICS)
        if [each.name for each in usual_metrics(a, b)] != list(PUBLISHED_METRICS[:2]):
            raise ConfigError("--rules published: needs a prompt rate and a generation rate; use --rules arriero")
    taken = {each.name for each in deciding}
    besides = [MetricFacts(name=name, higher_is_better=False, decides=False) for name in (DURATION, PEAK_RSS)]
    if not deciding:
        raise ConfigError("the runs measure neither a prompt nor an answer; give prompt_tokens or generated_tokens")
    return (*deciding, *(each for each in besides if each.name not in taken))


def _rules(plan: AbPlan) -> RuleFacts:
    own = AbRules()
    is_own = plan.rules is RuleSet.ARRIERO
    if not is_own and plan.num_looks > 1:
        raise ConfigError(f"--looks {plan.num_looks}: the published rules look once; use --rules arriero")
    return RuleFacts(
        name=plan.rules,
        error_rate=own.error_rate if is_own else None,
        num_looks=plan.num_looks,
        margin=plan.margin,
        guard=own.guard if is_own else None,
        same_text=plan.same_text,
    )


def _check(manifest: AbManifest) -> None:
    """Refuse a plan that could never decide."""
    rules = manifest.rules
    if rules.name is RuleSet.PUBLISHED:
        fewest = FEWEST_PAIRS
    else:
        confidence = AbRules(num_looks=rules.num_looks).confidence(len(manifest.deciding))
        fewest = fewest_pairs(confidence)
    if manifest.num_pairs < fewest:
        what = "the published rules" if rules.name is RuleSet.PUBLISHED else f"{len(manifest.deciding)} metrics"
        looks = f" at {rules.num_looks} looks" if rules.num_looks > 1 else ""
        raise ConfigError(f"--pairs {manifest.num_pairs}: {what}{looks} need at least {fewest} to decide anything")
    _check_names(manifest.metrics)


def _check_names(metrics: Sequence[MetricFacts]) -> None:
    names = [each.name for each in metrics]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(f"--metric {twice}: named twice; name it once")
