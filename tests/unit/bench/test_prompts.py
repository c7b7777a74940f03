import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.bench.prompts import WORD_VOCABULARY, Part, PromptForm, PromptMaker, Role, write
from arriero.bench.prompts_words import WORDS
from arriero.workload.records import WorkloadClass, WorkloadRecord
from arriero.workload.settings import Vocabulary
from arriero.workload.tokens import PackedTokens


def record(name: str, length: int, **more: object) -> WorkloadRecord:
    return WorkloadRecord(
        request_id=name, arrival_time_us=0, prompt_token_count=length, max_new_tokens=2,
        workload_class=WorkloadClass.CHAT, **more,  # type: ignore[arg-type]
    )  # fmt: skip


def prompts(
    records: list[WorkloadRecord], vocabulary: Vocabulary | None = None, **more: object
) -> list[tuple[int, ...]]:
    maker = PromptMaker(records, vocabulary=vocabulary or Vocabulary(), seed=3, **more)  # type: ignore[arg-type]
    written = [write(maker.parts(each), PromptForm.TOKENS) for each in records]
    return [tuple(token for token in each if isinstance(token, int)) for each in written]


@given(count=st.integers(1, 200), size=st.integers(2, 300), seed=st.integers(0, 1000))
def test_prompts_of_which_only_the_length_is_known_share_no_beginning(count: int, size: int, seed: int) -> None:
    records = [record(str(number), 12) for number in range(count)]
    vocabulary = Vocabulary(first_token=5, size=size)
    maker = PromptMaker(records, vocabulary=vocabulary, seed=seed)
    made = [write(maker.parts(each), PromptForm.TOKENS) for each in records]
    digits = next(d for d in range(1, 12) if size**d >= 3 * count)
    assert len({each[:digits] for each in made}) == count
    assert all(len(each) == 12 and set(each) <= set(range(5, 5 + size)) for each in made)


def test_a_salt_changes_the_tokens_and_not_the_lengths() -> None:
    records = [record("a", 9), record("b", 7)]
    assert prompts(records) == prompts(records) != prompts(records, salt="again")
    assert [len(each) for each in prompts(records, salt="again")] == [9, 7]


def test_known_tokens_are_sent_as_they_are_or_folded() -> None:
    known = record("a", 3, prompt_tokens=PackedTokens([70_000, 2, 70_000]))
    assert prompts([known]) == [(70_000, 2, 70_000)]
    folded = prompts([known], Vocabulary(first_token=100, size=50), fold=True)[0]
    assert folded[0] == folded[2] != folded[1]
    assert all(100 <= token < 150 for token in folded)


def test_a_prefix_group_shares_what_it_is_said_to_share() -> None:
    records = [record("a", 20, prefix_group="g"), record("b", 12, prefix_group="g"), record("c", 20)]
    a, b, c = prompts(records)
    assert a[:6] == b[:6]  # half of the shortest
    assert a[6] != b[6]
    assert c[0] not in {a[0], b[0]}
    a, b, _ = prompts(records, group_prefix=10)
    assert a[:10] == b[:10]


def test_a_later_turn_continues_the_one_before_with_an_answer_and_fresh_tokens() -> None:
    def turn(number: int, length: int, fresh: int) -> WorkloadRecord:
        notes = {"session_id": "s", "turn": number, "fresh_token_count": fresh}
        return record(f"t{number}", length, prefix_group="s", metadata={"arriero": notes})

    records = [turn(0, 10, 10), turn(1, 18, 5), turn(2, 30, 4)]
    maker = PromptMaker(records, vocabulary=WORD_VOCABULARY, seed=1)
    first, second, third = (maker.parts(each) for each in records)
    assert [part.role for part in third] == [Role.USER, Role.ASSISTANT, Role.USER, Role.ASSISTANT, Role.USER]
    assert [len(part.tokens) for part in third] == [10, 3, 5, 8, 4]
    assert third[:3] == second
    assert second[:1] == first


def test_known_tokens_of_a_conversation_are_told_apart_into_turns() -> None:
    def turn(number: int, tokens: list[int], fresh: int) -> WorkloadRecord:
        notes = {"session_id": "s", "turn": number, "fresh_token_count": fresh}
        return record(str(number), len(tokens), prompt_tokens=PackedTokens(tokens), metadata={"arriero": notes})

    records = [turn(0, [1, 2, 3], 2), turn(1, [1, 2, 3, 9, 9, 4], 1)]
    maker = PromptMaker(records, vocabulary=Vocabulary(), seed=1)
    assert maker.parts(records[0]) == (Part(Role.SYSTEM, (1,)), Part(Role.USER, (2, 3)))
    assert maker.parts(records[1])[2:] == (Part(Role.ASSISTANT, (9, 9)), Part(Role.USER, (4,)))


@pytest.mark.parametrize("form", [PromptForm.TEXT, PromptForm.CHAT])
def test_a_text_has_a_word_for_each_token(form: PromptForm) -> None:
    parts = (Part(Role.SYSTEM, (0, 1)), Part(Role.USER, (2, 3, len(WORDS))))
    written = write(parts, form)
    texts = [written] if isinstance(written, str) else [str(m["content"]) for m in written if not isinstance(m, int)]
    assert [len(text.split()) for text in texts] == ([5] if form is PromptForm.TEXT else [2, 3])
    if form is PromptForm.CHAT:
        assert written[0] == {"role": "system", "content": f"{WORDS[0]} {WORDS[1]}"}


def test_words_are_told_apart() -> None:
    assert len(set(WORDS)) == len(WORDS) > 200
    assert all(word.isascii() and word.isalpha() for word in WORDS)
