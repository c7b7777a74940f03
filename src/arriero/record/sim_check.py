"""SimChecker: whether the rows of one run in arriero's own mode fit together, before anything is computed from them.

Every figure of the summary row is made again from the request rows, and from the step rows as far as they are there.
What no row says is taken as it stands: how full memory was while steps ran, how often something was evicted, and what
a cache counted beyond the first starts of requests.
"""

from typing import Any, Final, NamedTuple, cast

import msgspec

from arriero.core.errors import DataError
from arriero.core.events import ReuseVerdict
from arriero.metrics.goodput import Slos
from arriero.metrics.rates import share
from arriero.metrics.run_summary import run_summary
from arriero.metrics.served import ServedTally
from arriero.metrics.steps import StepFigures
from arriero.record.lab_place import Place
from arriero.record.sim_requests import SimRequestSums, check_sim_request
from arriero.record.sim_reuse import ReuseTotals
from arriero.record.sim_rows import SCHEMA, SimRequestRow, StepRow, encode_table
from arriero.record.sim_steps import Computed, StepSums
from arriero.record.simulation_config import Cells, SimulationConfig

_MISSING: Final = object()


class SimChecker:
    """Checks the rows of one run below its run row, in the order of its file."""

    def __init__(self, config: SimulationConfig) -> None:
        """`config` is that of the run row."""
        self._config: Final = config
        self._steps: Final = StepSums(config)
        self._computed: Final = Computed()
        self._requests: Final = SimRequestSums(config.window)

    @property
    def num_steps(self) -> int:
        """Step rows so far."""
        return self._steps.num_steps

    @property
    def tally(self) -> ServedTally:
        """The requests; whole once the summary has been checked."""
        return self._requests.tally

    def add_step(self, row: StepRow, place: Place) -> None:
        """Check the next step row.

        Raises:
            DataError: names line and field.
        """
        self._steps.add(row, place)
        self._computed.add(row, place)

    def add_request(self, row: SimRequestRow, place: Place) -> None:
        """Check the next request row.

        Raises:
            DataError: names line and field.
        """
        check_sim_request(row, self._config, place)
        self._requests.add(row, place)
        if self._config.trace == "full":
            self._computed.check(row, place)

    def check_summary(self, values: dict[str, Any], text: bytes, place: Place) -> None:
        """Make the summary again and compare.

        Args:
            values: of the row.
            text: its line, without its end.
            place: of the line.

        Raises:
            DataError: names the figure that differs.
        """
        self._computed.check_all_known(place)
        taken = _taken(values, place)
        if self._config.trace != "off":
            self._check_steps(taken, place)
        self._check_times(taken, place)
        kv = self._config.kv
        if (taken.reuse is not None) != (isinstance(kv, Cells) and kv.reuse is not None):
            raise place.broken("reuse", "does not go with the configuration's kv.reuse; run again")
        if taken.reuse is not None:
            self._check_reuse(taken.reuse, taken.evictions, place)
        expected = {
            "record_type": "summary",
            "schema_version": SCHEMA,
            **summary_of(
                self._config, self._requests.finish(), taken.steps, taken.makespan_us, taken.evictions, taken.reuse
            ),
        }
        _require_equal(values, expected, "", place)
        if encode_table(expected) != text:
            raise place.broken("row", "is not written in the one way: sorted keys, no spaces; run again")

    def _check_steps(self, taken: "_Taken", place: Place) -> None:
        self._steps.check_figures(taken.steps, place)
        requests = self._requests.tally.requests
        preemptions = sum(each.num_preemptions for each in requests)
        if preemptions != self._steps.preempted:
            what = f"are {preemptions} in the request rows and {self._steps.preempted} in the step rows; run again"
            raise place.broken("preemption.preemptions", what)
        # Every token comes from a decode row, or with the end of a prompt: once, or again after a preemption.
        num_first = sum(each.life.num_tokens > 0 for each in requests)
        with_prompts = sum(each.life.num_tokens for each in requests) - self._steps.decode_rows
        if not num_first <= with_prompts <= num_first + preemptions:
            what = f"do not go with the {self._steps.decode_rows} decode rows of the step rows; run again"
            raise place.broken("counts.generated_tokens", what)

    def _check_times(self, taken: "_Taken", place: Place) -> None:
        figures, requests = taken.steps, self._requests
        span = figures.busy_us + figures.idle_us
        if span != taken.makespan_us:
            raise place.broken("whole_run.makespan_us", f"is not busy + idle time, {span}; run again")
        if figures.idle_fraction != share(figures.idle_us, span):
            raise place.broken("steps.idle_fraction", "is not idle time / makespan; run again")
        ends = [requests.last_finish, 0 if self._steps.last is None else self._steps.last.ended_at_us]
        if requests.num_requests and max(ends) > requests.first_arrival + taken.makespan_us:
            raise place.broken("whole_run.makespan_us", "ends before the last step or request; run again")

    def _check_reuse(self, reuse: ReuseTotals, evictions: int, place: Place) -> None:
        """First starts are in the request rows; later ones, after a preemption, only add to them."""
        sources = self._requests.sources
        is_exact = not any(each.num_preemptions for each in self._requests.tally.requests)
        for name, found, least in (
            ("hits", reuse.hits, sources.hits),
            ("cached_tokens", reuse.cached_tokens, sources.tokens),
        ):
            is_too_low = any(found.get(word, 0) < number for word, number in least.items())
            if is_too_low or (is_exact and found != dict(least)):
                what = f"are {found!a}, but the request rows give {dict(least)!a}; run again"
                raise place.broken(f"reuse.{name}", what)
        counted: list[tuple[str, int, int]] = [
            ("evictions", evictions, reuse.num_evictions),
            ("reuse.lookups", reuse.lookups.get(ReuseVerdict.REUSED, 0), sum(reuse.hits.values())),
        ]
        if self._config.trace != "off":
            counted.append(("reuse.prefill_rows", reuse.prefill_rows, self._steps.prefill_rows))
        for name, said, expected in counted:
            if said != expected:
                raise place.broken(name, f"say {said}, but other figures give {expected}; run again")


