"""`arriero sim VERB ...`: finds the verb and imports nothing else."""

from types import MappingProxyType
from typing import Final

from arriero.cli.verbs import Verb, VerbTable

TABLE: Final = VerbTable(
    command="sim",
    package="arriero.cli.simulation",
    description="The scheduler that serves, driven by a virtual clock: no model, no waiting.",
    verbs=MappingProxyType({
        "run": Verb("run", "simulate one configuration and write its rows"),
        "matrix": Verb("matrix", "simulate every configuration of a list, and compare"),
        "compare": Verb("compare", "put two results of one workload side by side"),
        "summary": Verb("summary", "check result files and print their metrics as JSON, CSV or Markdown"),
        "report": Verb("report", "a page with figures, Markdown or CSV of results and journals"),
        "mixed-decode": Verb("mixed_decode", "the published simulator of rows and slots, and its table"),
        "demo": Verb("demo", "what continuous batching and prefix caching change, in seconds and without a model"),
        "verify": Verb("verify", "run the repository's own definitions again and compare with their references"),
        "replay": Verb("replay", "repeat the decisions of a journal, or print the first that differs"),
        "whatif": Verb("whatif", "the requests of a journal through another configuration, old and new side by side"),
        "validate": Verb("validate", "held-out loads on the real engine and simulated, errors beside the noise"),
    }),
)
main: Final = TABLE.main
