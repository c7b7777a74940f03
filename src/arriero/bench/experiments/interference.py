"""E4: what a long prompt does to somebody who is decoding, and what a cap on prompt rows changes about it.

The engine-only variant comes first: a probe is released when the anchor's first step is over, so every count has a
closed form. Then the same over HTTP, and two probes at once, where only a cap on the whole step bounds their sum.
"""

import random
from collections.abc import Sequence
from typing import Final

import msgspec

from arriero.backend.protocol import Backend
from arriero.bench.client_loop import run as run_on_loop
from arriero.bench.experiments.contexts import ContextShape, ModelSettings, ModelSource, open_model
from arriero.bench.experiments.experiment import Experiment, Outcome, Statement, Table, Tell
from arriero.bench.experiments.failed_cells import FailedCells
from arriero.bench.experiments.interference_figures import (
    Unbounded,
    class_table,
    judge,
    judge_counts,
    judge_http_counts,
    judge_two,
    unbounded_table,
)
from arriero.bench.experiments.interference_http import BARRIER, http_scenarios
from arriero.bench.experiments.interference_runs import (
    Caps,
    Scenario,
    decode_alone_us,
    prefill_alone_us,
    run_scenario,
)
from arriero.bench.experiments.samples import http_label, in_process_label, median
from arriero.bench.experiments.served import ServeOptions
from arriero.core.ids import TokenId
from arriero.record.strict import Count, Name, Positive

NUM_TWO_PROBES: Final = 2


class TwoProbes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Two prompts that come together.

    Attributes:
        length: tokens of each.
        per_sequence: the cap B.
        per_step: the cap S, below 2B.
    """

    length: Positive
    per_sequence: Positive
    per_step: Positive


class Interference(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is run.

    Attributes:
        anchor: the prompt of whoever decodes.
        narrative: what probes are made of, repeated as far as needed.
        budget: tokens of the anchor, and of each probe.
        lengths: prompt tokens of the probes.
        caps: B, prompt rows of one sequence in a step; 0 is no cap.
        cycles: how often each length meets each cap.
        two_probes: the comparison of a cap for each sequence with one for the step.
        yardstick_tokens: of the request alone whose decode calls are the plain ones of the unbounded table.
        batch_rows: rows of one decode call; a whole prompt and a decode row have to fit.
        slot_tokens: KV positions of one sequence.
        threads: compute threads.
        over_http: whether the variant over HTTP is run.
        seed: of the order of scenarios.
    """

    model: ModelSettings
    anchor: Name
    narrative: Name
    budget: Positive
    lengths: tuple[Positive, ...]
    caps: tuple[Count, ...]
    cycles: Positive
    two_probes: TwoProbes
    yardstick_tokens: Positive
    batch_rows: Positive
    slot_tokens: Positive
    threads: Positive
    over_http: bool
    seed: int


def run(config: Interference, tell: Tell) -> Outcome:
    """Measure and judge."""
    with open_model(config.model) as source:
        lab = _Lab(config, source)
        alone = lab.scenarios(tell)
        free, capped = lab.two_probes(tell)
        unbounded = lab.unbounded(alone, tell)
        facts = {**source.facts(), "threads": config.threads}
    remaining = config.budget - 1
    label = in_process_label(config.model)
    statements = [judge_counts(alone, remaining), *judge("engine", alone), *judge_two(free, capped)]
    tables = [class_table("engine only", label, alone, remaining), unbounded_table(label, unbounded)]
    raw = {"engine.jsonl": _lines(alone), "two_probes.jsonl": _lines([*free, *capped])}
    if config.over_http:
        failed = FailedCells()
        http = run_on_loop(over_http(config, lab.probes, failed, tell))
        raw["http.jsonl"] = _lines(http)
        facts |= failed.facts
        more_statements, more_tables = _http_part(config, http)
        statements += [failed.statement("http"), *more_statements]
        tables += more_tables
    return Outcome(
        statements=tuple(statements),
        tables=tuple(tables),
        limits=_limits(config),
        facts=facts,
        raw=raw,
    )


