"""SwapRule: whether the KV of a request that yields is kept outside until it runs again, or computed again.

    known        p p p p p p p p p p g g g g g     p: prompt, g: answer
    computed     c c c c c c c c c c c c c c
    held by others too   c c c
    again              ▲ ──────────── ▲ ────▲      rows of the prompt, and rows of the answer
    swap         ▲ ─────────────────────────▲      bytes of all that is computed, out and in

A swap moves bytes, computing needs all weights for each row: for the models that were measured, a token that is moved
costs a two-hundredth of one that is computed. So a swap pays almost always. It does not for a prompt that has hardly
begun, nor where nearly all of it is held by sequences that go on, from which a resumed request can start for nothing.
"""

from dataclasses import dataclass

from arriero.core.errors import ConfigError
from arriero.core.ids import Time


@dataclass(frozen=True, slots=True, kw_only=True)
class SwapRule:
    """Compares two durations on the driver's line; the numbers come from a cost profile, or are a rule of thumb.

    Attributes:
        row_time: computing one token of a prompt again, among others in a chunk.
        answer_row_time: computing one token of an answer again; in exact mode it takes a call like any decode row.
        token_time: moving what one token holds out of the context, and in again.
        swap_time: what a swap takes beside, however short the sequence.
    """

    row_time: Time
    answer_row_time: Time
    token_time: Time = 0
    swap_time: Time = 0

    def __post_init__(self) -> None:
        """Refuse what is no duration.

        Raises:
            ConfigError: one is negative, or computing is said to take no time.
        """
        checks = (
            ("row_time", self.row_time, self.row_time > 0, "above 0"),
            ("answer_row_time", self.answer_row_time, self.answer_row_time > 0, "above 0"),
            ("token_time", self.token_time, self.token_time >= 0, "at least 0"),
            ("swap_time", self.swap_time, self.swap_time >= 0, "at least 0"),
        )
        for name, value, good, rule in checks:
            if not good:
                message = f"{name} of the swap rule must be {rule}, not {value!r}"
                raise ConfigError(message)

    def pays(self, num_computed: int, num_prompt: int, num_elsewhere: int = 0) -> bool:
        """Whether a swap takes less than computing again what nobody else holds; ties are computed again.

        Args:
            num_computed: tokens whose KV would be moved, from the first one on.
            num_prompt: how many known tokens are the prompt's.
            num_elsewhere: leading tokens that other sequences hold too.
        """
        num_lost_prompt = max(0, min(num_computed, num_prompt) - num_elsewhere)
        num_lost_answer = max(0, num_computed - max(num_prompt, num_elsewhere))
        again = num_lost_prompt * self.row_time + num_lost_answer * self.answer_row_time
        return self.swap_time + num_computed * self.token_time < again
