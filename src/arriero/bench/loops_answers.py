"""Answers: prompts of later turns, made from what the asked side really said.

A schedule knows the fresh end of each turn; what stands before it is the turn before and its answer, which is known
only once it was given. Without this a later turn carries the answer that the workload made up.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias, TypeGuard

from arriero.bench.ask import Ask, Message, Prompt
from arriero.bench.schedule import Planned
from arriero.core.errors import ConfigError

Answer: TypeAlias = str | tuple[int, ...]

OnAnswer: TypeAlias = Callable[[str, tuple[int, ...]], None]
"""Told a request id and the tokens of its answer."""


class Answers:
    """What was said, until the next turn takes it.

    Give `note` to the target as the callable that hears of answers; it must be called before `ask` returns.
    """

    def __init__(self) -> None:
        """Nothing was said yet."""
        self._said: dict[str, Answer] = {}
        self._asked: dict[str, Prompt] = {}

    def note(self, request_id: str, answer: Answer) -> None:
        """Keep an answer, perhaps a partial one, if it belongs to a conversation."""
        if request_id in self._asked:
            self._said[request_id] = answer

    def prepare(self, item: Planned) -> Ask:
        """What is sent for an item: its own prompt, or the real conversation before its fresh end."""
        ask = item.ask
        if item.follows is not None and item.num_fresh is not None:
            before, answer = self._asked.pop(item.follows, None), self._said.pop(item.follows, None)
            if before is not None and answer is not None:
                ask = replace(ask, prompt=continued(before, answer, ask.prompt, item.num_fresh))
        if ask.conversation is not None:
            self._asked[ask.request_id] = ask.prompt
        return ask


def continued(before: Prompt, answer: Answer, prompt: Prompt, num_fresh: int) -> Prompt:
    """The prompt before, its answer, and the last `num_fresh` tokens, words or the last message of the planned one.

    Raises:
        ConfigError: the answer came as text and the prompts are token ids, or the other way round.
    """
    if isinstance(before, str) and isinstance(answer, str) and isinstance(prompt, str):
        return before + answer + _last_words(prompt, num_fresh)
    if _are_tokens(before) and not isinstance(answer, str) and _are_tokens(prompt):
        return (*before, *answer, *prompt[len(prompt) - num_fresh :])
    if _are_messages(before) and isinstance(answer, str) and _are_messages(prompt):
        return (*before, {"role": "assistant", "content": answer}, prompt[-1])
    raise ConfigError(
        "--answers real: the answers are text and the prompts token ids; use --endpoint chat or --prompts text"
    )


def _last_words(text: str, count: int) -> str:
    words = text.split(" ")
    return "".join(f" {word}" for word in words[len(words) - count :])


def _are_tokens(prompt: Prompt) -> TypeGuard[tuple[int, ...]]:
    return isinstance(prompt, tuple) and all(isinstance(each, int) for each in prompt[:1])


def _are_messages(prompt: Prompt) -> TypeGuard[tuple[Message, ...]]:
    return isinstance(prompt, tuple) and not _are_tokens(prompt)
