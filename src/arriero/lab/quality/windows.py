"""Windows of a text: what is given to a model, and which of its tokens are scored.

    text     t0 t1 t2 ...                                     window 8, stride 4
    first    [c c c c s s s s]                                c  context, given and not scored
    second           [c c c c s s s s]                        s  scored, predicted from all before it in the window

The first half of a window is context only, as is customary: a token at the very beginning is predicted from nothing,
and would make a model look worse than it is in use. A stride of half a window scores every token of the text but the
first half window once; a stride of a whole window, customary too, scores half of them in half the time. A stride below
half a window gives each scored token more context, and takes more time. No token is scored twice.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from arriero.core.errors import ConfigError
from arriero.core.ids import TokenId
from arriero.metrics.window_bootstrap import FEWEST_WINDOWS
from arriero.record.cpu_lab.quality_settings import Windowing

SHORTEST_WINDOW: Final = 16
WINDOW: Final = 512


class Window(NamedTuple):
    """One stretch of the text."""

    start: int  # of its first token in the text
    tokens: Sequence[TokenId]
    num_context: int

    @property
    def targets(self) -> Sequence[TokenId]:
        """The tokens that are scored."""
        return self.tokens[self.num_context :]


def windowing_of(
    num_tokens: int, window: int, stride: int | None, *, start_token: bool, most: int | None = None
) -> Windowing:
    """How a text of so many tokens is cut; without a stride by half a window; into at most `most` windows.

    Raises:
        ConfigError: the window or the stride cannot work, or the text is too short: the tokens that are missing.
    """
    if window < SHORTEST_WINDOW:
        raise ConfigError(f"--window {window}: at least {SHORTEST_WINDOW} tokens; raise it")
    if stride is None:
        stride = window // 2
    if not 1 <= stride <= window:
        raise ConfigError(f"--stride {stride}: from 1 to the {window} tokens of --window")
    num_windows = (num_tokens - window) // stride + 1 if num_tokens >= window else 0
    if num_windows < FEWEST_WINDOWS:
        needed = window + (FEWEST_WINDOWS - 1) * stride
        raise ConfigError(
            f"--text: too short: {FEWEST_WINDOWS} windows of {window} tokens, {stride} apart, need {needed} tokens, "
            f"and {needed - num_tokens} of them are missing; give a longer text or lower --window"
        )
    num_windows = min(num_windows, most or num_windows)
    num_scored = min(stride, window // 2)
    return Windowing(
        window=window,
        stride=stride,
        num_context=window - num_scored,
        num_scored=num_scored,
        num_windows=num_windows,
        num_left_out=num_tokens - num_windows * num_scored,
        start_token=start_token,
    )


def cut(tokens: Sequence[TokenId], windowing: Windowing, start_token: TokenId | None) -> list[Window]:
    """The windows of a text, in order; a start token takes the place of the first token of each."""
    found: list[Window] = []
    for number in range(windowing.num_windows):
        start = number * windowing.stride
        inside = tuple(tokens[start : start + windowing.window])
        if start_token is not None:
            inside = (start_token, *inside[1:])
        found.append(Window(start, inside, windowing.num_context))
    return found
