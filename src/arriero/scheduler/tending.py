"""Tending: what people may do with all retained runs at once, while requests run."""

from collections.abc import Sequence
from typing import NamedTuple, assert_never

from arriero.core.events import Event, RetainedAction, RetainedReport
from arriero.kv.protocol import KvManager
from arriero.kv.reuse import EvictionCause, RetainedRun


class Tended(NamedTuple):
    """What an action on the retained runs came to."""

    report: RetainedReport
    events: tuple[Event, ...]


def tend_retained(kv: KvManager, action: RetainedAction) -> RetainedReport:
    """Save, restore or erase all retained runs together; what memory has to do is ordered."""
    match action:
        case RetainedAction.SAVE:
            return RetainedReport(*kv.save_retained())
        case RetainedAction.RESTORE:
            return _report([run for run in kv.retained() if run.key is not None])
        case RetainedAction.ERASE:
            report = _report(kv.retained())
            kv.clear_retained(EvictionCause.ERASED)
            return report
        case _:
            assert_never(action)


def _report(runs: Sequence[RetainedRun]) -> RetainedReport:
    return RetainedReport(len(runs), sum(run.length for run in runs))
