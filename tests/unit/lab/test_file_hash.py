"""Hashes of files."""

import hashlib
from pathlib import Path

import pytest

from arriero.core.errors import ConfigError
from arriero.lab.file_hash import file_sha256


def test_the_hash_is_of_the_content_as_it_is_now(tmp_path: Path) -> None:
    path = tmp_path / "a"
    for data in (b"one", b"two"):
        path.write_bytes(data)
        assert file_sha256(path) == hashlib.sha256(data).hexdigest()


def test_what_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is a directory; name a file that can be read"):
        file_sha256(tmp_path)
