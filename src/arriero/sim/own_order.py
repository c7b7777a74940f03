"""What a workload says about who goes first, in arriero's own mode and in plans."""

from typing import Final, NamedTuple

from arriero.core.choices import PolicyWord
from arriero.record.simulation_config import SimulationConfig
from arriero.workload.notes import notes_of
from arriero.workload.records import WorkloadRecord


class Order(NamedTuple):
    """What policies look at, beside arrival and length."""

    priority: int = 0
    due_after: int | None = None  # microseconds from its arrival
    tenant: str | None = None


NO_ORDER: Final = Order()


def order_of(config: SimulationConfig, record: WorkloadRecord) -> Order:
    """What the request says; nothing under a policy that asks for nothing.

    Raises:
        BadWorkload: there are notes, but not of this form.
    """
    return NO_ORDER if config.policy == PolicyWord.FCFS else order_said(record)


def order_said(record: WorkloadRecord) -> Order:
    """What the request says, whatever the policy.

    A workload has no keys: where its notes name no tenant, requests of one `prefix_group` have one key, as they have
    for prefix reuse.

    Raises:
        BadWorkload: there are notes, but not of this form.
    """
    notes = notes_of(record)
    tenant = record.prefix_group if notes.tenant is None else notes.tenant
    return Order(notes.priority, record.deadline_us, tenant)
