from arriero.prefix.chain_hash import ROOT, fnv1a, scope_hash


def test_the_published_vector() -> None:
    assert fnv1a(ROOT, (10, 11, 12, 13), namespace="model", salt="salt") == 0xD5392F858A10326E


def test_everything_that_a_key_holds_enters_its_hash() -> None:
    base = fnv1a(ROOT, (1, 2), namespace="ab", salt="c")
    others = {
        fnv1a(ROOT + 1, (1, 2), namespace="ab", salt="c"),
        fnv1a(ROOT, (2, 1), namespace="ab", salt="c"),
        fnv1a(ROOT, (1, 2), namespace="a", salt="bc"),
        fnv1a(ROOT, (1, -2), namespace="ab", salt="c"),
        fnv1a(ROOT, (1,), namespace="ab", salt="c"),
    }
    assert len(others | {base}) == 6


def test_a_scope_is_the_namespace_of_its_hashes() -> None:
    assert scope_hash(7, "tenant", (1, -(2**31))) == fnv1a(7, (1, -(2**31)), namespace="tenant", salt="")
