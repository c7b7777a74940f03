"""`arriero lab perf MODE ...`: counters and samples of whole programs, from outside."""

from types import MappingProxyType
from typing import Final

from arriero.cli.verbs import Verb, VerbTable

TABLE: Final = VerbTable(
    command="lab perf",
    package="arriero.cli.lab",
    description="Counters and samples of a bench worker, or of any program after --, from outside.",
    verbs=MappingProxyType({
        "probe": Verb("perf_probe", "which events this machine can count, one by one"),
        "stat": Verb("perf_stat", "counters of whole invocations: instructions, cycles, misses"),
        "record": Verb("perf_record", "samples by function, with stacks for a flame graph"),
        "callgrind": Verb("perf_callgrind", "instructions by function, counted by an emulator, where perf is refused"),
        "report": Verb("perf_report", "tables, figures and flame graphs of runs"),
    }),
)
main: Final = TABLE.main
