"""MachineDetails: what decides how fast a machine is beyond its cores: caches, threads of a core, nodes, limits."""

import msgspec

from arriero.record.strict import Count, Name, Positive


class CacheFacts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One kind of cache.

    Attributes:
        level: 1 is nearest.
        kind: `Data`, `Instruction` or `Unified`.
        bytes: of one.
        cpus: that share one.
        instances: how many there are.
    """

    level: Positive
    kind: Name
    bytes: Positive
    cpus: Positive
    instances: Positive


class NodeFacts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One NUMA node.

    Attributes:
        node: its number.
        cpus: online ones.
        memory_bytes: null where it cannot be read.
    """

    node: Count
    cpus: tuple[int, ...]
    memory_bytes: int | None


class MachineDetails(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is read beside `MachineFacts`.

    Attributes:
        usable_cpus: that this process may run on.
        siblings: groups of usable CPUs that are threads of one core, groups of one included; empty if unknown.
        caches: nearest first.
        nodes: by number.
        governors: of the usable CPUs, each once.
        max_mhz: greatest frequency that the hardware offers.
        boost: whether cores may clock above their base frequency.
        memory_available_bytes: that programs could have now.
        memory_limit_bytes: of the cgroup; null without one.
        swap_used_bytes: now.
        throttled_periods: in which the cgroup's quota was used up, since the cgroup began; null without a quota.
        hugepages: `always`, `madvise` or `never`.
        hardware_events: whether the kernel gives this process the CPU's event counters.
        perf_event_paranoid: the kernel's setting.
        thread_variables: variables of the environment that decide how OpenMP's threads behave.
        reasons: name of a field that is null -> why.
    """

    usable_cpus: tuple[int, ...]
    siblings: tuple[tuple[int, ...], ...]
    caches: tuple[CacheFacts, ...]
    nodes: tuple[NodeFacts, ...]
    governors: tuple[str, ...]
    max_mhz: float | None
    boost: bool | None
    memory_available_bytes: int | None
    memory_limit_bytes: int | None
    swap_used_bytes: int | None
    throttled_periods: int | None
    hugepages: str | None
    hardware_events: bool | None
    perf_event_paranoid: int | None
    thread_variables: dict[str, str]
    reasons: dict[str, str]

    @property
    def num_cores(self) -> int:
        """Physical cores among the usable CPUs; the CPUs themselves where nothing tells which belong together."""
        return len(self.siblings) or len(self.usable_cpus)

    @property
    def largest_cache_bytes(self) -> int:
        """All instances of the last level together; 0 if unknown."""
        last = max((cache.level for cache in self.caches), default=0)
        return sum(cache.bytes * cache.instances for cache in self.caches if cache.level == last)
