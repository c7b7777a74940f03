"""CSV of simulated and recorded runs: one row a run, values as they are kept, undefined empty."""

import csv
import io
from collections.abc import Sequence
from typing import Final

from arriero.report.latencies import Measured
from arriero.report.measures import COLUMNS
from arriero.report.run_view import SEED, WORKLOAD
from arriero.report.written import Unit

_LEADING: Final = ("name", "evidence", "workload_sha256", "seed")
_WHOLE: Final = frozenset({Unit.COUNT, Unit.SPAN})


def as_csv(every: Sequence[Measured]) -> str:
    """Times in whole microseconds, shares from 0 to 1; lines end in LF."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow((*_LEADING, *(measure.name for measure in COLUMNS)))
    for each in every:
        run = each.run
        leading = (run.name, run.evidence, run.traits.get(WORKLOAD) or "", run.traits.get(SEED) or "")
        writer.writerow((*leading, *(_cell(measure.of(each), measure.unit) for measure in COLUMNS)))
    return text.getvalue()


def _cell(value: float | None, unit: Unit) -> object:
    if value is None:
        return ""
    return int(value) if unit in _WHOLE or float(value).is_integer() else value
