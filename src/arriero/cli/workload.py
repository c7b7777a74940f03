"""`arriero workload VERB ...`: make, check, describe and import workloads."""

import argparse
import json
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from difflib import get_close_matches
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from arriero.cli.progress import Progress
from arriero.cli.sources import LineParser, make_parser
from arriero.cli.workload_flags import add_output, count, factor, manifest_path, outputs, positive
from arriero.core.errors import BadWorkload, ConfigError


class Verb(NamedTuple):
    """One word after `arriero workload`."""

    says: str
    main: Callable[[Sequence[str]], int]


def main(arguments: Sequence[str]) -> int:
    """Run one verb.

    Raises:
        ConfigError: no such verb, or a flag that cannot work. BadWorkload: a file that cannot be used.
    """
    words = list(arguments)
    if words and words[0] in VERBS:
        return VERBS[words[0]].main(words[1:])
    if words and not words[0].startswith("-"):
        match = get_close_matches(words[0], VERBS, n=1)
        remedy = f"did you mean {match[0]}?" if match else f"use {', '.join(VERBS)}"
        raise ConfigError(f"workload {words[0]}: no such verb; {remedy}")
    _overview().parse_args(words)
    raise ConfigError("workload: no verb given; see arriero workload --help")


def generate(arguments: Sequence[str]) -> int:
    """Make a workload and its manifest."""
    from arriero.workload.catalogue import NAMES, recipe
    from arriero.workload.files import write_records
    from arriero.workload.manifest import encode_manifest, manifest_of

    parser = make_parser("workload generate", VERBS["generate"].says)
    parser.add_argument("config", metavar="CONFIG", help=f"a JSON or TOML file, or one of {', '.join(NAMES)}")
    add_output(parser)
    parser.add_argument("--seed", type=count, metavar="N", help="instead of the seed in the settings")
    parser.add_argument("--count", type=count, metavar="N", help="how many requests instead of those in the settings")
    flags = parser.parse_args(arguments)
    made = recipe(_settings(flags), file=flags.config)
    with outputs(flags) as (out, manifest), Progress(f"making {flags.out}"), _named(flags.config):
        written = write_records(out, made.make())
        manifest.write(encode_manifest(manifest_of(made, written.sha256)))
    print(f"{flags.out}: {written.num_records:,} requests, sha256 {written.sha256}")
    print(f"{manifest_path(flags)}: made by {made.generator}, seed {made.seed}")
    return 0


def validate(arguments: Sequence[str]) -> int:
    """Check a workload, and its manifest if one is given."""
    from arriero.workload.catalogue import OURS
    from arriero.workload.files import read_workload
    from arriero.workload.manifest import check_manifest, read_manifest
    from arriero.workload.notes import check_notes
    from arriero.workload.published import GENERATOR

    parser = make_parser("workload validate", VERBS["validate"].says)
    parser.add_argument("file", metavar="FILE", help="a workload")
    parser.add_argument("--manifest", metavar="FILE", help="compare with this manifest, and make the workload again")
    flags = parser.parse_args(arguments)
    with Progress(f"checking {flags.file}"):
        workload = read_workload(Path(flags.file))
        with _named(flags.file):
            check_notes(workload.records)
        manifest = read_manifest(Path(flags.manifest)) if flags.manifest else None
        if manifest is not None:
            check_manifest(manifest, workload, file=flags.manifest)
    print(f"{flags.file}: valid, {len(workload.records):,} requests, sha256 {workload.sha256}")
    if manifest is not None:
        known = manifest.generator == GENERATOR or manifest.generator in OURS
        again = "every request was made again from its settings" if known else "its arrivals were made again"
        print(f"{flags.manifest}: agrees; {again}")
    return 0


def describe(arguments: Sequence[str]) -> int:
    """Print what a workload is like."""
    from arriero.cli.workload_view import show
    from arriero.workload.files import read_workload
    from arriero.workload.summary import summarise

    parser = make_parser("workload describe", VERBS["describe"].says)
    parser.add_argument("file", metavar="FILE", help="a workload")
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object")
    flags = parser.parse_args(arguments)
    with Progress(f"reading {flags.file}"), _named(flags.file):
        workload = read_workload(Path(flags.file))
        summary = summarise(workload.records)
    if flags.json:
        figures: dict[str, Any] = {**asdict(summary), "sha256": workload.sha256}
        figures["sharing"]["ratio"] = summary.sharing.ratio
        print(json.dumps(figures, indent=2, sort_keys=True))
    else:
        show(flags.file, workload, summary)
    return 0


def import_any(arguments: Sequence[str]) -> int:
    """Turn a trace, or a journal of one's own, into a workload with a manifest."""
    words = list(arguments)
    return import_journal_file(words[1:]) if words[:1] == ["journal"] else import_trace(words)


