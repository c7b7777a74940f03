"""What a workload says about who goes first, in arriero's own mode."""

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

    A workload has no keys: where its notes name no tenant, requests of one `prefix_group` have one key, as they have
    for prefix reuse.

    Raises:
        BadWorkload: there are notes, but not of this form.
    """
    if config.policy == PolicyWord.FCFS:
        return NO_ORDER
    notes = notes_of(record)
    tenant = record.prefix_group if notes.tenant is None else notes.tenant
    return Order(notes.priority, record.deadline_us, tenant)
