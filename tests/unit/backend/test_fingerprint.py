from pathlib import Path

from arriero.backend.fingerprint import EDGE_BYTES, Fingerprint, sample_digest

ONE = Fingerprint((("model", "small"), ("KV type", "f16")))


def test_equal_facts_have_no_differences_and_one_digest() -> None:
    same = Fingerprint((("model", "small"), ("KV type", "f16")))
    assert ONE.differences(same) == []
    assert ONE.digest == same.digest


def test_every_difference_is_named_with_both_values() -> None:
    other = Fingerprint((("model", "large"), ("layout", "unified")))
    assert ONE.differences(other) == [
        "model: large there, small here",
        "KV type: unknown there, f16 here",
        "layout: unified there, unknown here",
    ]
    assert ONE.digest != other.digest


def test_two_trainings_of_one_model_have_other_digests(tmp_path: Path) -> None:
    content = bytearray(3 * EDGE_BYTES)
    path = tmp_path / "model.gguf"
    digests: set[str] = set()
    for at in (None, 0, len(content) - 1, len(content) // 65 * 33):
        changed = bytearray(content)
        if at is not None:
            changed[at : at + 70000] = b"\x01" * len(changed[at : at + 70000])
        path.write_bytes(changed)
        digests.add(sample_digest(path))
    path.write_bytes(content[:-1])
    digests.add(sample_digest(path))
    assert len(digests) == 5


def test_a_small_file_has_a_digest(tmp_path: Path) -> None:
    (tmp_path / "small").write_bytes(b"x")
    assert sample_digest(tmp_path / "small") == sample_digest(tmp_path / "small")