class _Lab:
    """The engine-only variant: one backend for one anchor and one probe, and another one for two probes."""

    def __init__(self, config: Interference, source: ModelSource) -> None:
        vocabulary = source.vocabulary
        story = vocabulary.encode(config.narrative, add_special=False, parse_special=False)
        self._config = config
        self._source = source
        self._story = story
        self.anchor = tuple(vocabulary.encode(config.anchor, add_special=True, parse_special=False))
        self.probes = [self.prompt(length) for length in config.lengths]

    def prompt(self, length: int, start: int = 0) -> tuple[TokenId, ...]:
        """A stretch of the narrative; another start gives another content."""
        return tuple(self._story[(start + i) % len(self._story)] for i in range(length))

    def backend(self, num_sequences: int) -> Backend:
        """A fresh one."""
        config = self._config
        shape = ContextShape(
            num_sequences=num_sequences,
            positions=config.slot_tokens,
            num_rows=config.batch_rows,
            threads=config.threads,
        )
        return self._source.make(shape)

    def scenarios(self, tell: Tell) -> list[Scenario]:
        """Every length with every cap, in another order in each cycle; the first one is run twice to warm up."""
        config = self._config
        order = random.Random(config.seed)
        pairs = [(probe, cap) for probe in self.probes for cap in config.caps]
        found: list[Scenario] = []
        backend = self.backend(1 + 1)
        try:
            self._one(backend, self.probes[0], config.caps[0])
            for cycle in range(config.cycles):
                tell(f"engine, cycle {cycle + 1} of {config.cycles}")
                for probe, cap in order.sample(pairs, len(pairs)):
                    found.append(self._one(backend, probe, cap))
        finally:
            backend.close()
        return found

    def two_probes(self, tell: Tell) -> tuple[list[Scenario], list[Scenario]]:
        """With B alone, and with a step cap S, in turns."""
        config, two = self._config, self._config.two_probes
        tell("two probes at once")
        # two prompts of different content, which cannot be taken for each other
        probes = [self.prompt(two.length, start) for start in (0, two.length // 2 + 1)]
        both = (Caps(per_sequence=two.per_sequence), Caps(per_sequence=two.per_sequence, per_step=two.per_step))
        found: dict[Caps, list[Scenario]] = {caps: [] for caps in both}
        backend = self.backend(1 + NUM_TWO_PROBES)
        try:
            for cycle in range(config.cycles):
                for caps in both if cycle % 2 == 0 else both[::-1]:
                    found[caps].append(run_scenario(backend, self.anchor, probes, config.budget, caps))
        finally:
            backend.close()
        return found[both[0]], found[both[1]]

    def unbounded(self, scenarios: Sequence[Scenario], tell: Tell) -> list[Unbounded]:
        """What the parts of a mixed call take alone."""
        config = self._config
        tell("prompts and decode rows alone")
        alone: dict[int, list[int]] = {length: [] for length in config.lengths}
        decode: list[int] = []
        backend = self.backend(1 + 1)
        try:
            for _ in range(config.cycles):
                decode += decode_alone_us(backend, self.anchor, config.yardstick_tokens)
                for probe in self.probes:
                    alone[len(probe)].append(prefill_alone_us(backend, probe))
        finally:
            backend.close()
        together = {
            length: [
                step.decode_us
                for each in scenarios
                if each.length == length and not each.caps.per_sequence
                for step in each.interference()
            ]
            for length in config.lengths
        }
        return [
            Unbounded(length=length, alone=a, decode=d, together=t)
            for length in config.lengths
            if (a := median(alone[length])) and (d := median(decode)) and (t := median(together[length]))
        ]

    def _one(self, backend: Backend, probe: Sequence[TokenId], cap: int) -> Scenario:
        return run_scenario(backend, self.anchor, [probe], self._config.budget, Caps(per_sequence=cap))


async def over_http(
    config: Interference, probes: Sequence[Sequence[TokenId]], failed: FailedCells, tell: Tell
) -> list[Scenario]:
    """A server for each cap, in an order by chance."""
    found: list[Scenario] = []
    for cap in random.Random(config.seed).sample(config.caps, len(config.caps)):
        tell(f"http, B = {cap}")
        options = ServeOptions(
            slots=2,
            slot_tokens=config.slot_tokens,
            backlog=6,
            threads=config.threads,
            batch_rows=config.batch_rows,
            prefill_rows_per_seq=cap,
        )
        with failed.losing(f"http, B = {cap}"):
            found += await http_scenarios(config.model, options, config.anchor, probes, config.budget, config.cycles)
    return found


def _http_part(config: Interference, scenarios: Sequence[Scenario]) -> tuple[list[Statement], list[Table]]:
    remaining = config.budget - BARRIER
    statements = [judge_http_counts(scenarios, remaining), *judge("http", scenarios)]
    return statements, [class_table("over HTTP", http_label(config.model), scenarios, remaining)]


def _limits(config: Interference) -> tuple[str, ...]:
    return (
        "A cap only redistributes work: nothing here says that it raises throughput, and the long prompt ends later.",
        "Over HTTP the number of interference steps depends on how soon a probe arrives: only bounds are judged.",
        "The published probe texts are not known; these are plain narrative of our own, cut to the same lengths.",
        *(() if config.over_http else ("The variant over HTTP was not run.",)),
    )


def _lines(scenarios: Sequence[Scenario]) -> bytes:
    return b"".join(msgspec.json.encode(each) + b"\n" for each in scenarios)


EXPERIMENT: Final = Experiment(
    name="interference",
    number="E4",
    decides="Does a cap on prompt rows bound what a long prompt does to one decode step of somebody else?",
    metric="prompt rows beside a decoding request in one step, and the number of such steps",
    comparison="caps on the same anchor and probes, in an order by chance within each cycle",
    difference="counts are exact; times are reported as ratios to the plain decode of the same scenarios",
    config=Interference,
    run=run,
)
