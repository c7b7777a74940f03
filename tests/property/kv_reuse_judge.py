"""ReuseJudge: what can be known of a CellManager with reuse from outside, and whether it agrees."""

from collections import Counter
from dataclasses import dataclass, field

from arriero.core.events import (
    AdmissionSource,
    CopySequence,
    DropSequence,
    KvOp,
    PrefixSource,
    RestoreSequence,
    ReuseVerdict,
    SaveSequence,
)
from arriero.core.ids import SequenceId
from arriero.kv.cells import CellManager
from arriero.kv.protocol import PrefixHit, Shortage, Started
from arriero.testing.strategies import Pick
from tests.property.kv_memory import Cells, Memory, Text
from tests.property.kv_reuse_model import Life, ModelRun, WorldSetup, begins, common, usable_of


@dataclass
class ReuseJudge:
    """What is known of a manager from outside; every check is an assertion."""

    setup: WorldSetup
    pick: Pick
    now: int = 0
    num_started: int = 0
    tick: int = 0
    told: Counter[str] = field(default_factory=Counter)
    lives: dict[int, Life] = field(default_factory=dict)
    runs: dict[int, ModelRun] = field(default_factory=dict)  # on ids, running and retained
    host: dict[int, Text] = field(default_factory=dict)
    private: dict[int, Text] = field(default_factory=dict)  # in the host store too, and for one request each
    uses: dict[int, tuple[KvOp, ModelRun | None]] = field(default_factory=dict)
    pending: list[KvOp] = field(default_factory=list)
    texts: list[tuple[int, ...]] = field(default_factory=list)
    broken: set[int] = field(default_factory=set)  # sequences that a refused operation has touched since

    def __post_init__(self) -> None:
        self.layout, self.rules = self.setup.layout, self.setup.rules
        self.kv = CellManager(self.layout, reuse=self.rules, swap_tokens=self.setup.swap_tokens)
        self.memory, self.cells = Memory(), Cells(unified=self.layout.unified)
        self.quarantined: set[int] = set()
        self.resting: set[int] = set()
        self.stale: tuple[tuple[int, ...], str | None, PrefixHit] | None = None

    def check(self) -> None:
        """The books agree with what can be seen."""
        self.kv.check()
        usage, figures = self.kv.usage(), self.kv.reuse_figures()
        retained = {sequence for sequence, run in self.runs.items() if run.is_retained}
        active = self.cells.held(set(self.lives))
        kept = self.cells.held(retained) - active
        assert set(self.cells.of) == retained | set(self.lives)
        assert (usage.active_cells, usage.retained_cells) == (len(active), len(kept))
        assert usage.active_cells + usage.retained_cells + usage.free_cells == usage.num_cells
        assert usage.free_cells >= 0
        assert usage.held_tokens == sum(len(self.cells.of[each]) for each in self.lives)
        assert usage.sequences_held == len(self.lives)
        assert usage.sequences_retained == len(retained)
        assert usage.sequences_quarantined == len(self.quarantined)
        free = self.layout.num_sequences - len(retained | set(self.lives) | self.quarantined)
        assert usage.sequences_free == free
        assert figures is not None
        assert figures is self.kv.reuse_figures()
        num_private = sum(len(text) for _, text in self.private.values())
        assert usage.swapped_tokens == num_private <= self.setup.swap_tokens
        assert num_private + figures.host_tokens <= max(self.setup.swap_tokens, self.rules.host_tokens)
        assert (figures.retained_runs, figures.host_runs) == (len(retained), len(self.host))
        assert figures.host_tokens == sum(len(text) for _, text in self.host.values()) <= self.rules.host_tokens
        counts = Counter(cell for each in self.cells.of.values() for cell in each)
        assert figures.shared_cells == sum(number > 1 for number in counts.values())
        self._check_runs(retained)
        if not self.pending:
            self._check_memory()

    def _check_runs(self, retained: set[int]) -> None:
        seen = self.kv.retained()
        order = sorted(retained, key=lambda each: self.runs[each].used)
        assert [run.sequence_id for run in seen if not run.is_saved] == order, "least recently used first"
        assert {run.sequence_id: run.length for run in seen if not run.is_saved} == {
            each: len(self.runs[each].visible) for each in retained
        }
        assert {run.key: run.length for run in seen if run.is_saved} == {
            key: len(text) for key, (_, text) in self.host.items()
        }
        if self.rules.max_retained is not None:
            assert len(retained) <= self.rules.max_retained

    def _check_memory(self) -> None:
        for sequence, life in self.lives.items():
            assert self.memory.tokens(sequence) == tuple(life.known[: life.num_computed])
        for sequence, run in self.runs.items():
            assert not run.is_retained or self.memory.sequences[sequence] == (run.scope, run.visible)
        assert self.memory.saved == {**self.host, **self.private}
        assert set(self.memory.sequences) <= set(self.cells.of) | self.quarantined

    def check_lookup(self, hit: PrefixHit, prompt: tuple[int, ...], scope: str | None, limit: int) -> None:
        self.told[f"lookup {hit.verdict}"] += 1
        if scope is None:
            assert (hit.num_tokens, hit.verdict) == (0, ReuseVerdict.NO_SCOPE)
            return
        runs = [run for run in self.runs.values() if run.scope == scope and run.visible]
        near = [(run.visible, run.is_retained) for run in runs]
        far = [(text, True) for where, text in self.host.values() if where == scope]
        ahead = [(run.prompt, False) for run in runs if run.is_under_way]
        ahead += [(run.prompt, False) for run in self.runs.values() if run.is_under_way and run.scope == scope]
        assert hit.num_matched <= max((common(text, prompt) for text, _ in near + far), default=0)
        assert self.kv.foreseen(prompt, scope, limit) == usable_of(self.rules, ahead, prompt, limit)
        usable, saved = usable_of(self.rules, near, prompt, limit), usable_of(self.rules, far, prompt, limit)
        is_covered = not self.rules.regenerate and limit < len(prompt)
        if is_covered and any(common(text, prompt) == len(prompt) for text, _ in near + far):
            assert (hit.num_tokens, hit.verdict) == (0, ReuseVerdict.WHOLE_PROMPT)
        elif saved - usable >= self.rules.min_restored:
            assert hit.num_tokens == saved
        else:
            assert hit.num_tokens == usable
        assert (hit.verdict is ReuseVerdict.REUSED) == (hit.num_tokens > 0)

    def check_shortage(self, shortage: Shortage, need: int) -> None:
        self.told["shortage of " + ("cells" if shortage.missing else "ids")] += 1
        if shortage.missing:
            active = len(self.cells.held(set(self.lives)))
            assert need > self.layout.sequence_limit or (self.layout.unified and need > self.layout.num_cells - active)
            return
        taken = set(self.lives) | set(self.runs) | self.quarantined | self.resting
        if self.rules.per_session and any(run.is_resting for run in self.runs.values()):
            return  # its session waits for it
        assert len(taken) == self.layout.num_sequences, "an id was free"
        rests = bool(self.resting) or any(run.is_resting for run in self.runs.values())
        assert rests or not any(run.is_retained for run in self.runs.values()), "a run could have gone"

    def check_place(
        self, started: Started, ops: tuple[KvOp, ...], order: list[SequenceId | None], resident: ModelRun | None
    ) -> None:
        sequence = started.sequence_id
        copies = [op for op in ops if isinstance(op, CopySequence)]
        assert (started.prefix is None) == (started.num_cached == 0)
        assert bool(copies) == (
            started.prefix in {PrefixSource.TREE, PrefixSource.RUNNING} and sequence not in self.runs
        )
        restores = [op for op in ops if isinstance(op, RestoreSequence)]
        is_saved = started.prefix in {PrefixSource.HOST, PrefixSource.DISK}
        assert bool(restores) == (is_saved or started.num_swapped_in > 0)
        if resident is None:
            return
        free = [
            each
            for each in range(self.layout.num_sequences)
            if not (each in self.lives or each in order or each in self.quarantined or each in self.resting)
        ]
        if self.rules.per_session and started.prefix is PrefixSource.SESSION:
            assert started.source in {AdmissionSource.SESSION_REUSE, AdmissionSource.SESSION_REUSE_LCP}
        elif self.rules.host_tokens and not self.rules.per_session and not self.layout.unified:
            assert not free or sequence < free[0], "a lower id was free"
        else:
            assert not free, "a run goes although an id is free"
            origin = copies[0].source if copies else None
            assert sequence == next(each for each in order if each != origin), "another run was used longer ago"

    def check_gone(self, ops: tuple[KvOp, ...], kept: ModelRun) -> None:
        """Only needless runs and those that are too many go where another one is kept."""
        dropped = [self.runs[op.sequence_id] for op in ops if isinstance(op, DropSequence)]
        saved = [op for op in ops if isinstance(op, SaveSequence)]
        needless = [run for run in dropped if run.scope == kept.scope and begins(kept.visible, run.visible)]
        if self.rules.max_retained is None:
            assert dropped == needless
            assert not saved, "a needless run is saved"
        if self.rules.per_session:
            assert not dropped or self.rules.max_retained is not None
            return
        others = [run for run in self.runs.values() if run is not kept and run.is_retained and run.scope == kept.scope]
        left = [run for run in others if run not in dropped and not run.is_resting]
        assert not any(begins(kept.visible, run.visible) for run in left), "a needless run stays"

    def check_needless(self, run: ModelRun, computed: list[int], num_prompt: int) -> None:
        """A run that nobody keeps has a longer one that begins with it, or is one too many."""
        self.told["needless"] += 1
        text = tuple(computed if self.rules.keeps_answers else computed[:num_prompt])
        longer = [each.visible for each in self.runs.values() if each.is_retained and each.scope == run.scope]
        is_needless = any(len(each) > len(text) and begins(each, text) for each in longer)
        assert self.rules.max_retained == 0 or (is_needless and not self.rules.per_session)
        if is_needless and not self.rules.per_session:
            last = [each.sequence_id for each in self.kv.retained() if each.sequence_id is not None][-1]
            assert begins(self.runs[last].visible, text), "the run that makes it needless was used"
            self.was_used(self.runs[last])

    def was_used(self, run: ModelRun) -> None:
        self.tick += 1
        run.used = self.tick
