import shutil

import pytest

from arriero.lab.perf.assembly import find_function, read_assembly
from arriero.lab.perf.library_folder import library_folder
from arriero.lab.perf.tools import find_tool

pytestmark = pytest.mark.model


def test_a_kernel_of_the_library_in_use_is_found_and_its_loop_is_read() -> None:
    if shutil.which("objdump") is None:
        pytest.skip("needs objdump")
    objdump = find_tool("objdump")
    facts = read_assembly(find_function(library_folder(None), "ggml_vec_dot_q8_0_q8_0", objdump), objdump)
    assert facts.library.startswith("libggml-cpu")
    assert facts.is_whole
    assert facts.inner_loops
    assert facts.mix.widths
