"""The page of explained requests."""

from dataclasses import replace
from pathlib import Path

import pytest

from arriero.metrics.explain_parts import NOTHING, PARTS, Basis, Ending, Explanation, Moments, Share, Split, State
from arriero.report.drawing import as_picture
from arriero.report.explain_journal import ExplainedRun, explain_journal
from arriero.report.explain_plots import explain_pictures
from arriero.report.explain_view import MOST_BARS, MOST_TOLD, WORDS, bars_of, bars_words, explain_document, slowest
from arriero.report.markdown import as_markdown
from arriero.report.page import as_html
from tests.unit.report.pages import outline


def asked(number: int, total: int, state: State = State.LENGTH) -> Explanation:
    """A request that arrives at its number; every part but the first takes a millisecond, the first the rest."""
    values = [total - 1_000 * (len(PARTS) - 1), *[1_000] * (len(PARTS) - 1)]
    return Explanation(
        request_id=number,
        ending=Ending(state, None if state is State.LENGTH else "user"),
        moments=Moments(arrival=number, started=number, first_token=number, last_token=number, until=number + total),
        prompt_tokens=9,
        cached_tokens=0,
        num_tokens=4,
        num_preemptions=1,
        until_first=Split(tuple(values)),
        between=NOTHING,
        closing=NOTHING,
        others=(Share(77, 900), Share(None, 100)),
        leaders=(Share(78, 1_000),),
        gaps=(),
        basis=Basis.ROWS,
    )


def run(*requests: Explanation, num_lost: int = 0) -> ExplainedRun:
    return ExplainedRun(name="some", evidence="MEASURED", requests=requests, basis=Basis.ROWS, num_lost=num_lost)


@pytest.fixture(scope="module")
def real(simulated: Path) -> ExplainedRun:
    """A run whose memory was so small that requests were preempted."""
    (found,) = explain_journal(simulated / "tight.journal")
    return found


@pytest.fixture(scope="module")
def page(real: ExplainedRun) -> str:
    pictures = {drawn.key: as_picture(drawn) for drawn in explain_pictures([real])}
    return as_html(explain_document([real], pictures))


def test_a_simulation_whose_memory_was_short_has_every_word_of_its_page(real: ExplainedRun, page: str) -> None:
    found = outline(page)
    assert found.headings == ["tight", "How to read this"]
    assert {"run-1", "reading", "bars-run-1"} <= set(found.ids)
    assert {"svg", "table", "details", "figcaption"} <= found.tags
    for word in ("queue", "preempted", "recomputed", "own prefill", "others&#x27; prefill"):
        assert word in page.replace("&#39;", "&#x27;")
    assert page.index("SIMULATED") < page.index("<main>")
    assert all(each.split.total == each.total for each in real.requests)


def test_the_same_run_gives_the_same_bytes(real: ExplainedRun, page: str) -> None:
    pictures = {drawn.key: as_picture(drawn) for drawn in explain_pictures([real])}
    assert as_html(explain_document([real], pictures)) == page


def test_the_slowest_are_drawn_by_their_arrival_and_the_caption_says_of_how_many() -> None:
    many = run(*(asked(number, 20_000 + number % 7 * 1_000) for number in range(100)))
    bars = bars_of(many)
    assert len(bars.bars) == MOST_BARS
    ids = [bar.request_id for bar in bars.bars]
    assert ids == sorted(ids)
    assert set(ids) == {each.request_id for each in slowest(many.requests, MOST_BARS)}
    assert bars_words(bars).startswith("The 64 slowest of 100 requests, by arrival.")
    assert "cross" not in bars_words(bars)
    assert "A cross marks one without a normal end." in bars_words(bars_of(run(asked(1, 20_000, State.CANCELLED))))


def test_every_part_has_a_word_a_colour_and_a_place_in_the_sum() -> None:
    text = as_markdown(explain_document([run(asked(1, 30_000))], {}))
    assert set(WORDS) == set(PARTS)
    for word in WORDS.values():
        assert word in text
    assert "| together | 30.00 |" in text
    (drawn,) = explain_pictures([run(asked(1, 30_000))])
    legend = drawn.figure.axes[0].get_legend()
    assert legend is not None
    assert [each.get_text() for each in legend.get_texts()] == [WORDS[part] for part in PARTS]


def test_the_story_of_one_request_says_whom_it_waited_for() -> None:
    text = as_markdown(explain_document([run(asked(1, 30_000), asked(2, 40_000, State.CANCELLED))], {}, only=2))
    assert "Where the time of request 2 went" in text
    assert "Request 2: 40.00 ms, 4 tokens, cancelled (user)" in text
    assert "Request 1" not in text
    assert "| 77 | 0.900 |" in text
    assert "| 78 | 1.000 |" in text


def test_the_stories_of_the_slowest_only_are_told() -> None:
    many = run(*(asked(number, 20_000 + number) for number in range(2 * MOST_TOLD)))
    text = as_markdown(explain_document([many], {}))
    assert text.count("### Request ") == MOST_TOLD
    assert f"### Request {2 * MOST_TOLD - 1}:" in text


def test_a_run_without_requests_and_one_with_a_hole_say_so() -> None:
    assert "No request to explain." in as_markdown(explain_document([run()], {}))
    assert list(explain_pictures([run()])) == []
    text = as_markdown(explain_document([run(asked(1, 30_000), num_lost=3)], {}))
    assert "3 requests were alive where records are missing" in text


def test_how_steps_were_divided_stands_on_the_page() -> None:
    by_cost = replace(run(asked(1, 30_000)), basis=Basis.COST)
    assert "in proportion to rows" in as_markdown(explain_document([run(asked(1, 30_000))], {}))
    assert "by what the cost model says" in as_markdown(explain_document([by_cost], {}))
