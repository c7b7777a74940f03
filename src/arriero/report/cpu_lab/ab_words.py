"""Words and numbers of a paired comparison, the same in a terminal, in tables and below figures."""

from collections.abc import Iterator

from arriero.metrics.paired_figures import Interval, verdict_interval
from arriero.metrics.paired_percent import PairedPercent
from arriero.metrics.paired_verdict import PairedVerdict
from arriero.metrics.published_verdict import WORDS
from arriero.record.cpu_lab.ab import AbResult, MetricResult, OutputFacts, PowerFacts
from arriero.record.cpu_lab.ab_run import AbManifest, RuleSet, VariantFacts
from arriero.report.written import UNDEFINED


def percent(value: float | None, digits: int = 2) -> str:
    """A difference with its sign."""
    return UNDEFINED if value is None else f"{value:+.{digits}f} %"


def percents(interval: Interval | None) -> str:
    """An interval of differences."""
    return UNDEFINED if interval is None else f"{interval.low:+.2f} to {interval.high:+.2f} %"


def as_percents(interval: Interval | None) -> Interval | None:
    """An interval of ratios as one of differences."""
    return None if interval is None else Interval(100 * (interval.low - 1), 100 * (interval.high - 1))


def judged_interval(each: MetricResult) -> Interval | None:
    """What the verdict rests on, as differences in percent."""
    if each.verdict is not None:
        return as_percents(verdict_interval(each.verdict))
    return None if each.ab is None else each.ab.bootstrap.percentile


def floor_percent(each: MetricResult) -> float | None:
    """The noise floor as a difference."""
    return None if each.shown_floor is None else 100 * each.shown_floor


def sign_words(found: PairedPercent | None) -> str:
    """How many pairs were better."""
    if found is None or found.summary.signs is None:
        return UNDEFINED
    signs = found.summary.signs
    ties = f", {signs.ties} equal" if signs.ties else ""
    return f"{signs.better} of {signs.total}{ties}"


def verdict_word(verdict: PairedVerdict) -> str:
    """Of one metric."""
    return f"{WORDS[verdict.verdict]} ({verdict.verdict.value.replace('_', ' ')})"


def title_words(result: AbResult) -> str:
    """What was compared."""
    a, b = result.manifest.a.name, result.manifest.b.name
    return f"A/A: {a}" if result.manifest.is_aa else f"{b} against {a}"


def rule_words(result: AbResult) -> str:
    """By which rules, in a sentence."""
    manifest = result.manifest
    names = ", ".join(each.name for each in manifest.deciding)
    if manifest.rules.name is RuleSet.PUBLISHED:
        return (
            f"Judged by the published rules on {names}, each interval at 95 % and nothing corrected for looking at "
            "three of them"
        )
    looks = f" at {manifest.rules.num_looks} looks" if manifest.rules.num_looks > 1 else ""
    rate = manifest.rules.error_rate or 0.0
    return (
        f"Judged by arriero's rules on {names}{looks}: {100 * rate:.0f} % error for the whole comparison, "
        f"so each interval is at {100 * result.confidence:.2f} %"
    )


def run_words(manifest: AbManifest, result: AbResult) -> str:
    """What was run, in a sentence."""
    cpus = "free" if manifest.cpus is None else f"pinned to CPU {', '.join(map(str, manifest.cpus))}"
    early = ", stopped early because an interim look decided" if result.stopped_early else ""
    return (
        f"{manifest.num_warm_ups} warm-ups of each side, {result.num_aa_pairs} A/A pairs, then {result.num_pairs} of "
        f"{manifest.num_pairs} pairs in an order shuffled from seed {manifest.seed}{early}; a fresh process for each "
        f"run, {cpus}"
    )


def power_words(metric: str, power: PowerFacts) -> str:
    """What can be resolved here, in a sentence."""
    effect = f"{power.effect:.3g}" if power.effect >= 1 else f"{100 * power.effect:.3g} %"
    takes = "more pairs than anybody runs" if power.pairs is None else f"{power.pairs} pairs"
    most = "without end" if power.pairs_most is None else str(power.pairs_most)
    least = UNDEFINED if power.pairs_least is None else str(power.pairs_least)
    now = "no effect" if power.smallest_effect is None else f"{100 * power.smallest_effect:.2f} %"
    return (
        f"{metric}: to resolve {effect} here takes {takes} after as many A/A pairs "
        f"({least} to {most}, as the spread of {100 * power.spread:.2f} % is known from {power.num_aa_pairs} pairs); "
        f"this run resolves {now}, with a chance of {100 * power.power:.0f} %"
    )


def output_words(outputs: OutputFacts | None) -> str:
    """Whether both sides said the same, in a sentence."""
    if outputs is None:
        return "No run answered a prompt, so nothing is known of the texts"
    if outputs.equal:
        return f"All {outputs.num_runs} greedy answers of {outputs.num_tokens} tokens are one text, on both sides"
    if outputs.differs_at is None:
        return "The greedy answers of one side change from run to run"
    return (
        f"The greedy answers differ from token {outputs.differs_at} on: A {_tokens(outputs.a_tokens)}, "
        f"B {_tokens(outputs.b_tokens)}"
    )


def variant_rows(facts: VariantFacts) -> Iterator[tuple[str, str]]:
    """Names and values of a side."""
    yield "name", facts.name
    yield "runs", " ".join(facts.command)
    for name, value in facts.settings.items():
        yield name, "not set" if value is None else str(value)
    for name, value in facts.environment.items():
        yield f"variable {name}", value
    for name, sha256 in {**facts.files, **facts.library}.items():
        yield f"sha256 of {name}", sha256


def _tokens(tokens: tuple[int, ...]) -> str:
    return "ends" if not tokens else " ".join(map(str, tokens)) + " ..."
