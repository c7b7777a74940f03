"""The form of a journal: one way to write each record, nothing private, and every kind of damage told with its line."""

import dataclasses
import json
import re
from pathlib import Path

import msgspec
import pytest

from arriero.core.errors import BadJournal
from arriero.core.events import CancelById
from arriero.core.ids import Epoch, RequestId
from arriero.core.request import Request
from arriero.kv.reuse import ReuseRules
from arriero.record.journal import JournalEnd, JournalLines, chained_crc, encode_record
from arriero.record.journal_parts import AnswerRow
from arriero.record.journal_reader import read_journal, read_lines
from arriero.record.journal_schema import EndRecord, GapRecord, JournalRecord, StartRecord, StepRecord, TimeLine
from arriero.record.journal_setup import (
    CellsSetup,
    DecodeFirstSetup,
    FirstComeSetup,
    HolesSetup,
    LimitsSetup,
    LowestFirstSetup,
    ReuseSetup,
    Setup,
)
from arriero.scheduler.holes import Closed
from arriero.sim.composition import build_scheduler
from arriero.sim.journal import journal_lines
from arriero.sim.simulator import Cancellation, Message, Simulator, Submission
from arriero.testing.simulation import CountingAnswers, LinearCost

SETUP = Setup(
    kv=CellsSetup(num_cells=64, num_sequences=2, sequence_limit=32, unified=False),
    ids=LowestFirstSetup(),
    planner=DecodeFirstSetup(),
    policy=FirstComeSetup(),
    limits=LimitsSetup(num_rows=16, prefill_rows_per_seq=None, prefill_rows_per_step=None, headroom_per_sequence=8),
)
SECRETS = (731_001, 731_002, 731_003)
SESSION = "a name that a caller chose"


def request(number: int, *, at: float = 0) -> Request:
    return Request(
        request_id=RequestId(number),
        prompt=SECRETS[: 1 + number % 3],
        max_tokens=3,
        arrival_at=at,
        epoch=Epoch(number),
        end_tokens=frozenset({731_002}),
        session_id=SESSION,
    )


MESSAGES: list[Message] = [
    *(Submission(request(number, at=10 * number)) for number in range(1, 6)),
    Cancellation(CancelById(RequestId(4)), 60),
]


def journal(messages: list[Message] | None = None) -> list[bytes]:
    simulator = Simulator(
        scheduler=build_scheduler(SETUP),
        cost=LinearCost(10, per_decode_row=1, per_prefill_row=2),
        answers=CountingAnswers(lambda _: 731_002),
        check=True,
    )
    return list(journal_lines(simulator.run(MESSAGES if messages is None else messages), SETUP))


def resealed(lines: list[bytes], number: int, **changes: object) -> list[bytes]:
    """The same journal with fields of one record changed, and all check sums made anew."""
    records: list[JournalRecord] = [line.record for line in read_lines(lines)]
    records[number - 1] = msgspec.structs.replace(records[number - 1], **changes)
    return sealed(records)


def sealed(records: list[JournalRecord]) -> list[bytes]:
    """Lines with check sums that fit."""
    lines, last = list[bytes](), 0
    for record in records:
        last = chained_crc(record, 0 if isinstance(record, StartRecord) else last)
        lines.append(encode_record(msgspec.structs.replace(record, crc=last)))
    return lines


def refused(lines: list[bytes]) -> str:
    with pytest.raises(BadJournal) as error:
        list(read_lines(lines))
    message = str(error.value)
    assert "\n" not in message
    if error.value.line is not None:
        assert message.startswith(f"line {error.value.line}: ")
    return message


def test_the_same_run_gives_the_same_bytes_with_sorted_keys_and_no_spaces() -> None:
    lines = journal()
    assert lines == journal()
    for line in lines:
        assert line == json.dumps(json.loads(line), sort_keys=True, separators=(",", ":")).encode()


def test_what_was_written_is_read_back() -> None:
    lines = journal()
    records = [line.record for line in read_lines(line + b"\n" for line in lines)]
    assert [encode_record(record) for record in records] == lines
    assert isinstance(records[0], StartRecord)
    assert records[0].setup == SETUP
    assert isinstance(records[-1], EndRecord)
    assert all(isinstance(record, StepRecord) for record in records[1:-1])


def test_a_journal_holds_no_token_and_no_name() -> None:
    text = b"\n".join(journal()).decode()
    numbers = set(re.findall(r"\d+", re.sub(r'"crc":\d+', "", text)))
    assert numbers.isdisjoint(map(str, SECRETS))
    assert SESSION not in text


def test_end_tokens_are_told_from_ordinary_ones() -> None:
    records = (line.record for line in read_lines(journal()))
    outcomes = [record.outcome for record in records if isinstance(record, StepRecord) and record.outcome]
    assert outcomes[0].ends == (0,)


