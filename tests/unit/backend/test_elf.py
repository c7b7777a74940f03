"""Which slots a library calls a function through, against libraries that were made for it."""

import contextlib
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from arriero.backend.elf import ElfImports
from arriero.core.errors import DataError
from tests.unit.backend.elf_image import AARCH64, GLOB_DAT, JUMP_SLOT, RELATIVE, SHIFT, elf_image

NAMES = st.text("abcdefgh_", min_size=1, max_size=6)
KINDS = st.sampled_from([JUMP_SLOT, GLOB_DAT, RELATIVE])
IMPORTS = st.lists(st.tuples(NAMES, KINDS, st.integers(0, 2**40)), max_size=8)


@given(IMPORTS, NAMES, st.sampled_from([0, SHIFT, 0x40_0000]))
def test_the_slots_of_a_function_are_all_that_the_loader_fills_in(
    imports: list[tuple[str, int, int]], name: str, first: int
) -> None:
    found = ElfImports(elf_image(imports, first=first))
    wanted = dict.fromkeys(slot for each, kind, slot in imports if each == name and kind != RELATIVE)
    assert found.slots(name) == tuple(wanted)
    assert found.first_address == first


def test_a_name_that_another_one_begins_with_is_another_function() -> None:
    found = ElfImports(elf_image([("_ZnamRKSt9nothrow_t", JUMP_SLOT, 8), ("_Znam", JUMP_SLOT, 16)]))
    assert found.slots("_Znam") == (16,)
    assert found.slots("_Zna") == ()


def test_kinds_of_relocations_belong_to_a_machine() -> None:
    imports = [("f", 1026, 8), ("f", 1025, 16), ("f", JUMP_SLOT, 24)]
    assert ElfImports(elf_image(imports, machine=AARCH64)).slots("f") == (8, 16)
    assert ElfImports(elf_image(imports, machine=8)).slots("f") == ()


@given(IMPORTS, st.data())
def test_whatever_is_cut_off_is_an_error_or_no_harm(imports: list[tuple[str, int, int]], data: st.DataObject) -> None:
    image = elf_image(imports)
    cut = image[: data.draw(st.integers(0, len(image) - 1))]
    try:
        found = ElfImports(cut).slots("f")
    except DataError:
        return
    assert set(found) <= {slot for _, _, slot in imports}


@pytest.mark.parametrize(
    "data", [b"", b"MZ" + bytes(200), b"\x7fELF\x01\x01" + bytes(200), b"\x7fELF\x02\x02" + bytes(200)]
)
def test_what_is_no_such_library_is_refused(data: bytes) -> None:
    with pytest.raises(DataError, match="ELF"):
        ElfImports(data)


@given(st.binary(max_size=400))
@example(bytes(26) + b"\xff" * 100)
def test_rubbish_behind_the_right_first_bytes_is_refused_or_read(rubbish: bytes) -> None:
    with contextlib.suppress(DataError):
        ElfImports(b"\x7fELF\x02\x01" + rubbish).slots("f")


@pytest.mark.skipif(sys.platform != "linux", reason="ELF files of this system are read")
def test_a_library_of_this_system_is_read() -> None:
    names: list[str | None] = [getattr(each, "__file__", None) for each in list(sys.modules.values())]
    extensions = [Path(name) for name in names if name is not None]
    libraries = [path for path in extensions if path.suffix == ".so"]
    assert libraries
    assert any(ElfImports(path.read_bytes()).slots("PyLong_FromLong") for path in libraries)
