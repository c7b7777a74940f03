"""Small configurations and requests of the published lab."""

from collections.abc import Sequence

from hypothesis import strategies as st

from arriero.record.lab_config import LabConfig, lab_config_of
from arriero.workload.records import WorkloadClass, WorkloadRecord
from arriero.workload.tokens import PackedTokens

COST_NAMES = (
    "prefill_base_us", "prefill_per_token_us", "prefill_per_active_sequence_us", "decode_base_us",
    "decode_per_active_sequence_us", "batch_base_us", "batch_prefill_per_token_us", "batch_decode_per_sequence_us",
    "batch_active_sequence_overhead_us",
)  # fmt: skip

PUBLISHED_COSTS = (100, 8, 5, 40, 12, 80, 5, 10, 3)


def config(
    *,
    execution_mode: str = "continuous_batching",
    scheduling_policy: str = "DecodeFirst",
    max_num_sequences: int = 4,
    max_batched_tokens: int = 64,
    total_blocks: int = 64,
    block_size_tokens: int = 4,
    prefix: bool = False,
    costs: Sequence[int] = PUBLISHED_COSTS,
) -> LabConfig:
    values = {
        "schema_version": "serving-benchmark-config-v1",
        "name": "test",
        "evidence_type": "simulated",
        "execution_mode": execution_mode,
        "scheduling_policy": scheduling_policy,
        "max_num_sequences": max_num_sequences,
        "max_batched_tokens": max_batched_tokens,
        "kv_cache": {"total_blocks": total_blocks, "block_size_tokens": block_size_tokens},
        "prefix_cache": {"enabled": prefix, "namespace": "model", "salt": "salt"},
        "backend": dict(zip(COST_NAMES, costs, strict=True)),
        "slos": {},
        "workload": {"path": "w.jsonl", "manifest_path": "m.json"},
        "output_path": "out.jsonl",
        "run_seed": 1,
    }
    return lab_config_of(values, file="test.json")


def record(name: str, arrival: int, prompt: int | list[int], output: int) -> WorkloadRecord:
    """A request; a number stands for a prompt of which only the length is known."""
    tokens = None if isinstance(prompt, int) else PackedTokens(prompt)
    return WorkloadRecord(
        request_id=name,
        arrival_time_us=arrival,
        prompt_token_count=prompt if isinstance(prompt, int) else len(prompt),
        max_new_tokens=output,
        workload_class=WorkloadClass.MIXED,
        prompt_tokens=tokens,
    )


TOKENS = st.sampled_from([0, 1, -1, 2**31 - 1, -(2**31)])


@st.composite
def prompts(draw: st.DrawFn, block_size: int) -> int | list[int]:
    """Of unknown tokens, or exact ones that often share their beginning with others, or are equal to them."""
    length = draw(st.integers(0, 5 * block_size + 2))
    kind = draw(st.integers(0, 7))
    if kind == 0:
        return length
    if kind == 1:
        return [7] * length
    family = draw(st.integers(0, 4))
    return [family] * min(length, 2 * block_size) + draw(st.lists(TOKENS, max_size=2 * block_size))


@st.composite
def worlds(draw: st.DrawFn) -> tuple[LabConfig, list[WorkloadRecord]]:
    """A run in which everything is short: blocks, tokens of a step, sequences of a step."""
    block_size = draw(st.sampled_from([1, 2, 3, 4]))
    policy = draw(st.sampled_from(["DecodeFirst", "DecodeFirst", "FcfsMixed", "FcfsMixed", "FCFS"]))
    world = config(
        execution_mode="single_active_fcfs" if policy == "FCFS" else "continuous_batching",
        scheduling_policy=policy,
        max_num_sequences=draw(st.integers(1, 5)),
        max_batched_tokens=draw(st.sampled_from([1, 6, 16, 24, 32, 64, 64, 64])),
        total_blocks=draw(st.integers(1, 12) | st.integers(6, 40)),
        block_size_tokens=block_size,
        prefix=draw(st.integers(0, 4)) > 0,
        costs=[draw(st.sampled_from([0, 0, 1, 3, 10])) for _ in COST_NAMES],
    )
    num_requests = draw(st.integers(0, 5) | st.integers(6, 14))
    names = draw(st.permutations([str(each) for each in range(num_requests)]))
    arrivals = st.integers(0, 3) | st.integers(0, 200)
    return world, [record(name, draw(arrivals), draw(prompts(block_size)), draw(st.integers(0, 12))) for name in names]
