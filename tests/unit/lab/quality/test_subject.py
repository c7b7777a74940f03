"""Predicting and answering over a backend, with the synthetic one: its logits follow from all tokens before."""

import numpy as np
import pytest
from numpy.typing import NDArray

from arriero.backend.synthetic import SyntheticBackend, SyntheticOptions
from arriero.core.errors import EngineFault
from arriero.core.ids import RequestId, SequenceId, TokenId
from arriero.core.plan import PrefillChunk
from arriero.core.request import Request
from arriero.lab.quality.answers import answers_of, ask
from arriero.lab.quality.scoring import score_alone, score_windows
from arriero.lab.quality.subject import BackendSubject, Said, start_token_of, vocabulary_digest
from arriero.lab.quality.texts import read_prompts
from arriero.lab.quality.windows import Window
from arriero.metrics.next_token import token_nll
from arriero.record.cpu_lab.quality_figures import Finish
from arriero.tokens.vocabulary import ByteVocabulary

OPTIONS = SyntheticOptions(num_sequences=1, num_rows=512, num_cells=512, vocab_size=260, speaks=tuple(range(32, 127)))
TEXT: tuple[TokenId, ...] = tuple(b"The mules knew the way, and nobody asked them.")


class NoNumbers(SyntheticBackend):
    """Its logits are no numbers."""

    def decode(self, rows: object) -> NDArray[np.float32]:
        del rows
        return np.full((1, 260), np.nan, np.float32)


def _one_by_one(length: int) -> NDArray[np.float32]:
    """Logits after the first `length` tokens, by a call of its own."""
    backend = SyntheticBackend(OPTIONS)
    request = Request(request_id=RequestId(1), prompt=TEXT, max_tokens=1, arrival_at=0)
    logits = backend.decode([PrefillChunk(request, SequenceId(0), 0, TEXT[:length], wants_logits=True)])
    return np.asarray(logits[0], np.float32)


@pytest.mark.parametrize("num_given", [1, 20, len(TEXT) - 1])
def test_every_row_is_what_follows_its_own_beginning(num_given: int) -> None:
    subject = BackendSubject("formula", SyntheticBackend(OPTIONS))
    for _ in range(2):  # nothing is left over from the first time
        found = subject.predict(TEXT, num_given).copy()
        assert found.shape == (len(TEXT) - num_given, 260)
        for row, length in zip(found, range(num_given, len(TEXT)), strict=True):
            assert row.tolist() == _one_by_one(length).tolist()


def test_an_answer_is_the_first_maximum_token_by_token() -> None:
    subject = BackendSubject("formula", SyntheticBackend(OPTIONS))
    said = subject.answer(TEXT, 12)
    assert (len(said.tokens), said.finish) == (12, Finish.LENGTH)
    whole = (*TEXT, *said.tokens)
    logits = subject.predict((*whole, 0), len(TEXT))
    assert logits.argmax(axis=1).tolist()[:12] == list(said.tokens)
    assert subject.answer(TEXT, 12) == said


def test_an_end_token_ends_an_answer_and_is_not_in_it() -> None:
    subject = BackendSubject("formula", SyntheticBackend(SyntheticOptions(speaks=(257,), num_sequences=1)))
    assert subject.answer(TEXT, 12) == Said((), Finish.STOP)


def test_logits_that_are_no_numbers_are_told_with_the_file() -> None:
    subject = BackendSubject("broken.gguf", NoNumbers(OPTIONS))
    with pytest.raises(EngineFault, match=r"broken\.gguf: the model gave a logit that is no finite number"):
        subject.predict(TEXT, 3)


def test_a_model_beside_itself_agrees_in_everything() -> None:
    windows = [Window(0, TEXT[:20], 10), Window(10, TEXT[10:30], 10)]
    first, second = (BackendSubject(name, SyntheticBackend(OPTIONS)) for name in "ab")
    told: list[int] = []
    found = score_windows(windows, first, second, told.append)
    assert found.candidate.divergence == ((0.0,) * 10,) * 2
    assert found.candidate.same_top == ((1,) * 10,) * 2
    assert found.reference_nll == found.candidate.nll == score_alone(windows, first, told.append)
    expected = token_nll(first.predict(windows[1].tokens, 10), np.array(windows[1].targets))
    assert list(found.candidate.nll[1]) == expected.tolist()
    assert told == [0, 1, 0, 1]


def test_prompts_are_asked_in_a_template() -> None:
    vocabulary = ByteVocabulary()
    asked = ask(read_prompts(), vocabulary, 5)
    assert asked.facts is not None
    assert asked.facts.template.startswith("ChatML, since")
    assert asked.facts.names == tuple(prompt.name for prompt in asked.prompts)
    marked = vocabulary.special_texts["<|im_start|>"]
    assert all(prompt.tokens.count(marked) == 2 for prompt in asked.prompts)
    answers = answers_of(BackendSubject("formula", SyntheticBackend(OPTIONS)), asked, vocabulary)
    assert [len(answer.tokens) for answer in answers] == [5] * 6
    assert all(answer.text == bytes(answer.tokens).decode() for answer in answers)
    assert ask(read_prompts(), vocabulary, 0) == ((), None)


def test_vocabularies_differ_by_a_piece_or_an_end() -> None:
    plain = vocabulary_digest(ByteVocabulary())
    assert plain == vocabulary_digest(ByteVocabulary())
    others = (ByteVocabulary(("<|im_start|>", "<|im_stop|>")), ByteVocabulary(adds_start_token=True))
    assert len({plain, *map(vocabulary_digest, others)}) == 3


def test_the_start_token_is_the_vocabularys_own() -> None:
    assert start_token_of(ByteVocabulary()) is None
    assert start_token_of(ByteVocabulary(adds_start_token=True)) == 256
