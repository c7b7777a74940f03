"""A figure from a metrics page in Prometheus' text format."""

import re


def sum_of(page: object, name: str) -> float | None:
    """All samples of a name added up, whatever their labels; None if the page has none, or is no text.

    Args:
        page: as a server sent it.
        name: of the samples, which for counters ends in `_total`.
    """
    if not isinstance(page, str):
        return None
    found = re.findall(rf"^{re.escape(name)}(?:\{{[^}}]*\}})? (\S+)", page, re.MULTILINE)
    try:
        return sum(map(float, found)) if found else None
    except ValueError:
        return None
