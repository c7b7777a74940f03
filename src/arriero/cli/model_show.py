"""`arriero model show MODEL`: what a model file really holds."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from arriero.cli.sources import LineParser, make_parser

if TYPE_CHECKING:
    from arriero.record.cpu_lab.model_facts import FallbackFacts, ModelFacts


def main(arguments: Sequence[str]) -> int:
    """Read the header and print it.

    Raises:
        ModelUnreadable: no such file, or it is damaged.
    """
    flags = _parser().parse_args(arguments)
    from arriero.backend.models import resolve_model
    from arriero.lab.machine.model_file import model_facts

    facts = model_facts(resolve_model(flags.model))
    if flags.json:
        import msgspec

        print(msgspec.json.format(msgspec.json.encode(facts)).decode())
    else:
        print("\n".join(model_lines(facts)))
    return 0


def model_lines(facts: "ModelFacts") -> Iterator[str]:
    """The facts, one line each, then the tensors by type, then why some are not of the declared format."""
    yield f"file        {facts.file}"
    yield f"size        {facts.bytes:,} bytes ({facts.bytes / 2**20:,.0f} MiB), GGUF version {facts.gguf_version}"
    yield f"sha256      {facts.sha256}"
    yield f"model       {facts.name or 'no name given'}, architecture {facts.architecture or 'unknown'}"
    yield f"parameters  {facts.num_parameters:,} in {facts.num_layers or 'an unknown number of'} layers"
    yield f"context     {_count(facts.trained_context)} tokens, vocabulary {_count(facts.vocab_size)}"
    yield f"declared    {facts.declared_format or 'nothing'}"
    yield ""
    yield f"{'type':<8} {'tensors':>7} {'weights':>15} {'bytes':>15} {'share':>7} {'bits/weight':>11}"
    for each in facts.tensor_types:
        share = each.bytes / facts.tensor_bytes
        bits = 8 * each.bytes / each.num_weights
        amounts = f"{each.num_tensors:>7} {each.num_weights:>15,} {each.bytes:>15,}"
        yield f"{each.type:<8} {amounts} {share:>7.1%} {bits:>11.2f}"
    if facts.fallbacks:
        yield ""
    for fallback in facts.fallbacks:
        yield fallback_line(fallback)


def fallback_line(fallback: "FallbackFacts") -> str:
    """Why some tensors are not of the declared format."""
    one = fallback.num_tensors == 1
    return (
        f"{fallback.type} in {fallback.num_tensors} {'tensor' if one else 'tensors'}: rows of {fallback.row_length} "
        f"weights do not fill whole blocks of {fallback.block_length}, so it stands in for "
        f"{' or '.join(fallback.instead_of) or 'a type with such blocks'}"
    )


def _count(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,}"


def _parser() -> LineParser:
    parser = make_parser(
        "model show",
        "What a GGUF file really holds: the types of its tensors, whatever its name says, with counts and bytes, and "
        "why K-quants fall back to other types.",
    )
    says = "a GGUF file, smollm2-135m for the embedded model, or hf:ORG/REPO/FILE"
    parser.add_argument("model", metavar="MODEL", help=says)
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser
