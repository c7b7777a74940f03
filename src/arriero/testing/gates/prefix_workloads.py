"""G33: four workloads of prefix reuse, small: how many prompt rows each way of reuse saves, and what answers change.

chat            a conversation that goes on: each prompt holds the last one and its answer
long-sys        one long beginning, another question each time
repeat-prefix   one sentence many times, then a number
control         nothing shared
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from arriero.bench.experiments.prefix_reuse_workloads import Texts, Turn, Workload, WorkloadSize, turns_of
from arriero.core.config import KvLayout
from arriero.core.ids import TokenId
from arriero.engine.options import EngineOptions
from arriero.kv.reuse import ReuseRules
from arriero.testing.gates.backends import Shape
from arriero.testing.gates.context import NARRATIVE, GateContext
from arriero.testing.gates.findings import Findings
from arriero.testing.gates.rig import Rig
from arriero.testing.gates.turns import LAYOUTS, PUBLISHED_RULES

SLOTS: Final = 4
RETAINED: Final = 4
BUDGET: Final = 8
SIZE: Final = WorkloadSize(measured=12, warm_ups=1, turns=6, interleaved=2)
TEXTS: Final = Texts(
    passages=(NARRATIVE, f"At night the bell was tied up with a rag. {NARRATIVE}"),
    questions=("Who leads?", "And then?", "How many?", "Why so?"),
    repeated="Background reference text for the prefix-reuse gate.",
    repeats=20,
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
        least: the share of prompt rows that has to be saved, in percent, by workload; 0 is exactly none.
    """

    word: str
    rules: ReuseRules | None
    exact: bool
    least: dict[Workload, int]


FULL: Final = Way("none", None, exact=False, least={})
EXACT_FULL: Final = Way("none", None, exact=True, least={})
SESSION: Final = Way(
    "session",
    ReuseRules(per_session=True, partial=False, regenerate=False),
    exact=False,
    least={Workload.CHAT: 75, Workload.LONG_SYS: 0, Workload.REPEAT_PREFIX: 0, Workload.CONTROL: 0},
)
PARTIAL: Final = Way(
    "lcp",
    PUBLISHED_RULES,
    exact=False,
    least={Workload.CHAT: 75, Workload.LONG_SYS: 85, Workload.REPEAT_PREFIX: 85, Workload.CONTROL: 0},
)
TREE: Final = Way("tree", ReuseRules(), exact=False, least=PARTIAL.least | {Workload.CONTROL: -1})
EXACT_TREE: Final = Way(
    "exact",
    ReuseRules(keeps_answers=False, min_suffix=2),
    exact=True,
    least=PARTIAL.least | {Workload.CHAT: 60, Workload.CONTROL: -1},
)
"""In exact mode decoded KV is not reused, so a conversation saves less."""


@dataclass(frozen=True, slots=True)
class _Served:
    prompt_tokens: int
    cached_tokens: int
    answers: tuple[tuple[TokenId, ...], ...]


async def check_workloads(context: GateContext, findings: Findings) -> None:
    """G33: sessions save what they continue, partial matches save what is shared, control saves nothing."""
    for workload in Workload:
        turns = turns_of(workload, TEXTS, SIZE)
        for layout in LAYOUTS:
            full = await _serve(context, findings, layout, turns, FULL)
            for way in (SESSION, PARTIAL, TREE):
                served = await _serve(context, findings, layout, turns, way)
                name = f"{workload}_{layout}_{way.word}".replace("-", "_")
                _judge(findings, name, served, way.least[workload])
                findings.count(f"{name}_other_answers", _num_unlike(served, full))
        full = await _serve(context, findings, KvLayout.SEPARATE, turns, EXACT_FULL)
        served = await _serve(context, findings, KvLayout.SEPARATE, turns, EXACT_TREE)
        name = f"{workload}_exact".replace("-", "_")
        _judge(findings, name, served, EXACT_TREE.least[workload])
        findings.equal(f"{name}_other_answers", _num_unlike(served, full), 0)


def _judge(findings: Findings, name: str, served: _Served, least: int) -> None:
    """Compare the share that was saved with what it has to be; below 0: whatever it is, some first words are equal."""
    percent = round(100 * served.cached_tokens / served.prompt_tokens, 1)
    if least == 0:
        findings.equal(f"{name}_saved", served.cached_tokens, 0)
    else:
        findings.count(f"{name}_saved_percent", percent)
        findings.holds(f"{name} saves {least} % of its prompt rows, not {percent}", holds=percent >= least)


def _num_unlike(served: _Served, full: _Served) -> int:
    return sum(one != other for one, other in zip(served.answers, full.answers, strict=True))


async def _serve(
    context: GateContext, findings: Findings, layout: KvLayout, turns: Sequence[Turn], way: Way
) -> _Served:
    """One client that asks turn after turn."""
    context.on_progress(f"{turns[0].session}, {layout.value}, {way.word}")
    encode = context.backends.vocabulary.encode
    retained = RETAINED if way.rules is not None and not way.rules.per_session else 0
    longest = 2 * max(len(encode(turn.text, add_special=True, parse_special=False)) for turn in turns)
    shape = Shape(num_sequences=SLOTS + retained, positions=longest, layout=layout, exact=way.exact)
    options = EngineOptions(reuse=way.rules, retained=retained, exact=way.exact)
    said: dict[str, tuple[TokenId, ...]] = {}
    prompt_tokens = cached_tokens = 0
    answers: list[tuple[TokenId, ...]] = []
    async with Rig(context, findings, shape, options) as rig:
        rig.start()
        for turn in turns:
            text = tuple(encode(turn.text, add_special=not turn.continues, parse_special=False))
            prompt = (*said.get(turn.session, ()), *text) if turn.continues else text
            scope = turn.session if retained == 0 else "everybody"
            result = await rig.submit(prompt, BUDGET, session_id=turn.session, cache_scope=scope).result()
            said[turn.session] = (*prompt, *result.tokens)
            answers.append(result.tokens)
            if not turn.is_warm_up:
                prompt_tokens += len(prompt)
                cached_tokens += result.cached_tokens
        await rig.stop()
    return _Served(prompt_tokens, cached_tokens, tuple(answers))
