import pytest

from arriero.core.errors import DataError
from arriero.costmodel.passes import AttentionPath, Pass
from arriero.costmodel.terms import TERMS, PassCosts, TermGroup, amounts

ONE = Pass(1, AttentionPath.ONE, 1, cells=101, keys=101, scanned=256, logit_rows=1, builds=False)
CHUNK = Pass(78, AttentionPath.MANY, 1, cells=78, keys=5000, scanned=78 * 256, logit_rows=0, builds=True)


def named(one: Pass) -> dict[str, float]:
    return {name: amount for name, amount in zip(TERMS, amounts(one), strict=True) if amount}


def test_a_decode_row_has_these_amounts() -> None:
    assert named(ONE) == {
        "pass": 1, "rows_0": 1, "singles": 1, "ragged": 1, "stream": 1, "cell": 101, "one_key": 101, "one_scan": 256,
        "logits": 1, "logit_row": 1, "logit_single": 1,
    }  # fmt: skip


def test_a_chunk_has_these_amounts() -> None:
    assert named(CHUNK) == {
        "pass": 1, "build": 1, "rows_0": 16, "rows_16": 48, "rows_64": 14, "fours": 3, "singles": 2, "ragged": 1,
        "stream": 1, "cell": 78, "many_key": 5000, "many_scan": 19_968,
    }  # fmt: skip


@pytest.mark.parametrize("rows", [1, 15, 16, 17, 63, 64, 65, 256, 257, 2000])
def test_the_slopes_cover_every_row_once(rows: int) -> None:
    found = named(ONE._replace(rows=rows))
    assert sum(value for name, value in found.items() if name.startswith("rows_")) == rows


def test_the_time_of_a_pass_is_the_sum_of_its_terms() -> None:
    costs = PassCosts.of({"pass": 1000, "rows_0": 10, "one_key": 0.5, "logit_row": 3, "many_key": 7})
    assert costs.time(ONE) == 1000 + 10 + 0.5 * 101 + 3
    shares = costs.shares(ONE)
    assert shares == {TermGroup.FIXED: 1000, TermGroup.ROWS: 13, TermGroup.ATTENTION: 50.5}


def test_scaling_a_group_scales_its_share_only() -> None:
    costs = PassCosts.of({"pass": 1000, "rows_0": 10, "one_key": 0.5})
    slower = costs.scaled({TermGroup.FIXED: 1.0, TermGroup.ROWS: 2.0, TermGroup.ATTENTION: 0.5})
    assert slower.named == {**dict.fromkeys(TERMS, 0.0), "pass": 1000, "rows_0": 20, "one_key": 0.25}


def test_what_is_no_cost_is_refused() -> None:
    with pytest.raises(DataError, match=r"dance: no term of a pass; the terms are pass, build"):
        PassCosts.of({"dance": 1})
    with pytest.raises(DataError, match=r"build: -1\.0 us is no cost"):
        PassCosts.of({"build": -1})
    with pytest.raises(DataError, match="nan us is no cost"):
        PassCosts.of({"build": float("nan")})
    with pytest.raises(DataError, match="2 costs for"):
        PassCosts((1.0, 2.0))
