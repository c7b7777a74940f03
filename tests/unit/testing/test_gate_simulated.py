"""The simulator's gate can fail: by a figure, and by a rule that lets a tampered run pass."""

import pytest

from arriero.testing.gates.findings import Findings
from arriero.testing.gates.mixed_faults import TAMPERINGS, Tampering, stopped_by
from arriero.testing.gates.mixed_table import Compared, compared
from arriero.testing.gates.simulated import check_lines, check_stopped


@pytest.mark.parametrize("tampering", TAMPERINGS, ids=lambda tampering: tampering.rule)
def test_each_tampered_run_is_stopped_by_the_rule_that_it_breaks(tampering: Tampering) -> None:
    assert tampering.rule in str(stopped_by(tampering))


def test_a_run_as_it_was_is_not_stopped() -> None:
    whole = next(each for each in TAMPERINGS if each.num_slots == 1)._replace(num_slots=2)
    assert stopped_by(whole) is None
    findings = Findings()
    check_stopped([whole], findings)
    assert findings.reason is not None


def test_one_other_digit_breaks_the_gate() -> None:
    findings = Findings()
    check_lines([Compared("B static", ["659.700", "234"], ["659.701", "234"])], findings, print)
    assert findings.broken == ("B static: 659.701, published 659.700",)
    assert findings.counts == {"table_lines": 1, "figures": 2}


def test_a_workload_that_is_not_asked_for_is_not_run() -> None:
    assert [line.what for line in compared("M")] == ["M fifo", "M static", "M continuous"]
