"""A paired comparison in a terminal: the verdict first, then what it rests on."""

from collections.abc import Iterator

from arriero.record.cpu_lab.ab import AbResult
from arriero.report.cpu_lab.ab_words import (
    floor_percent,
    judged_interval,
    output_words,
    percent,
    percents,
    power_words,
    rule_words,
    run_words,
    sign_words,
    title_words,
)
from arriero.report.written import UNDEFINED


def result_lines(result: AbResult) -> Iterator[str]:
    """The lines."""
    yield f"{result.word or result.status.upper()}  {result.evidence}  {title_words(result)}"
    for reason in result.reasons:
        yield f"  {reason}"
    if result.error is not None:
        yield f"  {result.error}"
    for flag in result.flags:
        yield f"  caution: {flag}"
    width = max(24, *(len(each.metric.name) for each in result.metrics)) + 2
    yield f"{'metric':<{width}}{'median':>10}  {'interval':<22}{'floor':>9}  better"
    for each in result.metrics:
        floor = floor_percent(each)
        name = each.metric.name if each.metric.decides else f"({each.metric.name})"
        middle = UNDEFINED if each.ab is None else percent(each.ab.summary.median)
        interval = percents(judged_interval(each))
        shown = UNDEFINED if floor is None else f"{floor:.2f} %"
        yield f"{name:<{width}}{middle:>10}  {interval:<22}{shown:>9}  {sign_words(each.ab)}"
    yield f"{rule_words(result)}."
    for each in result.deciding:
        if each.power is not None:
            yield f"{power_words(each.metric.name, each.power)}."
    yield f"{output_words(result.outputs)}."
    yield f"{run_words(result.manifest, result)}."
