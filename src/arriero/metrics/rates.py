"""Rates over a window of whole microseconds."""


def per_second(amount: float, duration_us: int) -> float | None:
    """Amount / duration; None if the duration is not positive.

    The order of the two divisions decides the last digit of published figures.
    """
    if duration_us <= 0:
        return None
    return float(amount) / (float(duration_us) / 1_000_000.0)


def share(part: float, whole: float) -> float | None:
    """Part / whole; None for a whole of 0."""
    return part / whole if whole else None
