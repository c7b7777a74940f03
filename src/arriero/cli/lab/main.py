"""`arriero lab VERB ...`: finds the verb and imports nothing else."""

from types import MappingProxyType
from typing import Final

from arriero.cli.verbs import Verb, VerbTable

TABLE: Final = VerbTable(
    command="lab",
    package="arriero.cli.lab",
    description="Where the time goes inside llama.cpp on this CPU, and whether a change really helped.",
    verbs=MappingProxyType({
        "machine": Verb("machine", "facts, warnings and measured ceilings of this machine"),
        "verify-build": Verb("verify_build", "check the llama.cpp in use against a pinned description"),
        "bench": Verb("bench", "run a matrix of models, threads, shapes and KV types, durably"),
        "report": Verb("report", "tables and plots of runs: scaling, formats, KV types, contexts"),
        "recommend": Verb("recommend", "the fastest acceptable format and thread counts, where a server uses them"),
        "quality": Verb("quality", "perplexity, KL divergence and greedy agreement of model formats"),
        "profile": Verb("profile", "time by operator inside the decode call, prefill beside decode"),
        "granularity": Verb("granularity", "time of packets of graph nodes: what scheduling inside a graph would cost"),
        "perf": Verb("perf", "counters and samples by symbol, through perf or callgrind"),
        "asm": Verb("asm", "the instructions of a symbol in the library in use"),
        "targets": Verb("targets", "hot symbols with their share, their bound, and the gate that rejects them"),
        "ab": Verb("ab", "two variants in randomised pairs, against their noise floor"),
        "variant": Verb("variant", "build a second library from an edit of the sources"),
        "kernels": Verb("kernels", "the workbench of extracted kernels: equal bits first, then time"),
    }),
)
main: Final = TABLE.main
