from collections.abc import Callable

import pytest

from arriero.core.errors import ConfigError
from arriero.core.ids import SavedKey, SequenceId
from arriero.kv.reuse import RetainedRun, ReuseRules


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: ReuseRules(min_partial=0), "min_partial of the reuse rules must be at least 1, not 0"),
        (lambda: ReuseRules(min_suffix=0), "min_suffix of the reuse rules must be at least 1, not 0"),
        (lambda: ReuseRules(max_retained=-1), "max_retained of the reuse rules must be at least 0, not -1"),
        (lambda: ReuseRules(max_age=0), "max_age of the reuse rules must be above 0, or None for no limit, not 0"),
        (lambda: ReuseRules(min_restored=0), "min_restored of the reuse rules must be at least 1, not 0"),
        (lambda: ReuseRules(host_tokens=-1), "host_tokens of the reuse rules must be at least 0, not -1"),
    ],
)
def test_rules_that_make_no_sense_are_refused_by_name(make: Callable[[], ReuseRules], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        make()


def test_a_run_is_on_an_id_or_saved() -> None:
    def kept(sequence_id: SequenceId | None, key: SavedKey | None) -> RetainedRun:
        return RetainedRun(sequence_id=sequence_id, key=key, scope="", length=3, tick=1, num_hits=0, is_on_disk=False)

    assert not kept(SequenceId(0), None).is_saved
    assert kept(None, SavedKey(1)).is_saved
