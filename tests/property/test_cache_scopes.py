"""Cache scopes: salts and sessions narrow, keys never meet, and no choice of texts makes two of them one."""

from collections.abc import Sequence

from hypothesis import assume, given
from hypothesis import strategies as st

from arriero.core.config import CacheScope
from arriero.http.scopes import Sharing, belongs_to, scope_of, shown, tenant_scope

# Texts that look like parts of a scope, so that a careless encoding would mix them up.
TRICKS = ("", ".", "k", "s", "x", "all", "all.x", "a.b", "a.", ".a", "k0.s0", "a/b", "a=b", "1:a", "\x00", "None")
TEXTS = st.one_of(st.sampled_from(TRICKS), st.text(max_size=6))
KEYS = TEXTS.filter(bool)
MODES = st.sampled_from(CacheScope)
KEYED = st.sampled_from((CacheScope.SESSION, CacheScope.KEY))
SESSIONS = st.none() | TEXTS
SALTS = st.none() | TEXTS.filter(bool)
SHARINGS = st.builds(Sharing, SESSIONS, SALTS)


def tenant(key: str | None) -> str | None:
    return None if key is None else tenant_scope(key)


@given(MODES, st.none() | KEYS, SHARINGS, SHARINGS)
def test_two_requests_of_one_key_share_exactly_if_what_counts_is_equal(
    mode: CacheScope, key: str | None, one: Sharing, other: Sharing
) -> None:
    first, second = scope_of(mode, tenant(key), one), scope_of(mode, tenant(key), other)
    if mode is CacheScope.SESSION and not (one.session_id and other.session_id):
        assert first is None or second is None
        return
    is_same = one.cache_salt == other.cache_salt
    if mode is CacheScope.SESSION:
        is_same = is_same and one.session_id == other.session_id
    assert (first == second) is is_same


@given(KEYED, KEYS, KEYS, SHARINGS, SHARINGS)
def test_two_keys_never_meet_whatever_they_send(
    mode: CacheScope, key: str, other: str, one: Sharing, two: Sharing
) -> None:
    assume(key != other)
    first, second = scope_of(mode, tenant_scope(key), one), scope_of(mode, tenant_scope(other), two)
    assert first is None or first != second


@given(KEYED, KEYS, SHARINGS, SHARINGS)
def test_who_needs_no_key_never_meets_who_does(mode: CacheScope, key: str, one: Sharing, other: Sharing) -> None:
    first = scope_of(mode, tenant_scope(key), one)
    assert first is None or first != scope_of(mode, None, other)


@given(st.none() | KEYS, st.none() | KEYS, SHARINGS)
def test_globally_keys_do_not_count(key: str | None, other: str | None, sharing: Sharing) -> None:
    mode = CacheScope.GLOBAL
    assert scope_of(mode, tenant(key), sharing) == scope_of(mode, tenant(other), sharing)


def share(mode: CacheScope, ends: Sequence[tuple[str | None, Sharing]]) -> bool:
    scopes = [scope_of(mode, tenant(key), sharing) for key, sharing in ends]
    return None not in scopes and len(set(scopes)) == 1


@given(MODES, st.none() | KEYS, st.none() | KEYS, SHARINGS, SHARINGS, SALTS, SALTS)
def test_a_salt_narrows_and_never_widens(
    mode: CacheScope,
    key: str | None,
    other: str | None,
    one: Sharing,
    two: Sharing,
    salt: str | None,
    salt2: str | None,
) -> None:
    bare = [(key, Sharing(one.session_id)), (other, Sharing(two.session_id))]
    salted = [(key, Sharing(one.session_id, salt)), (other, Sharing(two.session_id, salt2))]
    if share(mode, salted):
        assert share(mode, bare)


@given(st.none() | KEYS, st.none() | KEYS, SHARINGS, SHARINGS)
def test_each_mode_shares_no_more_than_the_wider_one(
    key: str | None, other: str | None, one: Sharing, two: Sharing
) -> None:
    ends = [(key, one), (other, two)]
    if share(CacheScope.SESSION, ends):
        assert share(CacheScope.KEY, ends)
    if share(CacheScope.KEY, ends):
        assert share(CacheScope.GLOBAL, ends)


@given(MODES, KEYS.filter(lambda key: len(key) > 3), SHARINGS)
def test_nothing_that_was_sent_can_be_read_from_a_scope(mode: CacheScope, key: str, sharing: Sharing) -> None:
    scope = scope_of(mode, tenant_scope(key), sharing)
    if scope is not None:
        for part in scope.split("."):
            assert part == "all" or (len(part) == 33 and part[0] in "ksx" and int(part[1:], 16) >= 0)
        assert len(shown(scope)) == 8


@given(KEYED, KEYS, KEYS, SHARINGS)
def test_a_key_may_look_into_its_own_scopes_only(mode: CacheScope, key: str, other: str, sharing: Sharing) -> None:
    scope = scope_of(mode, tenant_scope(key), sharing)
    assume(scope is not None and key != other)
    assert scope is not None
    assert belongs_to(scope, mode, tenant_scope(key))
    assert not belongs_to(scope, mode, tenant_scope(other))
    assert not belongs_to(scope, mode, None)
    assert belongs_to(scope, CacheScope.GLOBAL, tenant_scope(other))


def test_scopes_stay_the_same_over_restarts() -> None:
    scope = scope_of(CacheScope.SESSION, tenant_scope("sesame"), Sharing("talk", "pepper"))
    assert scope == scope_of(CacheScope.SESSION, tenant_scope("sesame"), Sharing("talk", "pepper"))
    assert scope_of(CacheScope.KEY, None, Sharing()) == scope_of(CacheScope.GLOBAL, None, Sharing()) == "all"
