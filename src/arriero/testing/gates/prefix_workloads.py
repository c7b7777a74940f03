"""G33: four workloads of prefix reuse, small: how many prompt rows each way of reuse saves, and what answers change.

chat            two conversations that take turns: each prompt holds the last one of its own and that one's answer
long-sys        one long beginning, another question each time
repeat-prefix   one sentence many times, then a number
control         nothing shared
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from arriero.bench.experiments.prefix_reuse_workloads import Texts, Turn, Workload, WorkloadSize, turns_of
from arriero.core.config import KvLayout
from arriero.core.ids import TokenId
from arriero.engine.options import EngineOptions
from arriero.kv.reuse import ReuseRules
from arriero.testing.gates.backends import Shape
from arriero.testing.gates.context import NARRATIVE, GateContext, GateSize
from arriero.testing.gates.findings import Findings
from arriero.testing.gates.rig import Rig
from arriero.testing.gates.turns import PUBLISHED_RULES

SLOTS: Final = 4
RETAINED: Final = 4
CONVERSATIONS: Final = 2
TEXTS: Final = Texts(
    passages=(NARRATIVE, "At night the bell was tied up with a rag."),
    questions=("Who leads?", "And then?", "How many?", "Why so?"),
    repeated="Background reference text for the prefix-reuse gate.",
    repeats=12,
    nouns=(
        "Anvils", "Bridges", "Canals", "Dykes", "Engines", "Ferries", "Gears", "Harbours", "Inns", "Jetties", "Kilns",
        "Looms", "Mills",
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Way:
    """One way of serving.

    Attributes:
        word: for figures.
        rules: of reuse; None is none.
        exact: under the exact composition.
        least: the share of prompt rows that has to be saved, in percent, by workload; 0 is exactly none. Of a workload
            that is not there nothing is promised.
        of_chat: of conversations, as a part of what all turns but the first ones have of the prompt rows.
    """

    word: str
    rules: ReuseRules | None
    exact: bool
    least: Mapping[Workload, int]
    of_chat: float = 0.9

    def least_of(self, workload: Workload, num_turns: int) -> int | None:
        """What has to be saved of a workload, with so many turns of each conversation; None: nothing is promised."""
        if workload is Workload.CHAT:
            return round(100 * self.of_chat * (num_turns - 1) / num_turns)
        return self.least.get(workload)


SHARED: Final = MappingProxyType({Workload.LONG_SYS: 85, Workload.REPEAT_PREFIX: 85})
"""Not the control: some of its first words are equal, and a tree may find them."""

FULL: Final = Way("none", None, exact=False, least={})
EXACT_FULL: Final = Way("none", None, exact=True, least={})
SESSION: Final = Way(
    "session",
    ReuseRules(per_session=True, partial=False, regenerate=False),
    exact=False,
    least=dict.fromkeys(SHARED, 0) | {Workload.CONTROL: 0},
)
PARTIAL: Final = Way("lcp", PUBLISHED_RULES, exact=False, least=SHARED | {Workload.CONTROL: 0})
TREE: Final = Way("tree", ReuseRules(), exact=False, least=SHARED)
EXACT_TREE: Final = Way(
    "exact", ReuseRules(keeps_answers=False, min_suffix=2), exact=True, least=SHARED, of_chat=0.72
)  # fmt: skip
"""In exact mode decoded KV is not reused, so a conversation saves less."""


@dataclass(frozen=True, slots=True)
class _Served:
    prompt_tokens: int
    cached_tokens: int
    answers: tuple[tuple[TokenId, ...], ...]


async def check_workloads(context: GateContext, findings: Findings) -> None:
    """G33: sessions save what they continue, partial matches save what is shared, control saves nothing."""
    for workload in Workload:
        turns = turns_of(workload, TEXTS, _size_of(context.size, workload))
        for layout in context.size.reuse_layouts:
            await _check_fast(context, findings, workload, layout, turns)
        full = await _serve(context, findings, KvLayout.SEPARATE, turns, EXACT_FULL)
        served = await _serve(context, findings, KvLayout.SEPARATE, turns, EXACT_TREE)
        name = f"{workload}_exact".replace("-", "_")
        _judge(findings, name, served, EXACT_TREE.least_of(workload, context.size.reuse_turns))
        findings.equal(f"{name}_other_answers", _num_unlike(served, full), 0)


async def _check_fast(
    context: GateContext, findings: Findings, workload: Workload, layout: KvLayout, turns: Sequence[Turn]
) -> None:
    """What is saved is judged; how many answers are others is told, if that is asked for."""
    size = context.size
    full = await _serve(context, findings, layout, turns, FULL) if size.reuse_tells else None
    for way in (SESSION, PARTIAL, TREE):
        served = await _serve(context, findings, layout, turns, way)
        name = f"{workload}_{layout}_{way.word}".replace("-", "_")
        _judge(findings, name, served, way.least_of(workload, size.reuse_turns))
        if full is not None:
            findings.count(f"{name}_other_answers", _num_unlike(served, full))


def _size_of(size: GateSize, workload: Workload) -> WorkloadSize:
    measured = CONVERSATIONS * size.reuse_turns if workload is Workload.CHAT else size.reuse_requests
    return WorkloadSize(measured=measured, warm_ups=1, turns=size.reuse_turns, interleaved=CONVERSATIONS)


def _judge(findings: Findings, name: str, served: _Served, least: int | None) -> None:
    """Compare the share that was saved with what it has to be."""
    percent = round(100 * served.cached_tokens / served.prompt_tokens, 1)
    if least == 0:
        findings.equal(f"{name}_saved", served.cached_tokens, 0)
        return
    findings.count(f"{name}_saved_percent", percent)
    if least is not None:
        findings.holds(f"{name} saves {least} % of its prompt rows, not {percent}", holds=percent >= least)


def _num_unlike(served: _Served, full: _Served) -> int:
    return sum(one != other for one, other in zip(served.answers, full.answers, strict=True))


async def _serve(
    context: GateContext, findings: Findings, layout: KvLayout, turns: Sequence[Turn], way: Way
) -> _Served:
    """One client that asks turn after turn."""
    context.on_progress(f"{turns[0].session}, {layout.value}, {way.word}")
    encode, budget = context.backends.vocabulary.encode, context.size.budgets[0]
    texts = [tuple(encode(turn.text, add_special=not turn.continues, parse_special=False)) for turn in turns]
    retained = RETAINED if way.rules is not None and not way.rules.per_session else 0
    positions = _longest(turns, texts, budget)
    shape = Shape(num_sequences=SLOTS + retained, positions=positions, layout=layout, exact=way.exact)
    options = EngineOptions(reuse=way.rules, retained=retained, exact=way.exact)
    said: dict[str, tuple[TokenId, ...]] = {}
    prompt_tokens = cached_tokens = 0
    answers: list[tuple[TokenId, ...]] = []
    async with Rig(context, findings, shape, options) as rig:
        rig.start()
        for turn, text in zip(turns, texts, strict=True):
            prompt = (*said.get(turn.session, ()), *text) if turn.continues else text
            scope = turn.session if retained == 0 else "everybody"
            result = await rig.submit(prompt, budget, session_id=turn.session, cache_scope=scope).result()
            said[turn.session] = (*prompt, *result.tokens)
            answers.append(result.tokens)
            if not turn.is_warm_up:
                prompt_tokens += len(prompt)
                cached_tokens += result.cached_tokens
        await rig.stop()
    return _Served(prompt_tokens, cached_tokens, tuple(answers))


def _longest(turns: Sequence[Turn], texts: Sequence[Sequence[TokenId]], budget: int) -> int:
    """Positions of the longest sequence: a turn that continues has all that was said in its session before it."""
    held: dict[str, int] = {}
    longest = 0
    for turn, text in zip(turns, texts, strict=True):
        before = held.get(turn.session, 0) if turn.continues else 0
        held[turn.session] = before + len(text) + budget
        longest = max(longest, held[turn.session])
    return longest
