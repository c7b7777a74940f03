"""`arriero gate storm`: far more requests than there is room for, a third of them cancelled, in exact mode.

Everything runs short at once: slots, the backlog, the ids for retained runs, the host store. Whoever survives must
have the answer that it has alone, nobody may fail for what others do, and no cell may be left over.
"""

import random
from dataclasses import dataclass
from typing import Final

from arriero.core.request import FinishReason
from arriero.engine.options import EngineOptions
from arriero.kv.reuse import EvictionCause, ReuseRules
from arriero.scheduler.draft import PrefillBudget
from arriero.testing.gates.backends import Shape
from arriero.testing.gates.company import Company, Scoping, keep_company
from arriero.testing.gates.context import GateContext
from arriero.testing.gates.findings import Findings
from arriero.testing.gates.mix import count_reuse, line_of
from arriero.testing.gates.mixture import MixtureMaker, MixtureSize
from arriero.testing.gates.solo import SoloBook
from arriero.testing.gates.turns import reuse_at_end

SLOTS: Final = 6
RETAINED: Final = 2
BACKLOG: Final = 10
WIDTH: Final = 24
"""More than slots and backlog together, so the door is closed again and again."""

HOST_TOKENS: Final = 900
CAP: Final = 40
CANCELLED_PERCENT: Final = 30
MAX_TOLD: Final = 12
SIZE: Final = MixtureSize(
    prompts=(4, 160), prefixes=(12, 100), answers=(2, 16), cancelled=CANCELLED_PERCENT, families=16
)
RULES: Final = ReuseRules(keeps_answers=False, min_suffix=2, host_tokens=HOST_TOKENS, max_retained=4)


@dataclass(frozen=True, slots=True)
class Storm:
    """A gate: so many requests from a seed.

    Attributes:
        size: of the requests, and how many of them are cancelled.
    """

    num_requests: int
    seed: int
    size: MixtureSize = SIZE

    async def check(self, context: GateContext, findings: Findings) -> None:
        """Every prompt alone, then the storm, then what is left of it."""
        chance = random.Random(self.seed)
        findings.count("seed", self.seed)
        positions = self.size.positions
        alone = Shape(num_sequences=1, positions=positions, exact=True)
        async with SoloBook(context, findings, alone, EngineOptions(exact=True)) as solo:
            context.on_progress(f"{self.num_requests} requests, alone")
            asked = await MixtureMaker(context, solo, self.size, chance).make(0, self.num_requests)
            solos = {each.number: await solo.answer(each.prompt, each.max_tokens) for each in asked}
            findings.count("prompts_alone", len(solo))
        context.on_progress(f"{self.num_requests} requests, the storm")
        company = await keep_company(
            context,
            findings,
            asked,
            solos,
            shape=Shape(num_sequences=SLOTS + RETAINED, positions=positions, exact=True, host_tokens=HOST_TOKENS),
            options=EngineOptions(
                exact=True,
                backlog=BACKLOG,
                budget=PrefillBudget(per_sequence=CAP),
                reuse=RULES,
                retained=RETAINED,
            ),
            width=WIDTH,
            scoping=Scoping.TENANT,
        )
        _judge(findings, company)


def _judge(findings: Findings, company: Company) -> None:
    verdicts, snapshot = company.verdicts, company.run.summary.snapshot
    planned = [verdict for verdict in verdicts if verdict.asked.cancel is not None]
    bystanders = [verdict for verdict in verdicts if verdict.asked.cancel is None]
    cancelled = sum(verdict.result.reason is FinishReason.CANCELLED for verdict in verdicts)
    findings.count("requests", len(verdicts))
    findings.count("cancelled", cancelled)
    findings.count("turned_away", company.num_full)
    findings.equal("bystanders_whole", sum(verdict.is_whole for verdict in bystanders), len(bystanders))
    findings.equal(
        "ends_of_others",
        sum(verdict.is_whole or verdict.result.reason is FinishReason.CANCELLED for verdict in planned),
        len(planned),
    )
    findings.count("rows_compared", company.num_rows)
    findings.equal("rows_different", company.num_unlike_rows, 0)
    different = [verdict for verdict in verdicts if verdict.place is not None]
    findings.equal("different", len(different), 0)
    findings.notes.extend(map(line_of, different[:MAX_TOLD]))
    kv, figures = snapshot.scheduler.kv, reuse_at_end(company.run)
    findings.equal("cells_left", kv.active_cells + kv.retained_cells, 0)
    findings.equal("ids_left", kv.sequences_held + figures.retained_runs, 0)
    findings.equal("ids_out_of_service", kv.sequences_quarantined, 0)
    count_reuse(findings, [company])
    pressure = sum(number for cause, number in figures.evictions.items() if cause is not EvictionCause.TEARDOWN)
    findings.holds("the door was closed to somebody", holds=company.num_full > 0)
    findings.holds("runs had to go", holds=pressure > 0)
    findings.holds("prefixes were reused", holds=sum(figures.cached_tokens.values()) > 0)
