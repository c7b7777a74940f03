"""`arriero model VERB ...`: finds the verb and imports nothing else."""

from types import MappingProxyType
from typing import Final

from arriero.cli.verbs import Verb, VerbTable

TABLE: Final = VerbTable(
    command="model",
    package="arriero.cli",
    description="What a model file really holds, and the same model in other weight formats.",
    verbs=MappingProxyType({
        "show": Verb("model_show", "facts of a file: real tensor types, sizes, context, vocabulary"),
        "quantize": Verb("model_quantize", "write a model in another weight format"),
    }),
)
main: Final = TABLE.main
