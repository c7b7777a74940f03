"""What a report of profiles shows, before it becomes tables: cases with their keys, labels and stacks."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from arriero.record.cpu_lab.folded_stacks import FoldedStacks
from arriero.record.cpu_lab.perf import PerfCase
from arriero.record.cpu_lab.perf_comparison import CaseCounters, CaseHot, CounterRatio, PerfComparison

RATIO_NAMES: Final = ("instructions", "cycles", "instructions per cycle", "task-clock", "elapsed")
"""The figures that ratios are drawn of, where they are known."""

_WORD: Final = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class PerfView:
    """One comparison and the stacks that belong to it.

    Attributes:
        comparison: of all runs.
        stacks: key of a case -> its stacks; cases without any are missing.
    """

    comparison: PerfComparison
    stacks: Mapping[str, FoldedStacks]

    @property
    def drawn_ratios(self) -> tuple[CounterRatio, ...]:
        """Ratios with a value, of the figures that are drawn."""
        return tuple(each for each in self.comparison.ratios if each.value is not None and each.name in RATIO_NAMES)


def case_key(case: CaseHot | CaseCounters) -> str:
    """A word for files and links: the model's name, and what tells the case from all others."""
    whole = f"{case.run_id}:{case.mode}:{case.scope_word}:{case.case.case_id}"
    name = _WORD.sub("-", case.case.target.removesuffix(".gguf").lower()).strip("-")[:32]
    return f"{name}-{hashlib.sha256(whole.encode()).hexdigest()[:6]}"


def case_label(case: CaseHot | CaseCounters) -> str:
    """In one line: what ran, and how it was watched."""
    scope = "" if case.scope_word == "whole invocation" else f", {case.scope_word}"
    return f"{case.case.target}, {shape_words(case.case)} ({case.mode}{scope})"


def shape_words(case: PerfCase) -> str:
    """Prompt, answer and threads of a worker; the words of a program of the caller's own."""
    match = re.match(r"p(\d+)-n(\d+)-t(\d+)", case.workload) if case.model is not None else None
    if match is None:
        return case.workload
    prompt, answer, threads = match.groups()
    return f"prompt {prompt}, answer {answer}, {threads} thread{'' if threads == '1' else 's'}"


def labels(cases: Sequence[CaseHot]) -> list[str]:
    """Short ones for a figure: the model alone where nothing else differs."""
    same = len({(case.case.workload, case.mode) for case in cases}) == 1
    names = [case.case.target.removesuffix(".gguf") for case in cases]
    return names if same else [f"{name}\n{shape_words(case.case)}" for name, case in zip(names, cases, strict=True)]
