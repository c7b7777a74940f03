"""The CPU backend's work buffer begins at a page, and no bit of a result changes by it."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.model

SCRIPT = """
import ctypes, sys
from pathlib import Path
import numpy as np
from arriero.backend import work_buffer
from arriero.backend.bench_context import BenchContext, BenchOptions
from arriero.backend.library import process_start
from arriero.backend.loaded_files import mappings_of
from arriero.backend.llama_model import LlamaModel

process_start()
model = LlamaModel(Path(sys.argv[1]))
tokens = np.arange(1000, 1200, dtype=np.int32)
answers = []

def answer():
    context = BenchContext(model, BenchOptions(num_cells=256, batch=256, micro_batch=256, threads=1, batch_threads=1))
    answers.append(context.greedy(tokens, 8, frozenset()))
    context.close()

answer()
print(work_buffer.align_work_buffers())
answer()
taken = []
valloc = ctypes.CDLL(None).valloc
valloc.restype, valloc.argtypes = ctypes.c_void_p, (ctypes.c_size_t,)

@ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)
def watched(size):
    taken.append((size, valloc(size)))
    return taken[-1][1]

text = Path("/proc/self/maps").read_text()
for address, can_write in work_buffer._slots(mappings_of(text)):
    assert ctypes.c_void_p.from_address(address).value == ctypes.cast(valloc, ctypes.c_void_p).value
    work_buffer._point(address, ctypes.cast(watched, ctypes.c_void_p).value, can_write=can_write)
answer()
print(len(taken) > 0, all(at % 4096 == 0 for _, at in taken), max(size for size, _ in taken) > 10_000)
print(answers[0] == answers[1] == answers[2], len(answers[0]))
model.close()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="slots of ELF libraries")
def test_llama_cpp_takes_its_work_buffer_where_it_is_told_to(short_path: Path) -> None:
    found = subprocess.run([sys.executable, "-c", SCRIPT, str(short_path)], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert found.stdout.split() == ["aligned", "True", "True", "True", "True", "8"]
