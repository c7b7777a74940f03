"""The rules of gate G45 as acceptance statements, on an experiment's own model.

Runs and rules are the gate's, but for one: here no request is made to fail, so the hindered run, in which only one is
cancelled, does not bear the gate's name.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from arriero.backend.protocol import Backend
from arriero.bench.experiments.contexts import ContextShape, ModelSource
from arriero.bench.experiments.experiment import Statement, Tell
from arriero.bench.fifo_pool_checks import ControlRuns, Rule, control_rules, hashes
from arriero.bench.fifo_pool_control import NUM_CONTEXTS, hindered_plan, mixed_plan, serial_plan
from arriero.bench.fifo_pool_engine import run_engine
from arriero.bench.fifo_pool_runners import Runner, run_pool
from arriero.core.ids import TokenId
from arriero.engine.options import EngineOptions

_TEXTS: Final[Mapping[str, str]] = MappingProxyType({
    "mixed": "G45, {runner}: contexts all come back, one hash for each budget, the engine's, and budget 0 takes none",
    "serial": "G45, {runner}: one context serves its requests one after another, in the order of asking",
    "hindered": "{runner}: beside a request that is cancelled as it asks, all others are answered as ever",
})
"""Run → what is promised of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """What the control came to.

    Attributes:
        promised: budget → the engine's hashes, of which there must be one.
        rules: by runner.
    """

    promised: dict[int, list[int]]
    rules: dict[Runner, tuple[Rule, ...]]

    def statements(self) -> Iterator[Statement]:
        """One for the engine, and one for each run of each runner."""
        unstable = [budget for budget, values in self.promised.items() if len(values) != 1]
        yield Statement.so(
            "G45, engine: one hash for each budget",
            f"{len(self.promised)} budgets, unstable: {unstable or 'none'}",
            "none unstable",
            holds=bool(self.promised) and not unstable,
        )
        for runner, rules in self.rules.items():
            for run, text in _TEXTS.items():
                yield _statement(text.format(runner=runner), [rule for rule in rules if rule.run == run])

    def raw(self) -> bytes:
        """A line for each rule."""
        lines = (
            json.dumps({"runner": str(runner), **rule._asdict()}, sort_keys=True)
            for runner, rules in self.rules.items()
            for rule in rules
        )
        return "".join(f"{line}\n" for line in lines).encode()


def run_control(source: ModelSource, prompt: tuple[TokenId, ...], budgets: Sequence[int], tell: Tell) -> Control:
    """Both runners of the pool, and an engine under the exact composition, on the same requests."""
    tell("control: the engine")
    plan = mixed_plan(prompt, budgets)
    shape = ContextShape(num_sequences=NUM_CONTEXTS, positions=plan.positions, threads=1)
    promised = hashes(run_engine(plan, lambda: source.make(shape), EngineOptions(exact=True)))
    firsts = {budget: values[0] for budget, values in promised.items()}
    return Control(
        promised=promised,
        rules={runner: tuple(control_rules(_runs(source, runner, prompt, budgets, tell), firsts)) for runner in Runner},
    )


def _runs(
    source: ModelSource, runner: Runner, prompt: tuple[TokenId, ...], budgets: Sequence[int], tell: Tell
) -> ControlRuns:
    plans = (mixed_plan(prompt, budgets), serial_plan(prompt, budgets[0]), hindered_plan(prompt, budgets[0]))
    shape = ContextShape(num_sequences=1, positions=max(plan.positions for plan in plans), threads=1)

    def make() -> Backend:
        return source.make(shape)

    tell(f"control: the {runner} pool")
    mixed, serial, hindered = (run_pool(runner, plan, make) for plan in plans)
    return ControlRuns(mixed=mixed, serial=serial, hindered=hindered)


def _statement(text: str, rules: Sequence[Rule]) -> Statement:
    wrong = [rule for rule in rules if not rule.holds]
    seen = f"{len(rules) - len(wrong)} of {len(rules)} figures as promised"
    if wrong:
        seen += f"; {wrong[0].name} is {wrong[0].seen}, promised {wrong[0].promised}"
    return Statement.so(text, seen, "all", holds=bool(rules) and not wrong)
