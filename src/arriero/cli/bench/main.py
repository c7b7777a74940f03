"""`arriero bench VERB ...`: finds the verb and imports nothing else."""

from types import MappingProxyType
from typing import Final

from arriero.cli.verbs import Verb, VerbTable

TABLE: Final = VerbTable(
    command="bench",
    package="arriero.cli.bench",
    description="Measure servers: what they do under a load that is fixed beforehand, and how sure that is.",
    verbs=MappingProxyType({
        "run": Verb("run", "measure a server, the engine in this process, or the simulator"),
        "compare": Verb("compare", "compare two servers in interleaved rounds, against their noise floor"),
        "report": Verb("report", "a page with figures, Markdown or CSV of results and comparisons"),
        "experiment": Verb("experiment", "run a published experiment and judge its acceptance statements"),
        "soak": Verb("soak", "put a server under everything at once for half an hour, and balance its books"),
    }),
)
main: Final = TABLE.main
