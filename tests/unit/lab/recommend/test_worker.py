"""How a worker's process is read."""

from typing import Any

import msgspec
import pytest

from arriero.lab.process import CpuUsage, Finished
from arriero.lab.recommend.worker import measured
from arriero.record.cpu_lab.run_log import Status
from tests.unit.lab.recommend.fake_machines import result


def finished(**fields: object) -> Finished:
    known: dict[str, Any] = {
        "command": ("python",), "return_code": 0, "stdout": "", "stderr": "", "elapsed_s": 1.0, "timed_out": False,
        "interrupted": False, "peak_rss_kib": None, "launch_error": None, "usage": CpuUsage(0.0, 0.0),
    }  # fmt: skip
    known.update(fields)
    return Finished(**known)


def test_the_line_is_the_result() -> None:
    line = msgspec.json.encode(result(100.0, 20.0)).decode()
    found = measured(finished(stdout=f"{line}\n"), 2.0)
    assert (found.status, found.elapsed_s, found.problem) == (Status.SUCCESS, 2.0, None)
    assert found.result == result(100.0, 20.0)


@pytest.mark.parametrize(
    ("fields", "status", "problem"),
    [
        ({"timed_out": True, "return_code": -15}, Status.TIMED_OUT, "took too long"),
        ({"return_code": 2, "stderr": "noise\narriero: no such file"}, Status.FAILED, "arriero: no such file"),
        ({"return_code": -11}, Status.FAILED, "ended with status -11"),
        ({"return_code": None, "launch_error": "python: not found"}, Status.FAILED, "python: not found"),
        ({"stdout": "no JSON"}, Status.PARSE_ERROR, "not understood"),
        ({"stdout": "{}"}, Status.PARSE_ERROR, "missing"),
        ({}, Status.PARSE_ERROR, "0 lines instead of one"),
    ],
)
def test_whatever_goes_wrong_is_a_value(fields: dict[str, Any], status: Status, problem: str) -> None:
    found = measured(finished(**fields), 1.0)
    assert (found.status, found.result) == (status, None)
    assert found.problem is not None
    assert problem in found.problem
