"""How the runs of each variant ended: counted from records, whatever was repeated."""

from hypothesis import given
from hypothesis import strategies as st

from arriero.lab.ab.endings import endings_of
from arriero.record.cpu_lab.ab import SideEndings, StatusCount
from arriero.record.cpu_lab.ab_run import AbPhase, AbRecord, SideName
from arriero.record.cpu_lab.run_log import Status, latest_per_id


def record(number: int, variant: SideName, status: Status, *, phase: AbPhase = AbPhase.AB) -> AbRecord:
    return AbRecord(
        run_id="r", invocation_id=f"{phase}:{number}:{variant}", status=status, phase=phase, pair=number, side=variant,
        variant=variant, place=0, execution_index=number, session=0, started_at="t", completed_at="t", command=(),
        environment={}, cpus=None, return_code=None, elapsed_s=1.0, user_s=None, system_s=None, peak_rss_kib=None,
        values={}, text_sha256=None, text_tokens=(), library={}, problem=None, stdout="", stderr="", before=None,
        after=None,
    )  # fmt: skip


def test_each_side_has_its_own_count_of_each_way_to_end() -> None:
    found = endings_of([
        record(0, "a", Status.SUCCESS, phase=AbPhase.WARM_UP),
        record(0, "b", Status.TIMED_OUT, phase=AbPhase.WARM_UP),
        record(0, "b", Status.TIMED_OUT, phase=AbPhase.WARM_UP),
        record(0, "b", Status.SUCCESS, phase=AbPhase.WARM_UP),
        record(0, "a", Status.FAILED),
        record(0, "a", Status.SUCCESS),
        record(0, "b", Status.TIMED_OUT),
    ])
    assert found.a == SideEndings(
        num_runs=3, unsuccessful=(StatusCount(status=Status.FAILED, num_runs=1, num_repeated=1),)
    )
    assert found.b == SideEndings(
        num_runs=4, unsuccessful=(StatusCount(status=Status.TIMED_OUT, num_runs=3, num_repeated=2),)
    )


def test_without_records_nothing_has_ended() -> None:
    assert endings_of([]).a == endings_of([]).b == SideEndings(num_runs=0, unsuccessful=())


SIDES: st.SearchStrategy[SideName] = st.sampled_from(["a", "b"])


@given(st.lists(st.builds(record, st.integers(0, 3), SIDES, st.sampled_from(Status)), max_size=30))
def test_every_record_is_counted_once_and_only_the_last_of_its_kind_is_not_repeated(records: list[AbRecord]) -> None:
    found = endings_of(records)
    counts = [each for side in (found.a, found.b) for each in side.unsuccessful]
    assert found.a.num_runs + found.b.num_runs == len(records)
    assert sum(each.num_runs for each in counts) == sum(each.status is not Status.SUCCESS for each in records)
    standing = sum(each.status is not Status.SUCCESS for each in latest_per_id(records).values())
    assert sum(each.num_runs - each.num_repeated for each in counts) == standing
