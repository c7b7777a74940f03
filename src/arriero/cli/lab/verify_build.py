"""`arriero lab verify-build [PIN]`: checks the llama.cpp in use, by itself and against a pinned description."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from arriero.cli.simulation.output import add_force, new_file, require_absent
from arriero.cli.sources import LineParser, make_parser

if TYPE_CHECKING:
    from arriero.record.cpu_lab.environment import LibraryFacts

EXIT_DIFFERENT: Final = 1


def main(arguments: Sequence[str]) -> int:
    """Describe it, check it, and pin it if asked; status 1 if something is not as it should be.

    Raises:
        ConfigError: the binding cannot be loaded, or the new pin exists already. DataError: the pin cannot be read.
    """
    flags = _parser().parse_args(arguments)
    from arriero.lab.machine.build_check import check_build
    from arriero.lab.machine.library_files import library_facts
    from arriero.record.cpu_lab.build_pin import encode_pin, pin_of, read_pin

    if flags.pin is not None:
        require_absent([Path(flags.pin)], force=flags.force)
    pin = None if flags.against is None else read_pin(Path(flags.against))
    facts = library_facts()
    differences = check_build(facts, pin)
    if flags.pin is not None:
        with new_file(Path(flags.pin), force=flags.force) as file:
            file.write(encode_pin(pin_of(facts, flags.note)))
    _show(facts, differences, flags.json, flags.against)
    if flags.pin is not None:
        print(f"{flags.pin}: written", file=sys.stderr)
    return EXIT_DIFFERENT if differences else 0


def _show(facts: "LibraryFacts", differences: Sequence[str], as_json: bool, against: str | None) -> None:  # noqa: FBT001 - a flag
    if as_json:
        import msgspec

        told = {"library": facts, "against": against and Path(against).name, "differences": differences}
        print(msgspec.json.format(msgspec.json.encode(told)).decode())
        return
    print(f"binding    {facts.binding}")
    print(f"ggml       {facts.ggml or 'unknown'}, commit {facts.commit or 'unknown'}")
    print(f"features   {' '.join(facts.features)}")
    print(f"compiler   {', '.join(facts.compilers) or 'unknown'}")
    for each in facts.files:
        print(f"file       {each.sha256}  {each.bytes:>9}  {each.name}")
    for line in differences:
        print(f"different  {line}")
    if not differences:
        print("as pinned" if against else "fits this CPU and this arriero; nothing else was pinned to check it against")


def _parser() -> LineParser:
    parser = make_parser(
        "lab verify-build",
        "Check the llama.cpp in use: its version, what it was compiled for, by whom, and the bytes of each library, "
        "against a pinned description; without one whether it fits this CPU. Status 1 on a difference.",
    )
    parser.add_argument("against", nargs="?", metavar="PIN", help="a pinned description, JSON or TOML")
    parser.add_argument("--pin", metavar="FILE", help="write the description of this build there")
    parser.add_argument("--note", metavar="TEXT", help="a line for people in the new pin")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_force(parser)
    return parser
