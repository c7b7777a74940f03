from pathlib import Path

import pytest

from arriero.core.errors import DataError
from arriero.record.cpu_lab.variant import read_variant, write_variant
from tests.unit.record.cpu_lab.kernel_files import OTHER_SHA, SHA, variant_result


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "variant.json"
    write_variant(path, variant_result())
    assert read_variant(path) == variant_result()


def test_objects_that_do_not_differ_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "variant.json"
    write_variant(path, variant_result())
    name = '"name":"b.cpp.o","baseline_sha256":"{}"'
    text = path.read_text()
    assert name.format(SHA) in text
    path.write_text(text.replace(name.format(SHA), name.format(OTHER_SHA)))
    with pytest.raises(DataError, match=r"differing\[0\]: b\.cpp\.o has the same bytes in both"):
        read_variant(path)


def test_an_edit_that_reaches_no_code_is_known_as_such() -> None:
    assert variant_result().changes_code
    assert not variant_result(symbols=()).changes_code
