"""Level: how fast the machine was while each step was measured, told by all shapes together.

A virtual machine changes its speed by a tenth or a third and keeps it for seconds or minutes, whatever is computed.
Shapes come in an order drawn by chance, so what a stretch of time does to the steps in it, most of them of different
shapes, is the machine's doing, and what one shape does at all times is its own:

    time      ────────────────────────────────────────────▶
    shapes    a  c  b  a  d  b | c  a  d  b  c  a | b  d
    measured
    / fitted  .9 .9 .9 .9 .8 .9  1.2 1.2 1.1 1.2 1.2  .9 .9     level: running median
"""

from typing import Final

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from arriero.lab.nonnegative import Floats, weighted_median

WINDOW: Final = 31
"""Steps of about ten shapes or more, since no shape is measured more than three times in a row; odd."""

FAR: Final = 1.6
"""So many times as slow as most of the time is no speed of the machine but somebody else's doing."""


def running_level(ratios: Floats, took: Floats) -> Floats:
    """Measured / fitted of each step, as far as its neighbours in time agree; 1 is the machine's usual speed.

    Args:
        ratios: float64[num_steps] in the order of measuring, measured / fitted.
        took: float64[num_steps], how long each lasted: usual is the mean over the time, so that what takes hours is
            predicted right, fast and slow stretches together; a stretch that is far slower than most is a disturbance,
            and counts as one that is just not.
    """
    window = min(WINDOW, len(ratios) - 1 + len(ratios) % 2)  # odd, and no longer than what there is
    padded = np.pad(ratios, window // 2, mode="reflect") if window > 1 else ratios
    level: Floats = np.median(sliding_window_view(padded, window), axis=1)
    middle = weighted_median(level, took / ratios)
    usual = np.average(np.minimum(level, FAR * middle), weights=took / ratios)
    against_usual: Floats = level / usual
    return against_usual


def lateness(level: Floats, took: Floats, share: float = 0.95) -> float:
    """By which part of the usual time the machine was slower than for `share` of the time; at least 0."""
    order = np.argsort(level)
    reached: Floats = np.cumsum(took[order])
    place = int(np.searchsorted(reached, share * float(reached[-1])))
    return max(0.0, float(level[order][min(place, len(order) - 1)]) - 1)
