"""`arriero gate run`: one run made of knobs, its figures, and whether every promise held."""

import threading
from collections.abc import Sequence
from pathlib import Path

from arriero.core.errors import ConfigError
from arriero.core.gate_args import GateArgs, GateKnobs
from arriero.core.ids import TokenId
from arriero.engine.options import EngineOptions
from arriero.scheduler.draft import PrefillBudget
from arriero.testing.gates.backends import Shape
from arriero.testing.gates.context import GateContext
from arriero.testing.gates.figures import metrics_block
from arriero.testing.gates.findings import Findings
from arriero.testing.gates.rig import Rig
from arriero.testing.gates.run_record import RunRecord
from arriero.testing.gates.watch import ArrivalPlan, CancelPlan

Prompts = Sequence[tuple[TokenId, ...]]


class KnobRun:
    """A gate whose shape comes from the command line."""

    def __init__(self, args: GateArgs) -> None:
        """Read the knobs.

        Raises:
            ConfigError: more active requests than slots, or a file of prompts that cannot be read.
        """
        self._knobs: GateKnobs = args.knobs
        self._config = args.config
        active = args.knobs.active
        if active is not None and active > args.config.sequences:
            message = f"--active {active} is more than --sequences {args.config.sequences}; lower it or raise the other"
            raise ConfigError(message)
        # as in the published tool: with active requests, there are no slots beside theirs
        self._num_active = args.config.sequences if active is None else active
        self._num_slots = self._num_active or args.config.sequences
        self._texts = _read_prompts(args.knobs)

    async def check(self, context: GateContext, findings: Findings) -> None:
        """Run as often as asked; every repeat must be the first run again."""
        outlines: list[object] = []
        for repeat in range(self._knobs.repeats):
            context.on_progress(f"run {repeat + 1} of {self._knobs.repeats}")
            run, num_tasks = await self._run(context, findings)
            outlines.append(run.outline())
            for name, value in metrics_block(run).items():
                findings.count(name, value)
            findings.equal("engine_task_count", num_tasks, 1)
        findings.equal("repeats_alike", sum(outline == outlines[0] for outline in outlines), self._knobs.repeats)

    async def _run(self, context: GateContext, findings: Findings) -> tuple[RunRecord, int]:
        knobs, config = self._knobs, self._config
        vocabulary = context.backends.vocabulary
        prompts = [tuple(vocabulary.encode(text, add_special=True, parse_special=False)) for text in self._texts]
        shape = Shape(num_sequences=self._num_slots, positions=1, exact=config.exact, as_configured=True)
        options = EngineOptions(
            keep_alive=False,
            exact=config.exact,
            budget=PrefillBudget(config.prefill_rows_per_seq, config.prefill_rows_per_step),
            published_pools=knobs.reuse_completed,
        )
        threads: set[int] = set()
        async with Rig(context, findings, shape, options) as rig:
            rig.log.after_step(lambda _: threads.add(threading.get_ident()))
            self._preload(rig, prompts)
            self._plan_cancels(rig)
            with ArrivalPlan(knobs.release_step or 0, lambda: self._arrive(rig, prompts)) as arrivals:
                if knobs.release_step is None:
                    self._arrive(rig, prompts)
                elif knobs.external:
                    rig.log.after_step(arrivals)
                run = await rig.run()
            if knobs.release_step is not None and knobs.external:
                findings.equal("iter_release_fired", arrivals.fired, 1)
                findings.equal("submitter_ack_observed", arrivals.acknowledged, 1)
        return run, len(threads)

    def _preload(self, rig: Rig, prompts: Prompts) -> None:
        knobs = self._knobs
        for number in range(self._num_active + knobs.waiting):
            waits = number >= self._num_active
            budget = knobs.waiting_budget if waits else knobs.budgets[number % len(knobs.budgets)]
            self._ask(rig, prompts, number, budget, preloaded=True)

    def _arrive(self, rig: Rig, prompts: Prompts) -> None:
        first = self._num_active + self._knobs.waiting
        for number in range(first, first + self._knobs.external):
            self._ask(rig, prompts, number, self._knobs.external_budget, preloaded=False)

    def _ask(self, rig: Rig, prompts: Prompts, number: int, budget: int, *, preloaded: bool) -> None:
        prompt = prompts[number % len(prompts)]
        rig.submit(prompt, budget, request_id=number, stream=self._knobs.stream_all, preloaded=preloaded)

    def _plan_cancels(self, rig: Rig) -> None:
        after, total = self._knobs.cancel_after, self._num_active + self._knobs.waiting + self._knobs.external
        planned = [number for number in self._knobs.cancel_plan if number < total]
        if after == 0:
            for number in planned:
                rig.engine.cancel(number)
        else:
            rig.log.after_step(CancelPlan(rig.engine.cancel, after_tokens=dict.fromkeys(planned, after)))


def _read_prompts(knobs: GateKnobs) -> list[str]:
    if knobs.prompts_file is None:
        return [knobs.prompt]
    try:
        lines = Path(knobs.prompts_file).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        message = f"--prompts-file {knobs.prompts_file}: cannot be read ({error}); name a UTF-8 file, one prompt a line"
        raise ConfigError(message) from error
    prompts = [line for line in lines if line.strip()]
    if not prompts:
        message = f"--prompts-file {knobs.prompts_file}: no prompts in it; write one a line"
        raise ConfigError(message)
    return prompts
