"""Every example runs, without a warning, and shows what it says it shows."""

import subprocess
import sys
from pathlib import Path

import pytest

from arriero.core.ids import RequestId
from arriero.core.request import Request
from arriero.sim.user_policy import load_policy
from arriero.testing.suites_policy import check_policy

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"

SHOWS = {
    "in_process.py": ["streamed: length, 8 tokens", "waited: length, 4 tokens", "cancelled: cancelled"],
    "custom_observer.py": ["6 requests ended by length", "4 decoding:", "1 decoding:"],
    "simulate_two_settings.py": ["no limit", "64"],
    "compare_two_policies.py": ["FirstComeFirstServed: mean TTFT", "ShortestPromptFirst: mean TTFT"],
    "own_policy.py": ["simulated  3 5 8 12 40", "served     3 5 8 12 40"],
}


def test_every_example_is_run_here() -> None:
    assert sorted(SHOWS) == sorted(path.name for path in EXAMPLES.glob("*.py"))


@pytest.mark.parametrize("name", SHOWS)
def test_it_runs(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / name], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert [line for line in SHOWS[name] if line not in done.stdout] == []


def test_the_simulated_cap_shortens_the_gap_and_delays_the_long_prompt() -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / "simulate_two_settings.py"], capture_output=True, text=True, check=True, timeout=60
    )
    free, capped = (line.rsplit(maxsplit=4) for line in done.stdout.splitlines()[1:])
    assert float(capped[1]) < float(free[1]) / 3
    assert float(capped[3]) > float(free[3])


def test_short_prompts_first_shortens_the_mean_wait() -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / "compare_two_policies.py"], capture_output=True, text=True, check=True, timeout=60
    )
    arrival, shortest = (float(line.split()[-2]) for line in done.stdout.splitlines())
    assert shortest < 0.8 * arrival


def test_ones_own_policy_is_found_by_its_name_and_conforms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    make = load_policy("own_policy:ShortAnswersFirst")
    check_policy(make)
    request = Request(request_id=RequestId(1), prompt=(1,), max_tokens=100, arrival_at=7)
    assert make().rank(request, 3) == (5_000_007, 3)


def test_the_class_of_ones_own_policy_is_as_short_as_the_documents_say() -> None:
    text = (EXAMPLES / "own_policy.py").read_text(encoding="utf-8")
    own = text[text.index("class ShortAnswersFirst") : text.index("def simulated")]
    assert len(own.strip().splitlines()) <= 20
