"""Workload files under any content, any damage, and any settings."""

import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from arriero.core.errors import BadWorkload
from arriero.workload.catalogue import recipe
from arriero.workload.files import Workload, read_workload, write_workload
from arriero.workload.lines import decode_line, encode_line
from arriero.workload.records import COUNT_MAX, WorkloadClass, WorkloadRecord
from arriero.workload.summary import sharing_of
from arriero.workload.tokens import TOKEN_MAX, TOKEN_MIN, PackedTokens

counts = st.integers(0, COUNT_MAX)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
ids = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\t\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"),
    min_size=1,
    max_size=8,
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def records(draw: st.DrawFn) -> WorkloadRecord:
    tokens = draw(st.none() | st.lists(st.integers(TOKEN_MIN, TOKEN_MAX), max_size=6))
    return WorkloadRecord(
        request_id=draw(ids),
        arrival_time_us=draw(counts),
        prompt_token_count=draw(counts) if tokens is None else len(tokens),
        max_new_tokens=draw(counts),
        workload_class=draw(st.sampled_from(WorkloadClass)),
        prompt_tokens=None if tokens is None else PackedTokens(tokens),
        prefix_group=draw(st.none() | texts.filter(bool)),
        deadline_us=draw(st.none() | counts),
        metadata=draw(st.none() | st.dictionaries(texts, anything, max_size=3)),
    )


workloads = st.lists(records(), max_size=6, unique_by=lambda record: record.request_id)


@given(records())
def test_a_line_is_what_the_standard_library_writes_and_reads_back_as_itself(record: WorkloadRecord) -> None:
    line = encode_line(record)
    values = json.loads(line)
    assert line == json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    assert decode_line(line) == record
    loose = json.dumps(values).encode()  # another spelling of the same record
    assert decode_line(loose) == record


