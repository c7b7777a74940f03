from arriero.metrics.promotions import Promotions


def test_who_starts_while_a_more_urgent_one_waits_was_promoted() -> None:
    promotions = Promotions()
    for priority in (0, 10, 0, -3):
        promotions.came(priority)
    assert not promotions.started(-3)
    assert promotions.started(10)
    assert not promotions.started(0), "an equal one waits"
    promotions.left(0)
    promotions.came(10)
    promotions.came(5)
    assert not promotions.started(5)
    assert not promotions.started(10), "nobody else waits"


def test_one_that_comes_back_waits_again() -> None:
    promotions = Promotions()
    promotions.came(1)
    assert not promotions.started(1)
    promotions.came(1)
    promotions.came(2)
    assert promotions.started(2)
