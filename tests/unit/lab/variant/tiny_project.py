"""A cmake project of two libraries, small enough to be built in a second."""

import tarfile
from pathlib import Path

CMAKE = """cmake_minimum_required(VERSION 3.16)
project(tiny C)
add_library(helper SHARED helper.c)
add_library(tiny SHARED tiny.c extra.c)
target_link_libraries(tiny PRIVATE helper)
"""
TINY = """#include <stddef.h>

int helper(int value);

int twice(int value) {
    int sum   = value;
    sum = sum + value;
    return helper(sum);
}

int untouched(int value) {
    return value - 1;
}
"""
EXTRA = "int extra(int value) {\n    return value * 3;\n}\n"
HELPER = "int helper(int value) {\n    return value ^ 1;\n}\n"
EDIT = """schema_version = "arriero-lab-edit-v1"
name = "four-times"
says = "Doubles what is doubled."
package = "tiny"
version = "1.0"

[[changes]]
file = "tiny.c"
action = "insert-after"
text = '''
    sum *= 2;
'''
anchor = { pattern = '^sum = sum' }
"""


def write_project(root: Path) -> Path:
    """The sources in a folder."""
    root.mkdir(parents=True, exist_ok=True)
    for name, text in (("CMakeLists.txt", CMAKE), ("tiny.c", TINY), ("extra.c", EXTRA), ("helper.c", HELPER)):
        (root / name).write_text(text)
    return root


def write_archive(path: Path, scratch: Path) -> Path:
    """The same as a source package, in which they are a part as llama.cpp is of its binding."""
    package = scratch / "binding-1.0"
    write_project(package / "vendor" / "llama.cpp")
    (package / "setup.py").write_text("raise SystemExit('not run')\n")
    with tarfile.open(path, "w:gz") as archive:
        archive.add(package, arcname=package.name)
    return path


def write_edit(path: Path, text: str = EDIT) -> Path:
    """The edit in a file."""
    path.write_text(text)
    return path
