"""From the records of a matrix to rows; the latest record of each invocation is the one that counts."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from arriero.lab.analysis.rows import Row
from arriero.record.cpu_lab.conditions import ConditionSample
from arriero.record.cpu_lab.matrix import WARM_UP, ExecutorKind, MatrixRecord
from arriero.record.cpu_lab.run_key import RunKey
from arriero.record.cpu_lab.run_log import Status, latest_per_id

SMOKE_WARNING: Final = (
    "some figures were parsed from a captured output and measured by nobody here; their executor is smoke"
)
QUIET_CORES: Final = 0.25
"""Cores that others may keep busy, or the hypervisor take, before a reader should know."""
_WORD: Final = 12


class Rows(NamedTuple):
    """Measured successes as rows, and what else there was."""

    rows: tuple[Row, ...]
    excluded: Mapping[str, int]  # why -> how many
    statuses: Mapping[str, int]  # of all latest records
    warnings: tuple[str, ...]


def rows_of(records: Iterable[MatrixRecord]) -> Rows:
    """Every latest record that measured and succeeded; a retry takes the place of what it repeats."""
    rows: list[Row] = []
    excluded: Counter[str] = Counter()
    statuses: Counter[str] = Counter()
    latest = latest_per_id(records)
    for record in latest.values():
        statuses[record.status.value] += 1
        if record.phase == WARM_UP:
            excluded["warm-up"] += 1
        elif record.status is not Status.SUCCESS:
            excluded[record.status.value] += 1
        else:
            rows.append(_row(record))
    return Rows(tuple(rows), dict(excluded), dict(statuses), tuple(_warnings(list(latest.values()))))


def key_of(record: MatrixRecord) -> RunKey:
    """The setting of a record; threads are one number there, used for both phases."""
    case = record.case
    return RunKey(
        evidence=record.evidence,
        executor=record.executor.value,
        machine=record.environment.fingerprint[:_WORD],
        library=library_word(record.library),
        model=record.model_logical_id,
        model_sha256=record.model_sha256,
        weights=record.quantization,
        threads=case.threads,
        batch_threads=case.threads,
        prompt_tokens=case.prompt_tokens,
        generated_tokens=case.generated_tokens,
        context_size=case.context_size,
        batch_size=case.batch_size,
        micro_batch=case.ubatch_size,
        kv_key=case.kv_key_type.value,
        kv_value=case.kv_value_type.value,
        flash_attention=record.flash_attention.value,
        mmap=record.mmap_enabled,
    )


def library_word(hashes: Mapping[str, str]) -> str:
    """A short word for a set of shared libraries; `unknown` for none."""
    if not hashes:
        return "unknown"
    text = "\n".join(f"{name} {digest}" for name, digest in sorted(hashes.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:_WORD]


def _warnings(records: Sequence[MatrixRecord]) -> Iterator[str]:
    if any(record.executor is ExecutorKind.SMOKE for record in records):
        yield SMOKE_WARNING
    if (company := company_words([(record.before, record.after) for record in records])) is not None:
        yield company


def company_words(samples: Sequence[tuple[ConditionSample | None, ConditionSample | None]]) -> str | None:
    """How many invocations had company, or may have had; by the machine before and after each; None for none."""
    found = sum(any(_has_company(each) for each in pair) for pair in samples)
    unknown = sum(any(each is not None and each.other_cores is None for each in pair) for pair in samples)
    words: list[str] = []
    if found:
        words.append(
            f"{_invocations(found)} of {len(samples)} ran beside others that kept more than {QUIET_CORES} cores busy"
        )
    if unknown:
        words.append(f"what others did is not known around {_invocations(unknown)} of {len(samples)}")
    return "; ".join(words) or None


def _invocations(number: int) -> str:
    return "1 invocation" if number == 1 else f"{number} invocations"


def _has_company(sample: ConditionSample | None) -> bool:
    return sample is not None and (sample.other_cores or 0.0) > QUIET_CORES


def _row(record: MatrixRecord) -> Row:
    results = record.parsed_results
    result = results[0] if len(results) == 1 else None
    return Row(
        key=key_of(record),
        run_id=record.run_id,
        invocation_id=record.invocation_id,
        repetition=record.repetition,
        prefill=None if result is None else result.prompt_tokens_per_second,
        decode=None if result is None else result.generation_tokens_per_second,
        elapsed_s=record.elapsed_seconds,
        peak_rss_kib=record.peak_rss_kib,
        kv_cache_bytes=record.reported_kv_cache_bytes,
        model_bytes=record.model_file_size,
        problem=_problem(record),
    )


def _problem(record: MatrixRecord) -> str | None:
    """What the program measured is not what it was asked for."""
    if len(record.parsed_results) != 1:
        return f"{len(record.parsed_results)} results instead of one"
    result, case = record.parsed_results[0], record.case
    for name, found, wanted in (
        ("threads", result.thread_count, case.threads),
        ("prompt tokens", result.prompt_tokens, case.prompt_tokens),
        ("generated tokens", result.generated_tokens, case.generated_tokens),
        ("depth", result.depth, case.depth),
    ):
        if found is not None and found != wanted:
            return f"measured with {found} {name} instead of {wanted}"
    return None
