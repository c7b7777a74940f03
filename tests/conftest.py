"""What every test may ask for: hypothesis profiles, the shared data, one event loop backend."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

ROOT = Path(__file__).resolve().parent.parent
ON_CI = os.environ.get("CI", "").lower() in {"1", "true", "yes"}

if "PYTEST_XDIST_WORKER" in os.environ:
    # Two tests run side by side: compute threads of one would wait for those of the other at every barrier, hundreds of
    # times a step. Read by the OpenMP runtime when llama.cpp is loaded, in this process and in servers that it starts.
    os.environ.setdefault("OMP_THREAD_LIMIT", "1")

# What somebody calibrated or kept on this machine must not change what servers do in tests: there are no such folders.
os.environ["ARRIERO_PROFILES"] = str(ROOT / ".artifacts" / "no-profiles")
os.environ["ARRIERO_RECOMMENDATIONS"] = str(ROOT / ".artifacts" / "no-recommendations")

settings.register_profile("dev", max_examples=50, deadline=None)
settings.register_profile(
    "ci",
    max_examples=200,
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],  # a busy machine is no fault of a test
)
settings.register_profile(
    "night",
    max_examples=5_000,
    deadline=None,
    phases=tuple(Phase),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if ON_CI else "dev"))


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The server runs on asyncio alone, so its tests do."""
    return "asyncio"


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C interrupts this process and those that it starts, as in a terminal.

    Workers that run tests side by side ignore that signal, and so would their children.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the checkout."""
    return ROOT


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of published workloads and results that lies beside the checkout.

    A checkout without it skips the tests that need it, with the reason; where `CI=true` it must
    be there, and its absence fails.
    """
    folder = ROOT.parent / "shared" / "data"
    if folder.is_dir():
        return folder
    reason = "no folder `shared/data` beside the checkout: published workloads are not here"
    if ON_CI:
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def blessing() -> bool:
    """Whether golden files are to be rewritten (`make bless`) rather than compared."""
    return os.environ.get("ARRIERO_BLESS", "") == "1"
