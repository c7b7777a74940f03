"""What makes figures of a machine worse than they need be, or harder to believe: one rule each, with its remedy."""

from collections.abc import Callable
from typing import Final, NamedTuple

from arriero.record.cpu_lab.conditions import ConditionSample
from arriero.record.cpu_lab.environment import LabEnvironment
from arriero.record.cpu_lab.machine_details import MachineDetails
from arriero.record.cpu_lab.machine_result import MachineWarning

STOLEN_SHARE: Final = 0.005
"""Of the usable cores' time, above which the hypervisor's other guests show in the figures."""

BUSY_CORES: Final = 0.1
"""Kept busy by others, above which figures suffer: compute threads wait for one another hundreds of times a step."""

HOT_C: Final = 85.0
FEW_BYTES: Final = 2 * 2**30


class Seen(NamedTuple):
    """All that the rules look at."""

    environment: LabEnvironment
    details: MachineDetails
    condition: ConditionSample
    unused: tuple[str, ...]  # instruction sets of the CPU that the library was not compiled for
    lacking: tuple[str, ...]  # instruction sets that the library needs and the CPU lacks


Rule = Callable[[Seen], MachineWarning | None]


def find_warnings(seen: Seen) -> tuple[MachineWarning, ...]:
    """In the order of the rules."""
    return tuple(warning for rule in RULES if (warning := rule(seen)) is not None)


def _warn(name: str, says: str, remedy: str) -> MachineWarning:
    return MachineWarning(name=name, says=says, remedy=remedy)


def _governor(seen: Seen) -> MachineWarning | None:
    others = [name for name in seen.details.governors if name != "performance"]
    if not others:
        return None
    return _warn(
        "governor",
        f"the frequency governor is {', '.join(others)}, so cores clock up only after work has begun",
        "cpupower frequency-set -g performance",
    )


def _frequency(seen: Seen) -> MachineWarning | None:
    if seen.details.governors:
        return None
    return _warn(
        "frequency",
        "the cores' frequency can be neither fixed nor seen from here",
        "measure in interleaved pairs and watch the drift; compare nothing across hours",
    )


def _boost(seen: Seen) -> MachineWarning | None:
    if not seen.details.boost:
        return None
    return _warn(
        "boost",
        "cores may clock above their base frequency, by how many of them work and how hot they are",
        "switch boost off for comparisons (echo 0 > /sys/devices/system/cpu/cpufreq/boost, or no_turbo)",
    )


def _siblings(seen: Seen) -> MachineWarning | None:
    shared = [core for core in seen.details.siblings if len(core) > 1]
    if not shared:
        return None
    one_each = ",".join(str(core[0]) for core in seen.details.siblings)
    return _warn(
        "smt",
        f"{len(seen.details.usable_cpus)} CPUs are threads of {seen.details.num_cores} cores",
        f"use at most {seen.details.num_cores} compute threads, on one CPU of each core (taskset -c {one_each})",
    )


def _quota(seen: Seen) -> MachineWarning | None:
    limit, cores = seen.environment.machine.cgroup_cores, len(seen.details.usable_cpus)
    if limit is None or limit >= cores:
        return None
    return _warn(
        "cgroup-quota",
        f"the cgroup allows the time of {limit:g} cores, and {cores} CPUs are to be seen",
        f"use at most {max(1, int(limit))} threads, or raise the quota: more are stopped for the rest of each period",
    )


def _throttled(seen: Seen) -> MachineWarning | None:
    if not seen.details.throttled_periods:
        return None
    return _warn(
        "cgroup-throttled",
        f"the cgroup used up its quota in {seen.details.throttled_periods} periods since it began",
        "use fewer threads than the quota has cores, or raise the quota",
    )


def _affinity(seen: Seen) -> MachineWarning | None:
    usable, online = len(seen.details.usable_cpus), seen.environment.machine.cores_online
    if online is None or usable >= online:
        return None
    return _warn(
        "affinity",
        f"this process may run on {usable} of {online} CPUs",
        "start it without taskset or a cpuset to use them all, or say so beside the figures",
    )


def _memory_limit(seen: Seen) -> MachineWarning | None:
    limits = (seen.details.memory_available_bytes, seen.details.memory_limit_bytes)
    room = min((limit for limit in limits if limit is not None), default=None)
    if room is None or room >= FEW_BYTES:
        return None
    return _warn(
        "memory",
        f"{room / 2**20:.0f} MiB of memory are left for programs",
        "end what is not needed, or take a smaller model: a mapped file that does not fit is read again and again",
    )


