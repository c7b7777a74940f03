"""From flags to what is run; whatever cannot work is told before anything is started."""

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from arriero.bench.prompts import PromptForm
from arriero.bench.runner_points import Rules
from arriero.bench.schedule import Limits
from arriero.bench.schedule_arrivals import ClosedLoop, OpenLoop, Process, Ramp, Replay
from arriero.bench.schedule_making import AskOptions, LoopPlan, ScheduleOptions
from arriero.bench.schedule_work import Work, load_work
from arriero.bench.sweep import PlannedPoint, plan_points
from arriero.cli.bench.flags import ENGINE_OPTIONS, IN_PROCESS, SIM
from arriero.cli.bench.flags_values import WarmUp
from arriero.core.errors import ConfigError
from arriero.metrics.client_figures import ClientSlos
from arriero.metrics.validity import ValidityLimits
from arriero.workload.settings import Vocabulary

_SERVER_FLAGS: Final = (
    "api_key", "header", "silence", "new_connections", "continuous_usage", "server_pid",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """Everything but the target.

    Attributes:
        work: the requests.
        options: of the schedules; of a sweep, without the value that varies.
        values: of a sweep, rates or numbers of clients; one for a single point.
        rules: to judge by.
    """

    work: Work
    options: ScheduleOptions
    values: tuple[float, ...]
    rules: Rules

    def points(self, vocabulary: Vocabulary | None) -> tuple[PlannedPoint, ...]:
        """The schedules; `vocabulary` is the target's, for made-up prompts, where none was given.

        Raises:
            ConfigError: the workload is too small. BadWorkload: a request cannot be asked.
        """
        asks = self.options.asks
        if vocabulary is not None:
            asks = replace(asks, vocabulary=vocabulary)
        return plan_points(self.work, replace(self.options, asks=asks), self.values)


def plan_of(flags: Namespace) -> RunPlan:
    """The plan, checked.

    Raises:
        ConfigError: flags that do not go together. DataError: a file cannot be used.
    """
    check_target_flags(flags)
    loop, values = _loop(flags)
    warm_up = flags.warm_up or WarmUp()
    limits = Limits(
        duration_ns=flags.duration,
        drain_ns=flags.drain,
        warm_up_ns=warm_up.ns,
        cool_down_ns=flags.cool_down,
    )
    if limits.duration_ns is not None and warm_up.ns + limits.cool_down_ns >= limits.duration_ns:
        raise ConfigError("--warm-up and --cool-down leave nothing of --duration; shorten them")
    options = ScheduleOptions(
        loop=loop,
        asks=_asks(flags),
        seed=flags.seed,
        num_requests=flags.requests,
        repeat=flags.repeat,
        limits=limits,
        warm_up_requests=warm_up.requests,
    )
    return RunPlan(work=load_work(flags.workload), options=options, values=values, rules=_rules(flags))


def check_target_flags(flags: Namespace) -> None:
    """Refuse flags that mean nothing to the target.

    Raises:
        ConfigError: names the flag.
    """
    is_server = flags.target not in {IN_PROCESS, SIM}
    if is_server and not flags.target.startswith(("http://", "https://")):
        raise ConfigError(f"--target {flags.target}: no target; use http://HOST:PORT, {IN_PROCESS} or {SIM}")
    if not is_server:
        given = next((name for name in _SERVER_FLAGS if getattr(flags, name)), None)
        if given is not None:
            raise ConfigError(f"--{given.replace('_', '-')}: only for a server at an address; leave it out")
    if flags.target != IN_PROCESS:
        taken = [option for option in ENGINE_OPTIONS if not (is_server and option.name == "model")]
        wrong = next((option for option in taken if hasattr(flags, option.name)), None)
        if wrong is not None:
            raise ConfigError(f"{wrong.flag}: only with --target {IN_PROCESS}; leave it out")
    if (flags.sim is not None) != (flags.target == SIM):
        remedy = "give --sim FILE" if flags.target == SIM else "leave it out"
        raise ConfigError(f"--sim: goes with --target {SIM} and nothing else; {remedy}")


def _loop(flags: Namespace) -> tuple[LoopPlan, tuple[float, ...]]:
    """The loop, and the values of its sweep."""
    rates: tuple[float, ...] = flags.rate or ()
    clients: tuple[int, ...] = flags.clients or ()
    ramp: Ramp | None = flags.ramp
    if ramp is not None and not clients:
        if rates:
            raise ConfigError("--ramp: says every rate itself; leave out --rate")
        rates = (ramp.end,)
    if sum((bool(rates), bool(clients), bool(flags.replay))) != 1:
        raise ConfigError("how often? give one of --rate (or --ramp), --clients and --replay")
    if flags.speed != 1 and not flags.replay:
        raise ConfigError("--speed: goes with --replay; leave it out")
    if flags.cv != 1 and flags.arrivals != Process.GAMMA:
        raise ConfigError("--cv: goes with --arrivals gamma; leave it out")
    if flags.replay:
        return Replay(speed=flags.speed), ()
    if rates:
        return OpenLoop(rate_per_s=rates[0], process=Process(flags.arrivals), cv=flags.cv, ramp=ramp), rates
    assert clients, "the one way that is left"
    if ramp is not None and clients != (ramp.end,):
        raise ConfigError(f"--ramp: ends at {ramp.end:g} clients; give --clients the same number")
    return ClosedLoop(num_clients=clients[0], ramp=ramp), clients


def _asks(flags: Namespace) -> AskOptions:
    if flags.endpoint == "chat" and flags.prompts is not None:
        raise ConfigError("--prompts: chat takes messages of text; leave it out")
    form = PromptForm.CHAT if flags.endpoint == "chat" else PromptForm(flags.prompts or "tokens")
    is_real = flags.answers == "real"
    if is_real and flags.target == SIM:
        raise ConfigError("--answers real: a simulator says nothing; leave it out")
    if is_real and flags.target != IN_PROCESS and form is PromptForm.TOKENS:
        raise ConfigError("--answers real: servers answer with text; use --endpoint chat or --prompts text")
    if form is not PromptForm.TOKENS and flags.target in {IN_PROCESS, SIM}:
        raise ConfigError(f"--target {flags.target}: takes token ids only; leave out --endpoint and --prompts")
    fields: Mapping[str, Any] = {"temperature": 0, **dict(flags.field)}
    asks = AskOptions(
        form=form,
        fold=flags.fold_tokens,
        group_prefix=flags.group_prefix,
        fields=fields,
        ignore_eos=flags.ignore_eos,
        stream=not flags.no_stream,
        real_answers=is_real,
        send_session=flags.send_session,
        cancel_rate=flags.cancel_rate,
    )
    return asks if flags.vocabulary is None else replace(asks, vocabulary=flags.vocabulary)


def _rules(flags: Namespace) -> Rules:
    slos = ClientSlos(
        ttft_ns=flags.slo_ttft, tpot_ns=flags.slo_tpot, e2e_ns=flags.slo_e2e, largest_gap_ns=flags.slo_gap
    )
    limits = ValidityLimits()
    if flags.lag_limit is not None:
        degraded = replace(limits.degraded, lag_ns=max(limits.degraded.lag_ns, flags.lag_limit))
        limits = replace(limits, valid=replace(limits.valid, lag_ns=flags.lag_limit), degraded=degraded)
    if flags.neighbour_cores is not None:
        limits = replace(limits, neighbour_cores=flags.neighbour_cores)
    return Rules(slos=None if slos == ClientSlos() else slos, limits=limits)
