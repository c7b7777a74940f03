"""The same machine, a little slower or faster: a cost with all of its coefficients changed, or with one of them.

What a simulation says depends on coefficients that were measured, so it is asked how much it moves with each.
"""

from dataclasses import fields, replace
from typing import Final, TypeAlias

from arriero.costmodel.calibrated import CalibratedCost, HostCosts
from arriero.costmodel.models import RoundedMicroseconds
from arriero.costmodel.terms import TERMS, PassCosts

AnyCost: TypeAlias = CalibratedCost | RoundedMicroseconds
"""Costs whose coefficients have names."""

HOST: Final = "host_"
"""Before the names of the host's coefficients."""


def scaled(cost: AnyCost, factor: float) -> AnyCost:
    """Every step takes so many times as long."""
    if isinstance(cost, RoundedMicroseconds):
        return RoundedMicroseconds(**{each.name: getattr(cost, each.name) * factor for each in fields(cost)})
    passes = {
        number: replace(costs, values=tuple(value * factor for value in costs.values))
        for number, costs in cost.passes.items()
    }
    host = HostCosts(**{each.name: getattr(cost.host, each.name) * factor for each in fields(cost.host)})
    return replace(cost, passes=passes, host=host)


def coefficients(cost: AnyCost) -> tuple[str, ...]:
    """The names of those that are not 0, in their order; of a calibrated cost for the threads that compute."""
    if isinstance(cost, RoundedMicroseconds):
        return tuple(each.name for each in fields(cost) if getattr(cost, each.name))
    used = [cost.passes[number].named for number in {cost.threads.decode, cost.threads.prefill}]
    of_passes = [name for name in TERMS if any(named[name] for named in used)]
    of_host = [f"{HOST}{each.name}" for each in fields(cost.host) if getattr(cost.host, each.name)]
    return (*of_passes, *of_host)


def with_coefficient(cost: AnyCost, name: str, factor: float) -> AnyCost:
    """The same cost with one coefficient so many times as large, at every number of threads.

    Raises:
        KeyError: there is none of this name.
    """
    if isinstance(cost, RoundedMicroseconds):
        return replace(cost, **{name: _of(cost, name) * factor})
    if name.startswith(HOST):
        field = name.removeprefix(HOST)
        return replace(cost, host=replace(cost.host, **{field: _of(cost.host, field) * factor}))
    place = TERMS.index(name) if name in TERMS else None
    if place is None:
        raise KeyError(name)
    passes = {number: _with_term(costs, place, factor) for number, costs in cost.passes.items()}
    return replace(cost, passes=passes)


def _with_term(costs: PassCosts, place: int, factor: float) -> PassCosts:
    values = (value * factor if at == place else value for at, value in enumerate(costs.values))
    return replace(costs, values=tuple(values))


def _of(values: HostCosts | RoundedMicroseconds, name: str) -> float:
    value = getattr(values, name, None)
    if not isinstance(value, int | float):
        raise KeyError(name)
    return value