def _swap(seen: Seen) -> MachineWarning | None:
    if not seen.details.swap_used_bytes:
        return None
    return _warn(
        "swap",
        f"{seen.details.swap_used_bytes / 2**20:.0f} MiB are swapped out",
        "free memory, then swapoff -a && swapon -a",
    )


def _stolen(seen: Seen) -> MachineWarning | None:
    share = seen.condition.steal_share
    if share is None or share <= STOLEN_SHARE:
        return None
    return _warn(
        "steal",
        f"the hypervisor gave {share:.1%} of our CPU time to others while we looked",
        "measure at another hour or on a dedicated host; keep only pairs without steal",
    )


def _neighbours(seen: Seen) -> MachineWarning | None:
    cores = seen.condition.other_cores
    if cores is None or cores <= BUSY_CORES:
        return None
    names = ", ".join(f"{each.name} {each.cores:.2f}" for each in seen.condition.others)
    return _warn(
        "neighbours",
        f"other processes keep {cores:.2f} cores busy ({names})",
        "end them or wait: one busy neighbour can make a step ten times as long",
    )


def _load(seen: Seen) -> MachineWarning | None:
    load = seen.condition.load_average
    cores = len(seen.details.usable_cpus)
    if load is None or load[0] <= cores / 2:
        return None
    return _warn(
        "load",
        f"the load was {load[0]:.2f} over the last minute, on {cores} CPUs",
        "wait for a minute without work before measuring",
    )


def _temperature(seen: Seen) -> MachineWarning | None:
    degrees = seen.condition.temperature_c
    if degrees is None or degrees <= HOT_C:
        return None
    return _warn("temperature", f"the processor has {degrees:.0f} C", "let it cool down, or it lowers its frequency")


def _events(seen: Seen) -> MachineWarning | None:
    if seen.details.hardware_events is not False:
        return None
    where = "a virtual machine" if seen.environment.machine.virtualised else "this machine"
    return _warn(
        "hardware-events",
        f"{where} without hardware events ({seen.details.reasons.get('hardware_events', 'no reason is known')})",
        "profile by cpu-clock samples and callgrind; instructions and cache misses need bare metal or a virtual PMU",
    )


def _nodes(seen: Seen) -> MachineWarning | None:
    usable = set(seen.details.usable_cpus)
    used = [node for node in seen.details.nodes if usable & set(node.cpus)]
    if len(used) < 2:
        return None
    return _warn(
        "numa",
        f"the usable CPUs lie on {len(used)} NUMA nodes: memory of another node is slower",
        f"stay on one node: numactl --cpunodebind={used[0].node} --membind={used[0].node}",
    )


def _thread_variables(seen: Seen) -> MachineWarning | None:
    found = seen.details.thread_variables
    if not found:
        return None
    words = " ".join(f"{name}={value}" for name, value in found.items())
    return _warn(
        "thread-variables",
        f"the environment steers the compute threads: {words}",
        f"unset {' '.join(found)}, unless that is what you measure",
    )


def _build(seen: Seen) -> MachineWarning | None:
    if seen.lacking:
        return _warn(
            "build",
            f"the llama.cpp in use needs {', '.join(seen.lacking)}, which this CPU lacks",
            "build it on this machine: rm .venv/binding-key && make binding",
        )
    if not seen.unused:
        return None
    return _warn(
        "build",
        f"the llama.cpp in use does not use {', '.join(seen.unused)} of this CPU",
        "build it on this machine: rm .venv/binding-key && make binding",
    )


def _mixed(seen: Seen) -> MachineWarning | None:
    library = seen.environment.library
    if library is None or not library.strays:
        return None
    return _warn(
        "mixed-builds",
        f"{', '.join(library.strays)} lie in another folder than libllama",
        "give LLAMA_CPP_LIB_PATH a folder that holds all of libllama, libggml, libggml-base and libggml-cpu",
    )


def _compiler(seen: Seen) -> MachineWarning | None:
    if seen.environment.compilers:
        return None
    return _warn(
        "compiler",
        "there is no C compiler, so the ceilings are those of numpy",
        "install one (Debian: apt-get install gcc)",
    )


RULES: Final[tuple[Rule, ...]] = (
    _neighbours, _load, _stolen, _quota, _throttled, _affinity, _governor, _frequency, _boost, _temperature, _siblings,
    _nodes, _memory_limit, _swap, _events, _build, _mixed, _thread_variables, _compiler,
)  # fmt: skip
"""What spoils a figure now comes first, then what never changes on this machine."""
