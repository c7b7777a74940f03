"""Greedy answers to fixed prompts, each alone in an empty context.

The chat template is that of the reference's file and is applied here, explicitly, so every file answers the very same
tokens whatever template it carries.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from arriero.core.errors import ConfigError
from arriero.core.ids import TokenId
from arriero.lab.quality.subject import Subject
from arriero.lab.quality.texts import Prompts
from arriero.record.cpu_lab.quality_figures import Answer
from arriero.record.cpu_lab.quality_settings import PromptFacts
from arriero.tokens.chat_template import ChatTemplate
from arriero.tokens.messages import ChatMessage, Role
from arriero.tokens.vocabulary import Vocabulary

_OWN: Final = "of the reference's file"
_FALLBACK: Final = "ChatML, since the reference's file has none"


class TokenPrompt(NamedTuple):
    """A prompt as the model gets it."""

    name: str
    tokens: tuple[TokenId, ...]


class Asked(NamedTuple):
    """What is asked, for the models and for the record."""

    prompts: tuple[TokenPrompt, ...]
    facts: PromptFacts | None

    @property
    def longest(self) -> int:
        """Tokens of the longest prompt; 0 without any."""
        return max((len(prompt.tokens) for prompt in self.prompts), default=0)

    @property
    def max_tokens(self) -> int:
        """Of an answer; 0 if nothing is asked."""
        return 0 if self.facts is None else self.facts.max_tokens


def ask(prompts: Prompts, vocabulary: Vocabulary, max_tokens: int) -> Asked:
    """The prompts in the reference's template; none at all if answers may have no token.

    Raises:
        ConfigError: `max_tokens` is below 0, or the file's template cannot be read.
    """
    if max_tokens < 0:
        raise ConfigError(f"--answer-tokens {max_tokens}: at least 0, which leaves the answers out")
    if max_tokens == 0:
        return Asked((), None)
    template = ChatTemplate(vocabulary.chat_template, vocabulary)
    facts = PromptFacts(
        sha256=prompts.sha256,
        names=tuple(prompt.name for prompt in prompts.prompts),
        max_tokens=max_tokens,
        template=_FALLBACK if template.is_fallback else _OWN,
    )
    rendered = (template.render([ChatMessage(role=Role.USER, content=prompt.text)]) for prompt in prompts.prompts)
    return Asked(
        tuple(TokenPrompt(name, tuple(tokens)) for name, tokens in zip(facts.names, rendered, strict=True)), facts
    )


def answers_of(subject: Subject, asked: Asked, vocabulary: Vocabulary) -> tuple[Answer, ...]:
    """What a model says to each prompt.

    Raises:
        EngineFault: see `Subject.predict`.
    """
    return tuple(_answer(subject, prompt, asked.max_tokens, vocabulary) for prompt in asked.prompts)


def _answer(subject: Subject, prompt: TokenPrompt, max_tokens: int, vocabulary: Vocabulary) -> Answer:
    said = subject.answer(prompt.tokens, max_tokens)
    return Answer(prompt=prompt.name, text=text_of(said.tokens, vocabulary), tokens=said.tokens, finish=said.finish)


def text_of(tokens: Sequence[TokenId], vocabulary: Vocabulary) -> str:
    """The pieces joined; a character that is cut at the end becomes a replacement character."""
    return b"".join(vocabulary.piece(token) for token in tokens).decode(errors="replace")
