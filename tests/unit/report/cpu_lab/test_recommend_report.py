"""The page of a recommendation."""

from pathlib import Path

from arriero.report.cpu_lab.folder import pictures_by_key, write_report
from arriero.report.cpu_lab.recommend_document import recommend_document
from arriero.report.cpu_lab.recommend_pictures import recommend_pictures
from arriero.report.markdown import as_markdown
from tests.unit.record.cpu_lab.recommendations import BEST, PRESENT, candidate, judgement, run
from tests.unit.report.pages import outline


def test_the_page_says_what_to_use_and_how_sure_that_is() -> None:
    words = as_markdown(recommend_document(run(), {}))
    assert words.startswith("# Recommendation: Q4_0, 2 threads\n\nMEASURED\n")
    assert f"For 512 prompt tokens and 128 generated ones: `{BEST}` with `--threads 2`." in words
    row = f"| {PRESENT} | 2 threads | 1,2 threads | 0.8000 | 0.7692 to 0.8333 | 1.00 % | 97.5 % | 12 | faster |"
    assert row in words
    assert "| cpu | `fast` |" in words
    assert words.count("(MEASURED)") == 3


def test_what_was_not_resolved_or_refused_is_said() -> None:
    stays = judgement(is_better=False, verdict="not_resolved", low=None, high=None, floor=None)
    files = (candidate(PRESENT), candidate(BEST, refused="nothing says how good its answers are"))
    choices = (run().choices[0].__class__(file=PRESENT, counts=run().present, judged=stays),)
    found = run(files=files, choices=choices, best=PRESENT, judged=None, busy="others were busy", failures=1)
    words = as_markdown(recommend_document(found, {}))
    assert "Nothing was faster beyond the noise" in words
    assert "not considered: nothing says how good its answers are" in words
    assert "| not resolved |" in words
    assert "Doubtful: others were busy." in words
    assert "1 run failed; it is in the log and in no figure." in words


def test_it_has_figures_of_threads_and_files(tmp_path: Path) -> None:
    drawn = list(recommend_pictures(run()))
    assert [each.key for each in drawn] == ["recommend-threads", "recommend-files"]
    paths = write_report(recommend_document(run(), pictures_by_key(drawn)), drawn, tmp_path)
    assert {"recommend-threads", "recommend-files"} <= set(outline(paths[1].read_text()).ids)