@given(workloads)
def test_a_file_reads_back_as_it_was_written(written: list[WorkloadRecord]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "w.jsonl"
        account = write_workload(path, written)
        workload = read_workload(path)
    assert list(workload.records) == written
    assert workload.sha256 == account.sha256


def _drop(values: dict[str, Any], draw: st.DataObject) -> bytes:
    required = [name for name in values if name not in {"prompt_tokens", "prefix_group", "deadline_us", "metadata"}]
    dropped = draw.draw(st.sampled_from(required))
    return _dump({name: values[name] for name in values if name != dropped})


def _retype(values: dict[str, Any], draw: st.DataObject) -> bytes:
    name = draw.draw(st.sampled_from([name for name in sorted(values) if name != "metadata"]))
    return _dump({**values, name: draw.draw(st.sampled_from([None, True, -0.5, {}]))})


def _repeat(values: dict[str, Any], draw: st.DataObject) -> bytes:
    name = draw.draw(st.sampled_from(sorted(values)))
    return _dump(values)[:-1] + f",{json.dumps(name)}:{json.dumps(values[name])}}}".encode()


def _extend(values: dict[str, Any], draw: st.DataObject) -> bytes:
    name = draw.draw(texts.filter(lambda text: text not in values and text not in WorkloadRecord.__struct_fields__))
    return _dump({**values, name: 1})


def _cut(values: dict[str, Any], draw: st.DataObject) -> bytes:
    line = _dump(values)
    return line[: draw.draw(st.integers(0, len(line) - 1))]


def _spoil(values: dict[str, Any], draw: st.DataObject) -> bytes:
    line = _dump(values)
    at = draw.draw(st.integers(0, len(line)))
    return line[:at] + draw.draw(st.sampled_from([b"\xff", b"\x00", b"\x01"])) + line[at:]


def _dump(values: dict[str, Any]) -> bytes:
    return json.dumps(values, ensure_ascii=False).encode()


@pytest.mark.parametrize("damage", [_drop, _retype, _repeat, _extend, _cut, _spoil], ids=lambda each: each.__name__)
@given(written=workloads.filter(bool), data=st.data())
def test_damage_is_an_error_that_names_its_line(
    damage: Callable[[dict[str, Any], st.DataObject], bytes], written: list[WorkloadRecord], data: st.DataObject
) -> None:
    lines = [encode_line(record) for record in written]
    number = data.draw(st.integers(1, len(lines)))
    lines[number - 1] = damage(json.loads(lines[number - 1]), data)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "w.jsonl"
        path.write_bytes(b"\n".join(lines) + b"\n")
        with pytest.raises(BadWorkload) as caught:
            read_workload(path)
    assert str(caught.value).startswith(f"JSONL line {number}: ")
    assert caught.value.line == number


@given(written=workloads.filter(bool), data=st.data())
def test_one_changed_byte_is_an_error_at_its_line_or_changes_the_hash(
    written: list[WorkloadRecord], data: st.DataObject
) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "w.jsonl"
        sha256 = write_workload(path, written).sha256
        raw = bytearray(path.read_bytes())
        at = data.draw(st.integers(0, len(raw) - 1))
        byte = data.draw(st.integers(0, 255))
        assume(byte != raw[at])
        number = raw[:at].count(b"\n") + 1
        raw[at] = byte
        path.write_bytes(raw)
        found = _outcome(path)
    if isinstance(found, BadWorkload):
        # a changed id may equal a later one, which is then the second
        assert found.line is not None
        assert found.line == number or (found.line > number and found.field == "request_id")
    else:
        assert found.sha256 != sha256


def _outcome(path: Path) -> Workload | BadWorkload:
    try:
        return read_workload(path)
    except BadWorkload as error:
        return error


@given(st.lists(st.lists(st.integers(0, 2), max_size=5), max_size=8))
def test_sharing_is_the_longest_beginning_that_an_earlier_prompt_has(prompts: list[list[int]]) -> None:
    expected = 0
    for index, prompt in enumerate(prompts):
        lengths = [
            length
            for length in range(len(prompt) + 1)
            if any(earlier[:length] == prompt[:length] and len(earlier) >= length for earlier in prompts[:index])
        ]
        expected += max(lengths, default=0)
    found = sharing_of([
        WorkloadRecord(
            request_id=str(index),
            arrival_time_us=index,
            prompt_token_count=len(prompt),
            max_new_tokens=1,
            workload_class=WorkloadClass.CHAT,
            prompt_tokens=PackedTokens(prompt),
        )
        for index, prompt in enumerate(prompts)
    ])
    assert found.shared_tokens == expected


lengths = st.one_of(
    st.builds(lambda value: {"distribution": "constant", "value": value}, st.integers(0, 9)),
    st.builds(
        lambda low, more: {"distribution": "uniform", "low": low, "high": low + more},
        st.integers(0, 9),
        st.integers(0, 9),
    ),
    st.just({"distribution": "lognormal", "mu": 2.0, "sigma": 1.0, "high": 30}),
    st.just({"distribution": "exponential", "mean": 4}),
    st.just({"distribution": "empirical", "values": [0, 3, 8], "weights": [1, 1, 2]}),
)
open_arrivals = st.sampled_from([
    {"mode": "poisson", "rate_per_s": 1000},
    {"mode": "gamma", "rate_per_s": 1000, "burstiness": 2.5},
    {"mode": "constant", "interval_us": 3},
    {"mode": "burst", "burst_size": 3, "interval_us": 10},
])

closed_loops = st.builds(
    lambda think: {"mode": "closed_loop", "num_clients": 2, "think_time_us": think},
    lengths,
)


@st.composite
def settings_of_any_shape(draw: st.DrawFn) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "schema_version": "serving-workload-v1",
        "generator": "arriero-composed-v1",
        "workload_class": "chat",
        "seed": draw(st.integers(0, 2**40)),
        "arrival": draw(open_arrivals | closed_loops),
        "prompt_length": draw(lengths),
        "output_length": draw(lengths),
    }
    if draw(st.booleans()):
        settings["tokens"] = {"first_token": 0, "size": 7}
        if draw(st.booleans()):
            settings["families"] = {"count": 3, "prefix_length": draw(lengths), "popularity_exponent": 0.7}
    if settings["arrival"]["mode"] != "closed_loop" and draw(st.booleans()):
        settings["sessions"] = {
            "turns": draw(lengths),
            "think_time_us": draw(lengths),
            "answer_us_per_token": draw(st.integers(0, 3)),
            "pacing": draw(st.sampled_from(["schedule", "answer"])),
            "prompt_limit": draw(st.none() | st.integers(1, 40)),
        }
    return settings


@given(settings=settings_of_any_shape(), fewer=st.integers(0, 30), more=st.integers(0, 30))
def test_generators_are_deterministic_stable_in_their_beginning_and_valid(
    settings: dict[str, Any], fewer: int, more: int
) -> None:
    short = list(recipe({**settings, "request_count": fewer}).make())
    long = list(recipe({**settings, "request_count": fewer + more}).make())
    assert len(long) == fewer + more
    assert long[:fewer] == short
    for record in long:
        assert decode_line(encode_line(record)) == record
    assert len({record.request_id for record in long}) == len(long)
