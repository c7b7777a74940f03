"""Texts: whether the same prompt got the same answer, told by hashes.

Greedy decoding gives one answer to a prompt. A server whose answers change with the company of a request has a reason
for it that a person should know: another order of additions, or a mistake. Between two servers the same difference is
no fault of either.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from arriero.record.bench_compare_parts import TextChanges

EXAMPLES: Final = 5
_SHOWN: Final = 12  # digits of a hash


class Texts:
    """Collects the answers of one side."""

    def __init__(self) -> None:
        """Start empty."""
        self._answers: dict[str, list[str]] = {}

    def note(self, answers: Mapping[str, str]) -> None:
        """Add the answers of one measurement: prompt's name → hash of the whole text."""
        for name, text in answers.items():
            self._answers.setdefault(name, []).append(text)

    def changes(self, *, must_be_stable: bool) -> TextChanges:
        """Of this side alone: prompts that were answered more than once."""
        again = ((name, texts) for name, texts in self._answers.items() if len(texts) > 1)
        return _changes(again, must_be_stable=must_be_stable)

    def differences(self, other: "Texts") -> TextChanges:
        """Between the first answers of two sides to the same prompts, which nobody promises to be equal."""
        theirs = other.first()
        both = ((name, [text, theirs[name]]) for name, text in self.first().items() if name in theirs)
        return _changes(both, must_be_stable=False)

    def first(self) -> dict[str, str]:
        """The first answer to each prompt."""
        return {name: texts[0] for name, texts in self._answers.items()}


def _changes(answers: Iterable[tuple[str, list[str]]], *, must_be_stable: bool) -> TextChanges:
    num_prompts, changed = 0, list[str]()
    for name, texts in answers:
        num_prompts += 1
        if len(kinds := list(dict.fromkeys(texts))) > 1:
            changed.append(f"{name}: {', '.join(kind[:_SHOWN] for kind in kinds)}")
    return TextChanges(
        prompts=num_prompts, changed=len(changed), examples=tuple(changed[:EXAMPLES]), must_be_stable=must_be_stable
    )
