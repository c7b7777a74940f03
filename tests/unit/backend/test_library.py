import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from arriero.backend.library import check_abi
from arriero.core.errors import BindingMismatch

WITHOUT_BINDING = """
import sys
sys.modules["llama_cpp"] = None
from arriero.backend.library import process_start
from arriero.core.errors import BindingMismatch
try:
    process_start()
except BindingMismatch as problem:
    print(problem)
"""
OTHER_VERSION = """
import llama_cpp
llama_cpp.__version__ = "0.2.1"
from arriero.backend.library import load_library
from arriero.core.errors import BindingMismatch
try:
    load_library()
except BindingMismatch as problem:
    print(problem)
"""


def said_by(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_missing_binding_is_told_in_one_line_with_the_remedy() -> None:
    said = said_by(WITHOUT_BINDING)
    assert said.count("\n") == 1
    assert "pip install 'arriero[llama]'" in said


@pytest.mark.model
def test_another_version_of_the_binding_is_refused() -> None:
    assert "llama-cpp-python 0.2.1 is installed, 0.3.36 is needed" in said_by(OTHER_VERSION)


def test_a_library_whose_structures_lie_otherwise_is_refused() -> None:
    with pytest.raises(BindingMismatch, match=r"n_ctx reads 2048, not 512.*LLAMA_CPP_LIB_PATH"):
        check_abi(SimpleNamespace(n_ctx=2048))


def test_a_folder_without_a_library_is_named_as_the_cause() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_BINDING.replace('sys.modules["llama_cpp"] = None', "")],
        capture_output=True, text=True, check=False, env={**os.environ, "LLAMA_CPP_LIB_PATH": "/no/such/folder"},
    )  # fmt: skip
    assert "LLAMA_CPP_LIB_PATH names /no/such/folder: unset it, or" in done.stdout
