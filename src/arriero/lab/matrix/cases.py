"""Cases of a matrix and the invocations that they become, in the order in which they run."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

from arriero.lab.matrix.config import ReadConfig, check_product, plain_cases
from arriero.record.cpu_lab.matrix import MEASURED, WARM_UP, MatrixCase, Phase
from arriero.record.cpu_lab.worker import KvCacheType


class Invocation(NamedTuple):
    """One process to be run.

    Attributes:
        model_id: whose turn it is.
        case: the setting.
        phase: warm-up or measured.
        number: in its phase, from 1.
    """

    model_id: str
    case: MatrixCase
    phase: Phase
    number: int

    @property
    def invocation_id(self) -> str:
        """The word under which its record is found."""
        return f"{self.model_id}:{self.case.case_id}:{self.phase}:{self.number}"


def matrix_cases(read: ReadConfig) -> tuple[MatrixCase, ...]:
    """Every case, each with every KV variant; what stands twice is run once, at its first place.

    Raises:
        DataError: a context does not hold its prompt and answer.
    """
    plain = plain_cases(read.config)
    cases = [_case(fields, key=kv.key, value=kv.value) for fields in plain for kv in read.config.kv_cache_variants]
    check_product(read, cases)
    return tuple(dict.fromkeys(cases))


def invocations(
    model_ids: Sequence[str], cases: Sequence[MatrixCase], *, warmup_runs: int, repetitions: int
) -> Iterator[Invocation]:
    """All of a run: by model, by case, warm-ups first."""
    warm_ups: Sequence[tuple[Phase, int]] = [(WARM_UP, number) for number in range(1, warmup_runs + 1)]
    measured: Sequence[tuple[Phase, int]] = [(MEASURED, number) for number in range(1, repetitions + 1)]
    for model_id, case in product(model_ids, cases):
        for phase, number in (*warm_ups, *measured):
            yield Invocation(model_id, case, phase, number)


def _case(fields: Mapping[str, Any], *, key: KvCacheType, value: KvCacheType) -> MatrixCase:
    return MatrixCase(**fields, kv_key_type=key, kv_value_type=value)
