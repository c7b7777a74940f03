import json
from pathlib import Path

import pytest

from arriero.core.errors import ConfigError
from arriero.lab.perf.events import EVENTS
from arriero.lab.perf.probe import Try, classified, probe_events
from arriero.lab.perf.tools import find_tool, perf_event_paranoid
from arriero.record.cpu_lab.perf_counters import Counter, EventClass
from tests.unit.lab.perf.fake_tools import fake_perf, script


def counted(value: float | None, *, percent: float = 100.0, reason: str | None = None) -> Try:
    counter = Counter(event="cycles", value=value, unit="", run_time_ns=5, running_percent=percent, reason=reason)
    return Try(counter, None)


def test_there_are_nineteen_events() -> None:
    assert len(EVENTS) == len(set(EVENTS)) == 19


@pytest.mark.parametrize(
    ("event", "tries", "kind"),
    [
        ("cycles", [counted(5.0)] * 3, EventClass.SUPPORTED),
        ("context-switches", [counted(0.0), counted(1.0), counted(0.0)], EventClass.SUPPORTED),
        ("cycles", [counted(None, reason="not supported")] * 3, EventClass.UNSUPPORTED),
        ("cycles", [Try(None, "No permission to enable cycles event.")] * 3, EventClass.DENIED),
        ("cycles", [Try(None, "Operation not permitted")] * 3, EventClass.DENIED),
        ("cycles", [Try(None, "event syntax error: 'nonsense'")] * 3, EventClass.UNAVAILABLE),
        ("cycles", [Try(None, "The cycles event is not supported.")] * 3, EventClass.UNSUPPORTED),
        ("cycles", [Try(None, "Segmentation fault")] * 3, EventClass.UNAVAILABLE),
        ("cycles", [counted(0.0)] * 3, EventClass.NOISY),
        ("cycles", [counted(5.0), counted(None, reason="not counted"), counted(5.0)], EventClass.NOISY),
        ("cycles", [counted(5.0), Try(None, "crashed"), counted(5.0)], EventClass.NOISY),
        ("cycles", [counted(5.0, percent=40.0)] * 3, EventClass.NOISY),
        ("instructions", [counted(1000.0), counted(9000.0), counted(1000.0)], EventClass.NOISY),
        ("cache-misses", [counted(1000.0), counted(9000.0), counted(1000.0)], EventClass.SUPPORTED),
    ],
)
def test_each_event_is_put_into_one_class(event: str, tries: list[Try], kind: EventClass) -> None:
    found = classified(event, tries)
    assert found.kind is kind
    assert (found.reason is None) == (kind is EventClass.SUPPORTED)


def test_events_are_tried_alone_and_only_supported_ones_may_be_combined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = {"cycles": "not supported", "branches": "denied", "cache-misses": "unknown", "page-faults": "zero"}
    monkeypatch.setenv("FAKE_PERF", json.dumps(faults))
    told: list[str] = []
    events = ("task-clock", *faults)
    probe = probe_events(fake_perf(tmp_path), events, tries=1, tell=told.append)
    assert [each.kind for each in probe.events] == [
        EventClass.SUPPORTED, EventClass.UNSUPPORTED, EventClass.DENIED, EventClass.UNAVAILABLE, EventClass.NOISY,
    ]  # fmt: skip
    assert probe.supported == ("task-clock",)
    assert probe.tool == "perf 6.1.fake"
    assert len(told) == len(events)


def test_output_that_is_not_understood_makes_an_event_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_PERF", json.dumps({"cycles": "garbage"}))
    (found,) = probe_events(fake_perf(tmp_path), ("cycles",), tries=1).events
    assert found.kind is EventClass.UNAVAILABLE
    assert found.reason is not None
    assert "'many' is no number" in found.reason


def test_a_tool_that_is_not_there_or_does_not_start_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no-such-perf: no such program; install linux-perf"):
        find_tool("perf", "no-such-perf")
    broken = script(
        tmp_path / "perf", "import sys\nprint('WARNING: perf not found for kernel 6.1', file=sys.stderr)\nsys.exit(2)\n"
    )
    with pytest.raises(ConfigError, match="WARNING: perf not found for kernel") as caught:
        find_tool("perf", broken)
    assert "\n" not in str(caught.value)


def test_the_kernels_setting_is_a_number_or_unknown(tmp_path: Path) -> None:
    (tmp_path / "paranoid").write_text("-1\n")
    assert perf_event_paranoid(tmp_path / "paranoid") == -1
    assert perf_event_paranoid(tmp_path / "missing") is None
