"""Work: the requests that a schedule is made of, from a workload file, a generator, or two lengths."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count as count_from
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from arriero.core.errors import BadWorkload, ConfigError
from arriero.record.lab_config import config_sha256
from arriero.workload.amounts import Constant
from arriero.workload.arrivals import Constant as EvenArrivals
from arriero.workload.catalogue import Recipe, named_config, recipe
from arriero.workload.files import read_workload
from arriero.workload.notes import KEY, check_notes, notes_of
from arriero.workload.records import SCHEMA, WorkloadClass, WorkloadRecord, numbered
from arriero.workload.settings import GENERATOR, ComposedConfig
from arriero.workload.strict import read_settings

Records: TypeAlias = tuple[WorkloadRecord, ...]

_LENGTHS: Final = re.compile(r"([1-9]\d{0,6})x([1-9]\d{0,6})", re.ASCII)
_USUAL_COUNT: Final = 100
_SETTINGS_SUFFIXES: Final = frozenset({".json", ".toml"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Requests, in the order of their arrivals.

    Attributes:
        name: of the file, or of the generator's settings.
        records: as many as were asked for, or as there are.
        sha256: of the file's bytes, or of the settings.
        settings: of the generator; None for a file.
        more: makes so many; None for a file, which has what it has.
    """

    name: str
    records: Records
    sha256: str
    settings: Mapping[str, Any] | None = None
    more: Callable[[int], Records] | None = None

    def take(self, count: int, *, repeat: bool = False) -> Records:
        """The first so many requests.

        Raises:
            ConfigError: there are fewer, and none may be asked twice.
        """
        if count <= len(self.records):
            return self.records[:count]
        if self.more is not None:
            return self.more(count)
        if not repeat or not self.records:
            raise ConfigError(
                f"{self.name}: has {len(self.records):,} requests and the run needs {count:,}; "
                "use a larger workload, or --repeat to send the same ones again"
            )
        return self.records + repeated(self.records, count - len(self.records))


def load_work(source: str, *, count: int | None = None, seed: int | None = None) -> Work:
    """The requests that a word names.

        FILE.jsonl           a workload file
        FILE.toml, FILE.json settings of a generator
        120x64               so many prompt tokens, so many output tokens, 100 requests unless told otherwise
        chat, burst, ...     a workload with a name

    Args:
        source: the word.
        count: for a generator, how many it makes; None: as its settings say.
        seed: for a generator, instead of the seed in its settings.

    Raises:
        BadWorkload: the file cannot be used, or there is no such name.
    """
    path = Path(source)
    if (lengths := _LENGTHS.fullmatch(source)) is not None and not path.exists():
        return fixed_work(
            prompt_tokens=int(lengths[1]),
            max_tokens=int(lengths[2]),
            count=_USUAL_COUNT if count is None else count,
            seed=0 if seed is None else seed,
        )
    if path.suffix.lower() not in _SETTINGS_SUFFIXES and path.exists():
        return _from_file(path)
    is_settings = path.suffix.lower() in _SETTINGS_SUFFIXES
    if not is_settings and path.suffix.lower() == ".jsonl":
        return _from_file(path)  # complains that there is none
    settings = read_settings(path) if is_settings else named_config(source, count)
    changes = {"request_count": count, "seed": seed}
    settings = {**settings, **{name: value for name, value in changes.items() if value is not None}}
    return _from_settings(path.stem if is_settings else source, settings, file=source)


def fixed_work(*, prompt_tokens: int, max_tokens: int, count: int, seed: int = 0) -> Work:
    """Requests that are all of one length; prompts are made when they are scheduled."""
    config = ComposedConfig(
        schema_version=SCHEMA,
        generator=GENERATOR,
        workload_class=WorkloadClass.CHAT,
        request_count=count,
        seed=seed,
        arrival=EvenArrivals(interval_us=1_000_000),
        prompt_length=Constant(value=prompt_tokens),
        output_length=Constant(value=max_tokens),
    )
    settings: dict[str, Any] = msgspec.to_builtins(config)
    return _from_settings(f"{prompt_tokens}x{max_tokens}", settings, file=None)


def repeated(records: Sequence[WorkloadRecord], count: int) -> Records:
    """So many more requests: the same ones again, later, under ids of their own.

    A request of round r is named `ID~r`, and so are conversations and what is followed, so that each round is one of
    its own. A round begins one mean gap after the end of the round before.
    """
    arrivals = [record.arrival_time_us for record in records]
    gap = max(1, (max(arrivals) - min(arrivals)) // max(1, len(records) - 1))
    span = max(arrivals) - min(arrivals) + gap
    again = (_renamed(record, number, span * (number - 1)) for number in count_from(2) for record in records)
    return tuple(record for _, record in zip(range(count), again, strict=False))


def _renamed(record: WorkloadRecord, number: int, later_us: int) -> WorkloadRecord:
    notes = notes_of(record)
    metadata = dict(record.metadata or {})
    if KEY in metadata:
        names = {"session_id": notes.session_id, "follows": notes.follows}
        metadata[KEY] = {
            **metadata[KEY],
            **{name: f"{value}~{number}" for name, value in names.items() if value is not None},
        }
    return msgspec.structs.replace(
        record,
        request_id=f"{record.request_id}~{number}",
        arrival_time_us=record.arrival_time_us + later_us,
        metadata=metadata or None,
    )


def _from_file(path: Path) -> Work:
    workload = read_workload(path)
    try:
        check_notes(workload.records)
    except BadWorkload as error:
        raise BadWorkload(str(error), file=str(path), field=error.field) from None
    return Work(name=path.name, records=tuple(numbered(workload.records)), sha256=workload.sha256)


def _from_settings(name: str, settings: Mapping[str, Any], *, file: str | None) -> Work:
    made = recipe(settings, file=file)

    def more(count: int) -> Records:
        return _records(recipe({**settings, "request_count": count}, file=file))

    return Work(
        name=name,
        records=_records(made),
        sha256=config_sha256(dict(settings)),
        settings=dict(settings),
        more=more,
    )


def _records(made: Recipe) -> Records:
    return tuple(numbered(made.make()))