def summary_of(
    config: SimulationConfig,
    tally: ServedTally,
    steps: StepFigures,
    makespan_us: int,
    evictions: int,
    reuse: ReuseTotals | None = None,
) -> dict[str, Any]:
    """The figures of a summary row."""
    slos = config.slos
    summary = run_summary(
        tally,
        steps,
        makespan_us=makespan_us,
        slos=Slos(slos.ttft_us, slos.tpot_us, slos.e2e_us),
        largest_gap_slo=slos.largest_gap_us,
    )
    return {**summary, "evictions": evictions, "reuse": None if reuse is None else reuse.as_json()}


class _Taken(NamedTuple):
    """What is taken from the row, since other rows do not say it, or not in every file."""

    steps: StepFigures
    makespan_us: int
    evictions: int
    reuse: ReuseTotals | None


def _taken(values: dict[str, Any], place: Place) -> _Taken:
    steps: dict[str, Any] = _group(values, "steps", place)
    whole: dict[str, Any] = _group(values, "whole_run", place)
    figures = {name: _figure(steps, name, f"steps.{name}", place) for name in StepFigures._fields}
    counts = {
        "whole_run.makespan_us": whole.get("makespan_us"),
        "evictions": values.get("evictions"),
        **{f"steps.{name}": figures[name] for name in _COUNTS},
    }
    for name, value in counts.items():
        if type(value) is not int or value < 0:
            raise place.broken(name, f"is {value!a}, and must be a whole number from 0 on; run again")
    reuse = _reuse(values.get("reuse"), place)
    return _Taken(StepFigures(**cast("dict[str, Any]", figures)), whole["makespan_us"], values["evictions"], reuse)


def _reuse(value: object, place: Place) -> ReuseTotals | None:
    if value is None:
        return None
    try:
        return msgspec.convert(value, ReuseTotals)
    except msgspec.ValidationError as error:
        raise place.broken("reuse", f"is broken ({error}); run again") from None


_COUNTS: Final = ("num_steps", "num_idle", "busy_us", "idle_us", "kv_peak", "num_waiting_peak")


def _group(values: dict[str, Any], name: str, place: Place) -> dict[str, Any]:
    group = _table(values.get(name))
    if group is None:
        raise place.broken(name, "is missing; run again")
    return group


def _table(value: object) -> dict[str, Any] | None:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _figure(group: dict[str, Any], name: str, field: str, place: Place) -> float | None:
    value: object = group.get(name, _MISSING)
    undefined = _table(value)
    if undefined is not None and undefined.get("value", _MISSING) is None:
        return None  # whether the reason beside it is the right one is seen when all are made again
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
        return value
    raise place.broken(field, "is missing or no number from 0 on; run again")


def _require_equal(found: object, expected: object, field: str, place: Place) -> None:
    """Compare, and say the first place at which they differ."""
    ours, theirs = _table(expected), _table(found)
    if ours is not None and theirs is not None:
        for name in (*ours, *(each for each in theirs if each not in ours)):
            inner = f"{field}.{name}" if field else name
            _require_equal(theirs.get(name, _MISSING), ours.get(name, _MISSING), inner, place)
    elif found != expected:
        raise _differs(found, expected, field, place)


def _differs(found: object, expected: object, field: str, place: Place) -> DataError:
    if expected is _MISSING:
        return place.broken(field, "unknown field; take it out")
    shown = "missing" if found is _MISSING else f"{found!a}"[:60]
    return place.broken(field, f"is {shown}, but the rows give {expected!a}; run again")
