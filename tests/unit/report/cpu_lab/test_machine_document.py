import msgspec

from arriero.report.cpu_lab.machine_document import machine_document
from arriero.report.markdown import as_markdown
from arriero.report.page import as_html
from tests.unit.lab.machine.machines import ENVIRONMENT, RESULT

replace = msgspec.structs.replace


def test_ceilings_stand_under_their_label() -> None:
    text = as_markdown(machine_document(RESULT))
    assert "# Machine: Some CPU, 2 CPUs" in text
    assert "**Ceilings (MICROBENCHMARK)**" in text
    assert "| memory-read | stream | 1 | 11.0 | 12.0 | GB/s | 18.2 % | 3 |" in text
    assert "| steal | 2.0% went elsewhere | wait |" in text
    assert "Not measured: int8-avx_vnni at 1 threads (gcc 9 cannot build it)." in text
    assert RESULT.environment.fingerprint in text


def test_doubt_comes_first() -> None:
    doubtful = replace(RESULT, busy="others use 1.5 cores", quick=True, warnings=())
    text = as_markdown(machine_document(doubtful))
    assert "Doubtful: others use 1.5 cores." in text
    assert "quick" in text.splitlines()[2]
    assert "**OK.** None." in text


def test_facts_alone_make_a_report_and_a_page() -> None:
    bare = replace(
        RESULT,
        ceilings=(),
        method=None,
        array_bytes=None,
        reasons={"ceilings": "not asked for"},
        environment=replace(ENVIRONMENT, library=None, reasons={"library": "no binding"}),
    )
    document = machine_document(bare)
    assert "Not measured: ceilings (not asked for)." in as_markdown(document)
    assert "no binding" in as_html(document)
