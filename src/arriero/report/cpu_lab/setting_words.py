"""Settings in words: only what differs within a report stands in its tables and legends; the rest is said once."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from arriero.record.bench_parts import Evidence
from arriero.record.cpu_lab.run_key import FIELDS, KV_FIELDS, RunKey, differing

_HASH: Final = 8


class Shown(NamedTuple):
    """One field of a setting, or two that are read as one."""

    label: str
    unit: str  # around the value in a legend: `{} threads`
    is_number: bool
    text: Callable[[RunKey], str]

    def words(self, key: RunKey) -> str:
        """The value as a legend says it."""
        value = self.text(key)
        return self.unit.format(value).removesuffix("s" if value == "1" else "")


def _written(value: object) -> str:
    match value:
        case None:
            return "unknown"
        case bool():
            return "on" if value else "off"
        case int():
            return f"{value:,}"
        case _:
            return str(value)


def _plain(name: str) -> Callable[[RunKey], str]:
    """The text of a field as it is."""

    def text(key: RunKey) -> str:
        return _written(getattr(key, name))

    return text


def _short_hash(key: RunKey) -> str:
    return (key.model_sha256 or "unknown")[:_HASH]


def _kv(key: RunKey) -> str:
    return key.kv


_WORDS: Final = (
    ("evidence", "evidence", "{}"),
    ("executor", "measured by", "{}"),
    ("machine", "environment", "on {}"),
    ("library", "build", "build {}"),
    ("model", "model", "{}"),
    ("model_sha256", "sha256", "{}"),
    ("weights", "format", "{}"),
    ("threads", "threads", "{} threads"),
    ("batch_threads", "batch threads", "{} batch threads"),
    ("prompt_tokens", "prompt (tokens)", "prompt {}"),
    ("generated_tokens", "generated (tokens)", "{} generated"),
    ("context_size", "context (tokens)", "context {}"),
    ("batch_size", "batch (rows)", "batch {}"),
    ("micro_batch", "micro-batch (rows)", "micro-batch {}"),
    ("kv_key", "KV", "KV {}"),
    ("flash_attention", "flash attention", "flash attention {}"),
    ("mmap", "mmap", "mmap {}"),
)
"""Field, its label in a table, and how its value is said in a legend."""

_NUMBERS: Final = frozenset({
    "threads", "batch_threads", "prompt_tokens", "generated_tokens", "context_size", "batch_size", "micro_batch",
})  # fmt: skip
_TEXTS: Final[Mapping[str, Callable[[RunKey], str]]] = MappingProxyType({"model_sha256": _short_hash, "kv_key": _kv})
_SHOWN: Final[Mapping[str, Shown]] = MappingProxyType({
    name: Shown(label, unit, is_number=name in _NUMBERS, text=_TEXTS.get(name) or _plain(name))
    for name, label, unit in _WORDS
})


class Wording:
    """How the settings of one report are told apart; made once from all of them, so that tables agree."""

    def __init__(self, keys: Iterable[RunKey]) -> None:
        """Look at every key of the report."""
        self._keys = tuple(dict.fromkeys(keys))
        self._varied = _varied(self._keys)

    def columns(self, leave_out: Iterable[str] = ()) -> tuple[Shown, ...]:
        """Fields that differ, but for those that stand in columns of their own."""
        dropped = set(leave_out)
        return tuple(_SHOWN[name] for name in self._varied if name not in dropped)

    def words(self, key: RunKey, leave_out: Iterable[str] = ()) -> str:
        """One setting for a legend; empty if nothing differs."""
        return ", ".join(each.words(key) for each in self.columns(leave_out))

    def constants(self) -> tuple[tuple[str, str], ...]:
        """Fields that are the same everywhere, with their value."""
        first = self._keys[0]
        differ = set(differing(self._keys))  # what is not shown may differ all the same
        names = [name for name in FIELDS if name in _SHOWN and name not in differ]
        if differ & KV_FIELDS and "kv_key" in names:
            names.remove("kv_key")
        if all(key.threads == key.batch_threads for key in self._keys) and "batch_threads" in names:
            names.remove("batch_threads")
        return tuple((_SHOWN[name].label, _SHOWN[name].text(first)) for name in names)

    def evidence(self, keys: Iterable[RunKey]) -> str:
        """The label of a table that shows these."""
        kinds: list[Evidence] = list(dict.fromkeys(key.evidence for key in keys))
        return " and ".join(kind.value for kind in kinds)


def _varied(keys: Sequence[RunKey]) -> tuple[str, ...]:
    """Names of `_SHOWN` that differ; what only repeats another field is left out."""
    found = set(differing(keys))
    if found & {"kv_key", "kv_value"}:
        found = (found - {"kv_value"}) | {"kv_key"}
    if all(key.threads == key.batch_threads for key in keys):
        found.discard("batch_threads")
    if len({(key.model, key.model_sha256) for key in keys}) == len({key.model for key in keys}):
        found.discard("model_sha256")  # the name tells them apart
    if all(key.weights.upper() in key.model.upper() for key in keys):
        found.discard("weights")  # the name says it
    return tuple(name for name in _SHOWN if name in found)
