"""Threads of the real model: they may change between two calls, change no bit of exact mode, and leave none behind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from arriero.engine.exact_check import _threads
from arriero.engine.logit_bench import LogitBench
from tests.model.conftest import MakeBackend

pytestmark = pytest.mark.model

SCRIPT = """
import os, sys, time
from pathlib import Path
from arriero.backend.context import ContextOptions
from arriero.backend.library import process_start
from arriero.backend.llama_cpp import LlamaCppBackend
from arriero.backend.llama_model import LlamaModel
from arriero.core.ids import RequestId, SequenceId
from arriero.core.option_kinds import Threads
from arriero.core.plan import PrefillChunk
from arriero.core.request import Request

process_start()
model = LlamaModel(Path(sys.argv[1]))
before = len(os.listdir("/proc/self/task"))
backend = LlamaCppBackend(model, ContextOptions(ctx_size=512, num_sequences=1, num_threads=3))
give_up_at = time.monotonic() + 10
while len(os.listdir("/proc/self/task")) > before and time.monotonic() < give_up_at:
    time.sleep(0.01)  # threads of the backend's own trials may need a moment to end
counts = []
request = Request(request_id=RequestId(1), prompt=tuple(range(300, 364)), max_tokens=1, arrival_at=0)
for place, number in enumerate((3, 1, 2, 3, 1, 3, 2, 3)):
    backend.set_threads(Threads(number, number))
    tokens = request.prompt[place * 8 : place * 8 + 8]
    backend.decode([PrefillChunk(request, SequenceId(0), place * 8, tokens, place == 7)])
    counts.append(len(os.listdir("/proc/self/task")) - before)
print(*counts)
backend.close()
model.close()
"""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are counted in /proc")
def test_threads_that_come_and_go_are_never_more_than_were_asked_for(model_path: Path) -> None:
    unlimited = {name: value for name, value in os.environ.items() if name != "OMP_THREAD_LIMIT"}
    found = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(model_path)], env=unlimited, capture_output=True, text=True, check=True
    )
    counts = list(map(int, found.stdout.split()))
    assert counts[0] == 2, "beside the thread that decodes"
    assert max(counts) == 2
    assert counts[-1] == 2


def test_in_exact_mode_the_number_of_threads_changes_no_bit(make_backend: MakeBackend) -> None:
    bench = LogitBench(make_backend())
    compared = list(_threads(bench, (1, 2)))
    assert compared == [("a request computed with 1 of 2 threads (--adapt-threads)", None)]
