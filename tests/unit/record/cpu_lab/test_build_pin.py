from pathlib import Path

import msgspec
import pytest

from arriero.core.errors import DataError
from arriero.record.cpu_lab.build_pin import CHECKED, SCHEMA, BuildPin, encode_pin, pin_differences, pin_of, read_pin
from arriero.record.cpu_lab.environment import LibraryFile
from tests.unit.lab.machine.machines import LIBRARY

replace = msgspec.structs.replace
WHOLE = pin_of(LIBRARY, "for a test")


def test_a_pin_of_everything_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "pin.json"
    path.write_bytes(encode_pin(WHOLE))
    assert read_pin(path) == WHOLE
    assert pin_differences(WHOLE, LIBRARY) == ()
    assert all(getattr(WHOLE, name) is not None for name in CHECKED)


def test_toml_is_read_and_what_is_left_out_is_not_checked(tmp_path: Path) -> None:
    path = tmp_path / "pin.toml"
    path.write_text(f'schema = "{SCHEMA}"\nbinding = "0.3.36"\n')
    pin = read_pin(path)
    assert pin_differences(pin, LIBRARY) == ()
    assert pin_differences(pin, replace(LIBRARY, commit="x", features=(), files=())) == ()


def test_every_difference_is_one_line() -> None:
    other = replace(
        LIBRARY,
        binding="0.4.0",
        ggml=None,
        commit="fffffff",
        features=("AVX2", "AVX512"),
        compilers=(),
        files=(LIBRARY.files[0], LibraryFile(name="libnew.so", bytes=1, sha256="c" * 64)),
    )
    assert pin_differences(WHOLE, other) == (
        "binding: 0.4.0 here, 0.3.36 pinned",
        "ggml: unknown here, 0.25.3 pinned",
        "commit: fffffff here, 0c1e570 pinned",
        "features: AVX512 is compiled in here, and not pinned",
        "features: FMA is not compiled in here, and pinned",
        "compilers: GCC: (Debian) 12.2.0 did not leave its name here, and pinned",
        "files: libllama.so is not loaded here, and pinned",
        "files: libnew.so is loaded here, and not pinned",
    )


def test_other_bytes_are_told_by_the_beginning_of_their_hashes() -> None:
    file = LIBRARY.files[0]
    changed = replace(LIBRARY, files=(replace(file, sha256="d" * 64), LIBRARY.files[1]))
    (line,) = pin_differences(WHOLE, changed)
    assert line == f"files: {file.name} has SHA-256 {'d' * 16}... here, {'a' * 16}... pinned"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "malformed JSON"),
        ("{}", "schema"),
        (f'{{"schema": "{SCHEMA}"}}', "checks nothing"),
        (f'{{"schema": "{SCHEMA}", "bindings": "1"}}', "did you mean binding"),
        (f'{{"schema": "{SCHEMA}", "files": {{"a": "short"}}}}', "files"),
        ('{"schema": "other", "binding": "1"}', "schema"),
    ],
)
def test_a_wrong_pin_is_told_by_field(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "pin.json"
    path.write_text(text)
    with pytest.raises(DataError, match=says):
        read_pin(path)


def test_the_shipped_descriptions_can_be_read(root: Path) -> None:
    shipped = sorted((root / "definitions" / "lab").glob("build-*.toml"))
    assert shipped
    for path in shipped:
        pin = read_pin(path)
        assert isinstance(pin, BuildPin)
        assert pin.files is None  # no two builds have the same bytes
