"""The manifest beside a workload: what made it, from which settings, and the hash of its bytes."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from arriero.core.errors import BadWorkload
from arriero.workload import published
from arriero.workload.catalogue import OURS, Recipe, recipe
from arriero.workload.files import Workload
from arriero.workload.notes import check_notes
from arriero.workload.published import Count, PublishedArrival
from arriero.workload.records import SCHEMA, WorkloadClass, WorkloadRecord
from arriero.workload.strict import convert, read_settings

MANIFEST_SCHEMA: Final = "serving-workload-manifest-v1"
_Sha256 = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fields of the file, all required.

    Attributes:
        generator: what made the workload; the names that `catalogue.recipe` knows can be made again.
        generator_config: its settings; those of a foreign generator hold at least what is checked here.
        timestamp: always null, so that the same settings give the same bytes.
        workload_sha256: of the workload file's bytes.
    """

    schema_version: Literal["serving-workload-manifest-v1"]
    workload_schema_version: Literal["serving-workload-v1"]
    workload_class: WorkloadClass
    request_count: Count
    seed: Count
    generator_config: dict[str, Any]
    generator: Annotated[str, Meta(min_length=1)]
    timestamp: None
    workload_sha256: _Sha256


class _ConfigHead(msgspec.Struct, frozen=True, kw_only=True):
    """What the settings of every generator hold."""

    schema_version: Literal["serving-workload-v1"]
    workload_class: WorkloadClass
    request_count: Count
    seed: Count


class _ArrivalHead(msgspec.Struct, frozen=True, kw_only=True):
    arrival: PublishedArrival


def manifest_of(made: Recipe, sha256: str) -> Manifest:
    """The manifest of a workload that a recipe made."""
    return make_manifest(made.generator, made.config, sha256)


def make_manifest(generator: str, config: Mapping[str, Any], sha256: str) -> Manifest:
    """A manifest; class, count and seed are those of the settings.

    Raises:
        BadWorkload: the settings lack one of them.
    """
    head = convert(config, _ConfigHead)
    return Manifest(
        schema_version=MANIFEST_SCHEMA,
        workload_schema_version=SCHEMA,
        workload_class=head.workload_class,
        request_count=head.request_count,
        seed=head.seed,
        generator_config=dict(config),
        generator=generator,
        timestamp=None,
        workload_sha256=sha256,
    )


def encode_manifest(manifest: Manifest) -> bytes:
    """The bytes of the file."""
    values = msgspec.structs.asdict(manifest)
    return f"{json.dumps(values, indent=2, sort_keys=True)}\n".encode()


def read_manifest(path: Path) -> Manifest:
    """Read a file.

    Raises:
        BadWorkload: a field is missing, unknown or has another type.
    """
    return convert(read_settings(path), Manifest, file=str(path))


def check_manifest(
    manifest: Manifest, workload: Workload, *, run_seed: int | None = None, file: str | None = None
) -> None:
    """Whether a manifest says the truth about a workload.

    The arrivals are made again from the settings; if the generator is known here, all records are.

    Args:
        manifest: as read.
        workload: as read, in the order of its file.
        run_seed: the seed of the run that is to use them, if there is one.
        file: the manifest's path, named in errors.

    Raises:
        BadWorkload: the first statement that is not so.
    """
    records = workload.records
    head = convert(manifest.generator_config, _ConfigHead, file=file, below="generator_config")
    for field, said, found in (
        ("request_count", manifest.request_count, len(records)),
        ("workload_sha256", manifest.workload_sha256, workload.sha256),
        ("generator_config.workload_class", str(head.workload_class), str(manifest.workload_class)),
        ("generator_config.request_count", head.request_count, manifest.request_count),
        ("generator_config.seed", head.seed, manifest.seed),
        ("seed", manifest.seed, manifest.seed if run_seed is None else run_seed),
    ):
        if said != found:
            raise _wrong(field, f"is {said}, but should be {found}", file)
    for number, record in enumerate(records, start=1):
        if record.workload_class != manifest.workload_class:
            raise _wrong("workload_class", f"line {number} of the workload is {record.workload_class}", file)
    check_notes(records)
    _check_made_again(manifest, records, file)


def sha256_of(path: Path) -> str:
    """The hash of a file's bytes, lower case.

    Raises:
        BadWorkload: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise BadWorkload(f"{reason}; name a file that can be read", file=str(path)) from None


def _check_made_again(manifest: Manifest, records: Sequence[WorkloadRecord], file: str | None) -> None:
    if manifest.generator == published.GENERATOR or manifest.generator in OURS:
        made = recipe(manifest.generator_config, file=file, below="generator_config")
        if made.generator != manifest.generator:
            raise _wrong("generator", f"its settings are those of {made.generator}", file)
        _check_same(made.make(), records, file)
        return
    # A workload from elsewhere: only its arrivals can be made again, in one of the published ways.
    head = convert(manifest.generator_config, _ArrivalHead, file=file, below="generator_config")
    times = published.arrivals(head.arrival, manifest.request_count, manifest.seed)
    for number, (record, time_us) in enumerate(zip(records, times, strict=True), start=1):
        if record.arrival_time_us != time_us:
            reason = f"line {number} of the workload arrives at {record.arrival_time_us} us and not at {time_us} us"
            raise _wrong("generator_config.arrival", reason, file)


def _check_same(made: Iterator[WorkloadRecord], records: Sequence[WorkloadRecord], file: str | None) -> None:
    for number, (expected, record) in enumerate(zip_longest(made, records), start=1):
        if expected != record:
            reason = f"line {number} of the workload is not what these settings make"
            raise _wrong("generator_config", reason, file)


def _wrong(field: str, reason: str, file: str | None) -> BadWorkload:
    return BadWorkload(f"{field}: {reason}; make workload and manifest again together", file=file, field=field)
