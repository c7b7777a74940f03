"""ServedLately: what steps took lately and how long answers were, where no profile says what a step costs.

    a step without prompt rows    what a token costs everybody who decodes
    a step with some              the same for those who decode, and the rest of it is what the prompt rows cost

Older steps count less and less, by the time spent computing since; idle time changes nothing.
"""

from dataclasses import dataclass
from typing import Final

from arriero.core.ids import Time

HALF_LIFE: Final[Time] = 20_000_000
"""Time spent computing after which a step counts half: 20 s in microseconds."""


@dataclass(frozen=True, slots=True)
class ServedPace:
    """A `scheduler.forecast.Pace` of averages.

    Attributes:
        row: time of one prompt row.
        each_step: time of a step in which everybody gets a token.
    """

    row: float
    each_step: float

    def prompt(self, num_tokens: int) -> float:
        """As many rows."""
        return self.row * num_tokens

    def step(self, num_decoding: int) -> float:
        """The same for one and for all."""
        del num_decoding
        return self.each_step


class ServedLately:
    """Sums that fade."""

    def __init__(self, half_life: Time = HALF_LIFE) -> None:
        """Nothing is known."""
        self._half_life = half_life
        self._decode_time = 0.0
        self._decode_steps = 0.0
        self._prompt_time = 0.0
        self._prompt_rows = 0.0
        self._mixed_steps = 0.0
        self._prompts = 0.0
        self._asked_tokens = 0.0
        self._computed_tokens = 0.0
        self._answers = 0.0
        self._answer_tokens = 0.0

    def add_step(self, duration: Time, prefill_rows: int, decode_rows: int) -> None:
        """A step has computed its rows; one without any says nothing."""
        self._fade(duration)
        if prefill_rows:
            self._prompt_time += duration
            self._prompt_rows += prefill_rows
            self._mixed_steps += decode_rows > 0
        elif decode_rows:
            self._decode_time += duration
            self._decode_steps += 1

    def add_prompt(self, num_tokens: int, num_cached: int) -> None:
        """A request has started, with so much of its prompt computed before."""
        self._prompts += 1
        self._asked_tokens += num_tokens
        self._computed_tokens += num_tokens - num_cached

    def add_answer(self, num_tokens: int) -> None:
        """An answer is complete."""
        self._answers += 1
        self._answer_tokens += num_tokens

    @property
    def pace(self) -> ServedPace | None:
        """What computing takes; None as long as nothing was computed. What was never seen is taken to cost nothing."""
        if not (self._decode_steps or self._prompt_rows):
            return None
        step = self._decode_time / self._decode_steps if self._decode_steps else 0.0
        prompt_time = max(0.0, self._prompt_time - self._mixed_steps * step)
        return ServedPace(prompt_time / self._prompt_rows if self._prompt_rows else 0.0, step)

    @property
    def answer_tokens(self) -> float:
        """Tokens of an answer, on average; 1 as long as there was none."""
        return self._answer_tokens / self._answers if self._answers else 1.0

    @property
    def prompt_tokens(self) -> float:
        """Tokens of a prompt, on average; 0 as long as there was none."""
        return self._asked_tokens / self._prompts if self._prompts else 0.0

    @property
    def computed_share(self) -> float:
        """Share of prompts that had to be computed, 0 to 1; 1 as long as there was none."""
        return self._computed_tokens / self._asked_tokens if self._asked_tokens else 1.0

    def _fade(self, duration: Time) -> None:
        factor: float = 0.5 ** (duration / self._half_life)
        self._decode_time *= factor
        self._decode_steps *= factor
        self._prompt_time *= factor
        self._prompt_rows *= factor
        self._mixed_steps *= factor
        self._prompts *= factor
        self._asked_tokens *= factor
        self._computed_tokens *= factor
        self._answers *= factor
        self._answer_tokens *= factor
