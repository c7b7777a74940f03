"""Nothing that a backend computes at its start leaves compute threads behind.

OpenMP counts the threads of every pool against the cores: with one pool too many each decode call is slow ever after.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.model

SCRIPT = """
import os, sys, time
from pathlib import Path
from arriero.backend.context import ContextOptions
from arriero.backend.library import process_start
from arriero.backend.llama_cpp import LlamaCppBackend
from arriero.backend.llama_model import LlamaModel

process_start()
model = LlamaModel(Path(sys.argv[1]))
before = len(os.listdir("/proc/self/task"))
backend = LlamaCppBackend(model, ContextOptions(ctx_size=512, num_sequences=2, num_threads=2))
give_up_at = time.monotonic() + 10
while len(os.listdir("/proc/self/task")) > before and time.monotonic() < give_up_at:
    time.sleep(0.01)  # threads that were told to end may need a moment
print(backend.reuse_support.copy, len(os.listdir("/proc/self/task")) - before)
backend.close()
model.close()
"""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are counted in /proc")
def test_a_backend_that_was_probed_leaves_no_compute_threads_behind(model_path: Path) -> None:
    unlimited = {name: value for name, value in os.environ.items() if name != "OMP_THREAD_LIMIT"}
    found = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(model_path)], env=unlimited, capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == ["True", "0"]