def test_times_of_the_float_line_keep_their_fraction() -> None:
    lines = JournalLines()
    end = JournalEnd(ended_at=49.999999999999986)
    records = [lines.start(SETUP, TimeLine.MILLISECONDS), *lines.end(end)]
    last = list(read_lines(records))[-1].record
    assert isinstance(last, EndRecord)
    assert last.ended_at == 49.999999999999986


def test_a_file_may_hold_several_runs_one_without_an_end() -> None:
    first, second = journal()[:-1], journal()
    assert len(list(read_lines(first + second))) == len(first) + len(second)


def test_a_gap_is_a_record_like_others() -> None:
    lines = JournalLines()
    read = list(read_lines([lines.start(SETUP, TimeLine.MICROSECONDS), lines.gap(7)]))
    assert read[1].record == GapRecord(crc=read[1].record.crc, dropped=7)


# ── damage ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("cut", [1, 20, -1])
def test_a_line_that_was_cut_is_told(cut: int) -> None:
    lines = journal()
    lines[3] = lines[3][:cut]
    assert refused(lines).startswith("line 4: damaged (")


@pytest.mark.parametrize("field", [b'"num_waiting":', b'"ended_at":', b'"decode_time":', b'"crc":'])
def test_a_number_that_was_edited_is_told(field: bytes) -> None:
    lines = journal()
    lines[2] = lines[2].replace(field, field + b"1", 1)
    assert refused(lines).startswith("line 3: the check sum is wrong")


def test_a_line_that_is_missing_or_stands_twice_is_told() -> None:
    lines = journal()
    assert refused(lines[:3] + lines[4:]).startswith("line 4: the check sum is wrong")
    assert refused(lines[:4] + lines[3:]).startswith("line 5: the check sum is wrong")


def test_the_same_record_in_another_form_is_told() -> None:
    lines = journal()
    lines[1] = lines[1].replace(b",", b", ")
    assert refused(lines) == "line 2: was not written by arriero in this form; restore the file"


def test_another_schema_is_told_even_if_it_has_other_fields() -> None:
    lines = journal()
    lines[0] = b'{"kind":"start","schema":1,"what":"else"}'
    assert refused(lines) == "line 1: schema 1, and only 2 can be read; use the arriero that wrote it"
    assert refused(resealed(journal(), 1, schema=3)).startswith("line 1: schema 3, and only 2 can be read")


def test_an_unknown_field_and_a_wrong_type_are_told() -> None:
    lines = journal()
    assert "unknown field `more`" in refused([lines[0], lines[1].replace(b'{"began_at"', b'{"more":1,"began_at"')])
    assert "expected `int`, got `str` - at `$.plan.step`" in refused([
        lines[0],
        re.sub(rb'"step":\d+', b'"step":"x"', lines[1]),
    ])


def test_a_file_that_is_no_journal_is_told() -> None:
    assert refused([b"hello"]).startswith("line 1: damaged (")
    assert refused([b"{}"]).startswith("line 1: no record of a journal (")
    assert refused([]).startswith("is empty")
    assert refused(journal()[1:]).startswith("line 1: a journal begins with a record of kind start")


def test_nothing_but_a_start_follows_an_end() -> None:
    lines = journal()
    assert refused([*lines, lines[1]]).startswith(f"line {len(lines) + 1}: what comes after an end begins with")


def test_time_that_goes_back_is_told() -> None:
    assert refused(resealed(journal(), 4, began_at=1)).startswith("line 4: time goes back from")


def test_an_outcome_without_its_time_is_told() -> None:
    assert "go together" in refused(resealed(journal(), 3, committed_at=None))


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadJournal, match="no such file or directory; name a journal") as error:
        list(read_journal(tmp_path / "none.jsonl"))
    assert error.value.file == str(tmp_path / "none.jsonl")


def test_every_field_of_a_record_has_its_line_in_the_document(root: Path) -> None:
    page = (root / "docs" / "journal.md").read_text(encoding="utf-8")
    for record in (StartRecord, StepRecord, GapRecord, EndRecord):
        kind = record.__struct_config__.tag
        section = page.partition(f"## kind `{kind}`")[2].partition("\n## ")[0]
        named = set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))
        assert set(record.__struct_fields__) - {"crc"} <= named, kind


def test_the_rules_of_reuse_are_written_in_full() -> None:
    rules = {field.name for field in dataclasses.fields(ReuseRules)}
    assert set(ReuseSetup.__struct_fields__) == rules
    assert set(HolesSetup.__struct_fields__) == {field.name for field in dataclasses.fields(Closed)}


def test_an_answer_is_described_when_its_sequence_is_given_back() -> None:
    requests = [dataclasses.replace(request(number), end_tokens=frozenset()) for number in (3, 6)]
    records = [line.record for line in read_lines(journal([Submission(each) for each in requests]))]
    answers = [row for record in records if isinstance(record, StepRecord) for row in record.answers]
    assert answers == [AnswerRow(1, None, 1, 3), AnswerRow(2, 1, 4, 0)], "both say the same after the same prompt"
