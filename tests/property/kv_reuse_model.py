"""Nouns of `ReuseWorld`: runs and lookups as lists and scans, and random setups."""

from dataclasses import dataclass

from arriero.core.events import SavedRun
from arriero.core.ids import SavedKey
from arriero.kv.cells import CellLayout
from arriero.kv.reuse import ReuseRules
from arriero.testing.strategies import Pick


@dataclass(eq=False)
class ModelRun:
    """What others may find of one sequence."""

    scope: str
    prompt: tuple[int, ...]
    visible: tuple[int, ...] = ()
    is_retained: bool = False
    is_resting: bool = False
    is_withdrawn: bool = False
    is_under_way: bool = False
    used: int = 0  # larger is later; of retained runs


@dataclass(eq=False)
class Life:
    """A running request."""

    scope: str | None
    known: list[int]
    num_prompt: int
    num_computed: int
    run: ModelRun | None


@dataclass(frozen=True)
class WorldSetup:
    """A manager as a value."""

    layout: CellLayout
    rules: ReuseRules
    refusals: int  # one operation in so many is refused; 0: none
    adopted: tuple[SavedRun, ...] = ()
    swap_tokens: int = 0


def pick_world(pick: Pick) -> WorldSetup:
    """Both layouts, with and without a host store, all rules."""
    num_sequences, limit, unified = pick(1, 6), pick(6, 24), bool(pick(0, 1))
    whole = num_sequences * limit
    rules = ReuseRules(
        per_session=pick(0, 4) == 4,
        partial=pick(0, 4) != 4,
        min_partial=pick(1, 4) if pick(0, 2) == 2 else 1,
        regenerate=pick(0, 2) != 2,
        keeps_answers=pick(0, 3) != 3,
        min_suffix=pick(1, 2),
        max_retained=pick(0, 3) if pick(0, 3) == 3 else None,
        max_age=pick(1, 12) if pick(0, 3) == 3 else None,
        host_tokens=pick(0, 50) if pick(0, 1) else 0,
        min_restored=pick(1, 3),
        follows=pick(0, 4) != 4,
    )
    texts = [tuple(pick(0, 1) for _ in range(pick(1, 9))) for _ in range(pick(0, 3) if rules.host_tokens else 0)]
    return WorldSetup(
        layout=CellLayout(
            num_sequences=num_sequences,
            num_cells=pick(limit, min(whole, 3 * limit)) if unified else whole,
            sequence_limit=limit,
            unified=unified,
        ),
        rules=rules,
        refusals=pick(5, 30) if pick(0, 1) else 0,
        adopted=tuple(SavedRun(SavedKey(3 * i + 2), "a", text) for i, text in enumerate(texts)),
        swap_tokens=pick(0, 50) if pick(0, 2) else 0,
    )


def usable_of(rules: ReuseRules, texts: list[tuple[tuple[int, ...], bool]], prompt: tuple[int, ...], limit: int) -> int:
    """What one set of texts can give; a scan."""
    whole = len(prompt)

    def allowed(number: int) -> int:
        number = min(number, limit)
        return number if number == whole else max(0, min(number, whole - rules.min_suffix))

    matches = [common(text, prompt) for text, _ in texts]
    if not rules.regenerate and limit < whole and whole in matches:
        return 0
    partial = allowed(max(matches, default=0))
    if rules.partial and partial >= rules.min_partial:
        return partial
    # Among runs of one whole text only the longest level counts, and there only those that have ended.
    ends = [(len(text), ended) for text, ended in texts if text == prompt[: len(text)] == prompt[: allowed(len(text))]]
    longest = max((length for length, _ in ends), default=0)
    return longest if any(ended and length == longest for length, ended in ends) else 0


def begins(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether one begins with the other."""
    return one[: len(other)] == other


def common(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """How many leading tokens are the same."""
    number = 0
    for mine, yours in zip(one, other, strict=False):
        if mine != yours:
            break
        number += 1
    return number
