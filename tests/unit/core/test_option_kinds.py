"""Each kind of value reads what it writes, and refuses the rest with a remedy."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.core.choices import PolicyWord
from arriero.core.option import plain, text
from arriero.core.option_kinds import (
    BadValue,
    Bytes,
    Cap,
    Kind,
    Numbers,
    Real,
    RealCap,
    Switch,
    Text,
    Texts,
    ThreadCounts,
    Whole,
    WordOrClass,
)


@pytest.mark.parametrize(
    ("kind", "written", "value"),
    [
        (Whole(), " 12 ", 12),
        (Whole(-1), "-1", -1),
        (Cap(), "0", None),
        (Cap(), "7", 7),
        (Bytes(1024), "1k", 1024),
        (Bytes(1024), "2M", 2 << 20),
        (Bytes(1024), "1G", 1 << 30),
        (Real(), "0.5", 0.5),
        (RealCap("S"), "0", None),
        (RealCap("S"), "2.5", 2.5),
        (WordOrClass(PolicyWord), " FCFS ", "fcfs"),
        (WordOrClass(PolicyWord), "my.orders:Mine", "my.orders:Mine"),
        (Switch(), "Yes", True),
        (Switch(), "off", False),
        (Numbers(), "0,2-4", (0, 2, 3, 4)),
        (Numbers(may_be_empty=True), "none", ()),
        (Texts("KEY"), "a, b", ("a", "b")),
    ],
)
def test_text_is_read(kind: Kind, written: str, value: object) -> None:
    assert kind.parse(written) == value


@pytest.mark.parametrize(
    ("kind", "written", "remedy"),
    [
        (Whole(), "many", "not a whole number; give one of 0 or more"),
        (Whole(), "1.5", "not a whole number"),
        (Whole(1), "0", "too low; use 1 or more"),
        (Whole(1, 9), "10", "too high; use 9 or fewer"),
        (Whole(1, 9, "we have nine"), "10", "we have nine; use 9 or fewer"),
        (Cap(), "-1", "too low; use 0 or more"),
        (Bytes(1024), "1T", "not a size; give bytes, such as 1048576 or 1M"),
        (Bytes(1024), "1", "too low; use 1024 or more"),
        (Real(), "soon", "not a number; give one of 0 or more, such as 0.5"),
        (Real(), "-1", "use 0 or more"),
        (Real(), "nan", "not a finite number"),
        (Real(0, 1), "1.5", "too high; use 1 or less"),
        (RealCap("S"), "-0.1", "too low; use 0 or more"),
        (WordOrClass(PolicyWord), "lifo", "use fcfs or priority"),
        (WordOrClass(PolicyWord), "my-orders:Mine", "or a class of yours as MODULE:CLASS"),
        (WordOrClass(PolicyWord), "orders:", "or a class of yours as MODULE:CLASS"),
        (WordOrClass(PolicyWord), ":Mine", "or a class of yours as MODULE:CLASS"),
        (Switch(), "maybe", "neither on nor off"),
        (Text("FILE"), "  ", "empty; give a value or leave it out"),
        (ThreadCounts(), "1,2,3", "more than two numbers"),
        (ThreadCounts(), "0", "too low; use 1 or more"),
        (ThreadCounts(), "two", "not a whole number"),
        (Numbers(), "0,x", "x is no number; write a list such as 0,2-3"),
        (Numbers(), "3-1", "an empty list; give at least one number"),
        (Numbers(1), "0,1", "0 is too low; use 1 or more"),
    ],
)
def test_bad_text_is_refused_with_the_remedy(kind: Kind, written: str, remedy: str) -> None:
    with pytest.raises(BadValue) as refused:
        kind.parse(written)
    assert remedy in str(refused.value)


@pytest.mark.parametrize(
    ("kind", "value", "remedy"),
    [
        (Whole(), "8", "without quotes"),
        (Whole(), True, "without quotes"),
        (Real(), "8", "without quotes"),
        (Switch(), "true", "without quotes"),
        (Switch(), 1, "use true or false"),
        (Text("FILE"), 5, "put it in quotes"),
        (Numbers(), 5, "put them in [ ]"),
        (Texts("KEY"), "a", "put them in [ ]"),
        (ThreadCounts(), [2], "not a whole number"),
    ],
)
def test_a_wrong_type_in_a_file_is_refused_with_the_remedy(kind: Kind, value: object, remedy: str) -> None:
    with pytest.raises(BadValue) as refused:
        kind.accept(value)
    assert remedy in str(refused.value)


@given(st.integers(1, 512), st.integers(1, 512))
def test_thread_counts_read_what_they_write(decode: int, prefill: int) -> None:
    threads = ThreadCounts().parse(f"{decode},{prefill}")
    assert (threads.decode, threads.prefill) == (decode, prefill)
    assert ThreadCounts().parse(text(threads)) == threads
    assert ThreadCounts().accept(plain(threads)) == threads


@given(st.lists(st.integers(0, 999_999)))
def test_numbers_read_what_they_write(numbers: list[int]) -> None:
    kind = Numbers(may_be_empty=True)
    assert kind.parse(text(tuple(numbers))) == tuple(numbers)
    assert kind.accept(plain(tuple(numbers))) == tuple(numbers)