def import_journal_file(arguments: Sequence[str]) -> int:
    """Turn a journal into a workload: who asked when, with prompts of the same lengths and shared beginnings."""
    from arriero.sim.journal_workload import import_journal
    from arriero.workload.files import write_records
    from arriero.workload.manifest import encode_manifest, make_manifest, sha256_of
    from arriero.workload.records import SCHEMA

    parser = make_parser("workload import journal", "Make a workload out of a journal; prompts are made up.")
    parser.add_argument("file", metavar="FILE", help="a journal of one run")
    add_output(parser)
    flags = parser.parse_args(arguments)
    with outputs(flags) as (out, manifest), Progress(f"importing {flags.file}"):
        records = import_journal(Path(flags.file))
        written = write_records(out, records)
        config = {
            "schema_version": SCHEMA,
            "workload_class": str(records[0].workload_class) if records else "chat",
            "request_count": len(records),
            "seed": 0,
            "arrival": {"mode": "manual", "timestamps_us": [record.arrival_time_us for record in records]},
            "journal": {"sha256": sha256_of(Path(flags.file))},
        }
        manifest.write(encode_manifest(make_manifest("arriero-import-journal-v1", config, written.sha256)))
    print(f"{flags.out}: {written.num_records:,} requests, sha256 {written.sha256}")
    return 0


def import_trace(arguments: Sequence[str]) -> int:
    """Turn a published trace into a workload with a manifest."""
    from arriero.cli.workload_view import account_lines
    from arriero.workload.files import write_records
    from arriero.workload.importing import TraceImport
    from arriero.workload.manifest import encode_manifest
    from arriero.workload.settings import Vocabulary
    from arriero.workload.strict import convert
    from arriero.workload.traces import TraceOptions

    flags = _import_parser().parse_args(arguments)
    options = TraceOptions(
        scale=flags.scale,
        output_scale=flags.output_scale,
        speed=flags.speed,
        limit=flags.limit,
        context=flags.context,
        verified=not flags.unverified,
    )
    vocabulary = convert({"first_token": flags.first_token, "size": flags.vocab_size}, Vocabulary)
    with outputs(flags) as (out, manifest), Progress(f"importing {flags.file}"):
        trace = TraceImport(flags.trace, Path(flags.file), options, vocabulary)
        written = write_records(out, trace.records())
        manifest.write(encode_manifest(trace.manifest(written.sha256)))
    print(f"{flags.out}: {written.num_records:,} requests, sha256 {written.sha256}")
    print("\n".join(account_lines(trace.account(), options)))
    return 0


VERBS: Final = MappingProxyType({
    "generate": Verb("Make a workload and its manifest from settings.", generate),
    "validate": Verb("Check a workload strictly, and its manifest.", validate),
    "describe": Verb("Print counts, lengths, gaps and sharing of a workload.", describe),
    "import": Verb("Make a workload out of a published trace or a journal.", import_any),
})


def _overview() -> LineParser:
    width = max(map(len, VERBS))
    return LineParser(
        prog="arriero workload",
        usage="arriero workload [--help | VERB ...]",
        description="Workloads: who asks for how much and when.",
        epilog="\n".join([
            "verbs:",
            *(f"  {name:<{width}}  {verb.says}" for name, verb in VERBS.items()),
            "",
            "`arriero workload VERB --help` tells the rest.",
        ]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def _import_parser() -> LineParser:
    parser = make_parser("workload import", VERBS["import"].says)
    parser.add_argument("trace", choices=["azure", "mooncake"], help="which trace it is; or `journal FILE`")
    parser.add_argument("file", metavar="FILE", help="the trace, plain or .xz")
    add_output(parser)
    parser.add_argument("--scale", type=positive, metavar="N", default=1, help="divide lengths by N, rounded up")
    parser.add_argument("--output-scale", type=positive, metavar="N", help="divide outputs by N (default: as --scale)")
    parser.add_argument("--speed", type=factor, metavar="X", default=Fraction(1), help="divide arrival times by X")
    parser.add_argument("--limit", type=count, metavar="N", help="take the first N rows")
    parser.add_argument(
        "--context", type=positive, metavar="N", help="leave out and count what is longer, prompt and output together"
    )
    parser.add_argument("--unverified", action="store_true", help="take a file that is not the published one")
    parser.add_argument("--first-token", type=count, metavar="N", default=1000, help="least token id (default: 1000)")
    parser.add_argument(
        "--vocab-size", type=positive, metavar="N", default=30_000, help="how many token ids (default: 30000)"
    )
    return parser


def _settings(flags: argparse.Namespace) -> Mapping[str, Any]:
    from arriero.workload.catalogue import named_config
    from arriero.workload.strict import read_settings

    path = Path(flags.config)
    if path.suffix.lower() in {".json", ".toml"} or path.exists():
        settings = read_settings(path)
        changes = {"request_count": flags.count, "seed": flags.seed}
    else:
        settings = named_config(flags.config, flags.count)
        changes = {"seed": flags.seed}
    return {**settings, **{name: value for name, value in changes.items() if value is not None}}


@contextmanager
def _named(file: str) -> Generator[None]:
    """Give errors that do not know their file its name."""
    try:
        yield
    except BadWorkload as error:
        raise BadWorkload(str(error), file=error.file or file, line=error.line, field=error.field) from None
