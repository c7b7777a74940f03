"""What the rounds of a cell say: a verdict on B against A for each metric, or why there is none."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

import msgspec

from arriero.bench.compare_metrics import CompareMetric
from arriero.bench.compare_texts import Texts
from arriero.bench.rounds import Side, shown
from arriero.metrics.paired import compare_pairs, noise_floor
from arriero.metrics.paired_verdict import NoiseFloor, PairedVerdict, Verdict
from arriero.metrics.validity import Flag
from arriero.record.bench_compare_check import pairs_of
from arriero.record.bench_compare_parts import CompareCell, Question, Round, ServerRun


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """By what is judged; stated before the run.

    Attributes:
        metrics: all that are compared.
        decides: names of those whose verdict is the comparison's.
        margin: the smallest difference that matters, relative; None if none was stated.
        confidence: of the intervals.
        seed: of the bootstrap.
        stable: sides whose answers to equal prompts must be equal.
        accepts_failures: failed requests do not withhold a verdict.
    """

    metrics: tuple[CompareMetric, ...]
    decides: tuple[str, ...]
    margin: float | None = None
    confidence: float = 0.95
    seed: int = 0
    stable: frozenset[Side] = frozenset()
    accepts_failures: bool = False

    def questions(self) -> tuple[Question, ...]:
        """As they are stored."""
        return tuple(
            Question(
                metric=metric.name,
                higher_is_better=metric.higher_is_better,
                margin=self.margin,
                decides=metric.name in self.decides,
            )
            for metric in self.metrics
        )


class Status(IntEnum):
    """What a comparison comes to, as an exit status; see `worst_status` for which one wins."""

    DECIDED = 0  # B is better, or no difference is larger than the one that matters
    FAILED = 1  # a server failed, or answers changed that must not
    NO_VERDICT = 3  # the samples allow none, or the instrument was at fault
    NOT_RESOLVED = 4
    WORSE = 5


def unjudged(
    setting: Mapping[str, Any],
    order: Sequence[Side],
    rounds: Iterable[Round],
    texts: Mapping[Side, Texts],
    servers: Iterable[ServerRun],
    rules: Rules,
) -> CompareCell:
    """A cell as far as it came, without verdicts.

    Args:
        setting: of the cell.
        order: of its `ab` rounds, as planned.
        rounds: in the order of running.
        texts: the answers of each side.
        servers: that ended.
        rules: say which texts must be stable.
    """
    changes = {side.value: texts[side].changes(must_be_stable=side in rules.stable) for side in Side}
    return CompareCell(
        setting=dict(setting),
        order=shown(order),
        floors={},
        verdicts={},
        withheld={},
        texts={**changes, "across": texts[Side.A].differences(texts[Side.B])},
        servers=tuple(servers),
        rounds=tuple(rounds),
    )


def judged(cell: CompareCell, rules: Rules) -> CompareCell:
    """The finished cell with a verdict, or the reason why not, for every metric."""
    floors = dict(_floors(cell, rules))
    whole = _whole_reason(cell, rules)
    verdicts: dict[str, PairedVerdict] = {}
    withheld: dict[str, str] = {}
    for metric in rules.metrics:
        reason = whole or _gap_reason(cell, metric.name)
        if reason is not None:
            withheld[metric.name] = reason
            continue
        floor = floors.get(metric.name)
        verdicts[metric.name] = compare_pairs(
            pairs_of(cell, metric.name),
            floor=None if floor is None else floor.value,
            seed=rules.seed,
            higher_is_better=metric.higher_is_better,
            confidence=rules.confidence,
            margin=rules.margin,
            order=cell.order,
        )
    return msgspec.structs.replace(cell, floors=floors, verdicts=verdicts, withheld=withheld)


def status_of(cell: CompareCell, rules: Rules) -> Status:
    """What the deciding metrics of a judged cell come to."""
    if unstable(cell):
        return Status.FAILED
    statuses = [
        _STATUSES[cell.verdicts[name].verdict] if name in cell.verdicts else Status.NO_VERDICT for name in rules.decides
    ]
    return worst_status(statuses)


def worst_status(statuses: Sequence[Status]) -> Status:
    """The first of failed, no verdict, worse, not resolved, decided that is among them."""
    return next((status for status in _WORST_FIRST if status in statuses), Status.DECIDED)


def unstable(cell: CompareCell) -> list[str]:
    """The sides whose answers had to be equal and were not."""
    return [side for side, changes in cell.texts.items() if changes.must_be_stable and changes.changed]


_WORST_FIRST: Final = (Status.FAILED, Status.NO_VERDICT, Status.WORSE, Status.NOT_RESOLVED, Status.DECIDED)
_STATUSES: Final = {
    Verdict.BETTER: Status.DECIDED,
    Verdict.NO_LARGER_DIFFERENCE: Status.DECIDED,
    Verdict.WORSE: Status.WORSE,
    Verdict.NOT_RESOLVED: Status.NOT_RESOLVED,
    Verdict.NO_VERDICT: Status.NO_VERDICT,
}


def _floors(cell: CompareCell, rules: Rules) -> Iterable[tuple[str, NoiseFloor]]:
    for metric in rules.metrics:
        pairs = pairs_of(cell, metric.name, "aa")
        if any(math.isfinite(a) and math.isfinite(b) and min(a, b) > 0 for a, b in pairs):
            yield metric.name, noise_floor(pairs, seed=rules.seed, confidence=rules.confidence)


def _whole_reason(cell: CompareCell, rules: Rules) -> str | None:
    """Why no verdict of this cell may be used, or None."""
    for side in unstable(cell):
        texts = cell.texts[side]
        return f"{side}: {texts.changed} of {texts.prompts} equal prompts got different answers, and must not"
    rounds = _in_verdict(cell)
    for each in rounds:
        if each.point.validity.flag is Flag.INVALID:
            return (
                f"round {each.index} ({each.phase}, {each.side}) is invalid: {'; '.join(each.point.validity.reasons)}"
            )
    return None if rules.accepts_failures else _failures(rounds)


def _failures(rounds: Sequence[Round]) -> str | None:
    for side in Side:
        # in an A/A phase both sides of a pair are the first server
        counts = [each.point.summary.counts for each in rounds if (Side.A if each.phase == "aa" else each.side) == side]
        failed = sum(count.submitted - count.finished - count.cancelled for count in counts)
        if failed:
            return f"{side}: {failed} of {sum(count.submitted for count in counts)} requests failed"
    return None


def _gap_reason(cell: CompareCell, name: str) -> str | None:
    for each in _in_verdict(cell):
        if each.phase == "ab" and each.values.get(name) is None:
            return f"undefined in round {each.index} ({each.side}); give each round more requests"
    return None


def _in_verdict(cell: CompareCell) -> list[Round]:
    return [each for each in cell.rounds if each.phase in {"aa", "ab"}]
