"""The names under which figures are exported: ours, vLLM's and llama-server's, from one tally.

A row of a table is one metric: its name without `_total`, what it shows, its labels, and the closed set of their
values. `docs/metrics.md` explains each; a test compares the two.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import product
from typing import Final

from arriero.core.events import PrefixSource, ReuseVerdict
from arriero.http.control_metrics import OVER_TARGET, RATIOS, SHIFTS, THREADS_OF
from arriero.http.tally import SECONDS, SIZES
from arriero.kv.reuse import EvictionCause
from arriero.metrics.explain_parts import Part


class Kind(Enum):
    """What a metric is to Prometheus."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Shown:
    """One exported metric.

    Attributes:
        name: as exported; counters get `_total` in the text format.
        source: its name in the tally.
        help: one line.
        labels: label names.
        values: for each label its closed set of values.
        bounds: of a histogram's buckets.
    """

    kind: Kind
    name: str
    source: str
    help: str
    labels: tuple[str, ...] = ()
    values: tuple[tuple[str, ...], ...] = ()
    bounds: Sequence[float] = SECONDS

    def label_sets(self) -> list[tuple[str, ...]]:
        """Every combination of label values; one empty one without labels."""
        return list(product(*self.values))


C, G, H = Kind.COUNTER, Kind.GAUGE, Kind.HISTOGRAM

ENDPOINTS: Final = ("chat", "completions", "native")
OUTCOMES: Final = ("stop", "length", "cancelled", "aborted", "error", "rejected")
REJECTIONS: Final = (
    "backlog", "backlog_tokens", "key_requests", "key_tokens", "queue_timeout", "deadline",
    "unavailable", "context", "invalid", "cancelled", "error",
)  # fmt: skip
CANCEL_STAGES: Final = ("waiting", "prefill", "decode")
CANCEL_REASONS: Final = ("user", "disconnect", "timeout", "queue_timeout", "slow_consumer", "shutdown")
WAITING_REASONS: Final = ("capacity", "prefix")
SOURCES: Final = tuple(source.value for source in PrefixSource)
VERDICTS: Final = tuple(verdict.value for verdict in ReuseVerdict)
EVICTIONS: Final = tuple(cause.value for cause in EvictionCause)
PARTS_OF: Final = tuple(part.value for part in Part)
REPEATS: Final = ("preemption", "no_room", "interrupt", "failed_step")

NATIVE: Final = (
    Shown(H, "arriero_time_to_first_token_seconds", "ttft", "First token - arrival."),
    Shown(H, "arriero_inter_token_latency_seconds", "itl", "Gap between two tokens of a request."),
    Shown(H, "arriero_time_per_output_token_seconds", "tpot", "(Last - first token) / (tokens - 1), from 2 tokens on."),
    Shown(H, "arriero_e2e_latency_seconds", "e2e", "Last token - arrival, of requests that ended normally."),
    Shown(H, "arriero_queue_time_seconds", "queue_time", "Begin of the first step for a request - arrival."),
    Shown(H, "arriero_prefill_time_seconds", "prefill_time", "First token - begin of the first step."),
    Shown(H, "arriero_decode_time_seconds", "decode_time", "Last - first token, from 2 tokens on."),
    Shown(H, "arriero_cancel_latency_seconds", "cancel_latency", "End of a request - its cancel was noticed."),
    Shown(H, "arriero_rejection_latency_seconds", "rejection_latency", "Refusal - the request came in."),
    Shown(
        H, "arriero_step_seconds", "step", "A step with rows, by what it held.", ("kind",),
        (("prefill", "decode", "mixed"),),
    ),
    Shown(H, "arriero_host_seconds", "host", "Time of a step outside the decode call."),
    Shown(H, "arriero_stall_seconds", "stall", "Where the time of a request went, by cause.", ("cause",), (PARTS_OF,)),
    Shown(
        H, "arriero_step_prediction_ratio", "prediction_ratio", "Time of a step / what the cost profile predicted.",
        ("kind",), (("prefill", "decode", "mixed"),), RATIOS,
    ),
    Shown(H, "arriero_prompt_tokens", "request_prompt_tokens", "Prompt tokens of a request.", bounds=SIZES),
    Shown(H, "arriero_output_tokens", "request_output_tokens", "Generated tokens of a request.", bounds=SIZES),
    Shown(
        H, "arriero_step_rows", "step_rows", "Rows of a step, by kind.", ("kind",), (("prefill", "decode"),), SIZES,
    ),
    Shown(
        C, "arriero_requests", "requests", "Sequences asked for, by their end.", ("endpoint", "outcome"),
        (ENDPOINTS, OUTCOMES),
    ),
    Shown(C, "arriero_requests_rejected", "rejected", "Refused, with nothing computed.", ("reason",), (REJECTIONS,)),
    Shown(
        C, "arriero_requests_cancelled", "cancelled", "Cancelled, by stage and by who asked.", ("stage", "reason"),
        (CANCEL_STAGES, CANCEL_REASONS),
    ),
    Shown(C, "arriero_prompt_tokens", "prompt_tokens", "Prompt tokens of requests that started."),
    Shown(C, "arriero_prefill_rows", "prefill_rows", "Prompt rows computed."),
    Shown(
        C, "arriero_cached_tokens", "cached_tokens", "Prompt tokens reused, by where they were.", ("source",),
        (SOURCES,),
    ),
    Shown(
        C, "arriero_prefix_lookups", "prefix_lookups", "Requests that started, by why their prefix was reused or not.",
        ("verdict",), (VERDICTS,),
    ),
    Shown(C, "arriero_prefix_query_tokens", "prefix_query_tokens", "Prompt tokens for which a prefix was looked up."),
    Shown(C, "arriero_prefix_hit_tokens", "prefix_hit_tokens", "Prompt tokens reused."),
    Shown(C, "arriero_evicted_runs", "evicted_runs", "Retained runs dropped.", ("reason",), (EVICTIONS,)),
    Shown(C, "arriero_evicted_cells", "evicted_cells", "KV cells freed by that.", ("reason",), (EVICTIONS,)),
    Shown(C, "arriero_generated_tokens", "generated_tokens", "Tokens generated."),
    Shown(C, "arriero_repeated_rows", "repeated_rows", "Rows computed again, by cause.", ("cause",), (REPEATS,)),
    Shown(C, "arriero_wasted_rows", "wasted_rows", "Rows of cancelled requests.", ("stage",), (CANCEL_STAGES,)),
    Shown(C, "arriero_priority_promotions", "promotions", "Requests that started while a more urgent one waited."),
    Shown(C, "arriero_preemptions", "preemptions", "Slots taken back.", ("method",), (("recompute", "swap"),)),
    Shown(C, "arriero_swapped_in_tokens", "swapped_in_tokens", "Tokens whose KV came back to a preempted request."),
    Shown(C, "arriero_decode_calls", "decode_calls", "Calls of the model."),
    Shown(C, "arriero_busy_slots", "busy_slots", "Running sequences, summed over steps with rows."),
    Shown(C, "arriero_prefill_call_seconds", "prefill_call_seconds", "Time of decode calls with prefill rows."),
    Shown(C, "arriero_decode_failures", "decode_failures", "Failed calls.", ("code",), (("decode_failed",),)),
    Shown(C, "arriero_interrupted_calls", "interrupted_calls", "Calls of the model that were stopped early."),
    Shown(C, "arriero_overdue_calls", "overdue_calls", "Those of them that were far over their prediction."),
    Shown(
        C, "arriero_steps_over_itl_target", "over_target", "Steps predicted over the target, by cause.", ("cause",),
        (OVER_TARGET,),
    ),
    Shown(
        C, "arriero_thread_shifts", "thread_shifts", "Changes of the most threads that compute, by cause.", ("cause",),
        (SHIFTS,),
    ),
    Shown(C, "arriero_cost_recalibrations", "recalibrations", "Times that the scheduler was told of other costs."),
    Shown(
        G, "arriero_step_threads", "step_threads", "Threads of the last step, by what they compute.", ("kind",),
        (THREADS_OF,),
    ),
    Shown(G, "arriero_requests_running", "running", "Requests with a slot."),
    Shown(G, "arriero_requests_waiting", "waiting_by_reason", "Without one.", ("reason",), (WAITING_REASONS,)),
    Shown(G, "arriero_slots", "slots", "Slots in service."),
    Shown(G, "arriero_kv_cells", "kv_cells", "KV cells by state.", ("state",), (("active", "retained", "free"),)),
    Shown(G, "arriero_kv_cells_shared", "shared_cells", "KV cells that several runs hold."),
    Shown(G, "arriero_retained_runs", "retained_runs", "Runs kept in the context after their request."),
    Shown(G, "arriero_host_runs", "host_runs", "Runs kept outside the context."),
    Shown(G, "arriero_host_tokens", "host_tokens", "Tokens of these."),
    Shown(G, "arriero_swapped_tokens", "swapped_tokens", "Tokens kept outside the context for preempted requests."),
    Shown(G, "arriero_sequence_tokens_max", "sequence_tokens_max", "The most tokens one sequence ever held."),
    Shown(G, "arriero_step_age_seconds", "step_age", "Since the last step while there is work, else 0."),
)  # fmt: skip

VLLM: Final = (
    Shown(G, "vllm:num_requests_running", "running", "Requests with a slot."),
    Shown(G, "vllm:num_requests_waiting", "waiting", "Requests without one."),
    Shown(
        G, "vllm:num_requests_waiting_by_reason", "waiting_as_vllm", "The same, by reason.", ("reason",),
        (("capacity", "deferred"),),
    ),
    Shown(G, "vllm:kv_cache_usage_perc", "kv_usage", "Active cells / all cells, 0 to 1."),
    Shown(C, "vllm:prefix_cache_queries", "prefix_query_tokens", "Prompt tokens looked up."),
    Shown(C, "vllm:prefix_cache_hits", "prefix_hit_tokens", "Prompt tokens reused."),
    Shown(C, "vllm:num_preemptions", "preemptions_all", "Slots taken back."),
    Shown(C, "vllm:prompt_tokens", "prompt_tokens", "Prompt tokens, all."),
    Shown(
        C, "vllm:prompt_tokens_by_source", "prompt_tokens_by_source", "Prompt tokens by source.", ("source",),
        (("local_compute", "local_cache_hit"),),
    ),
    Shown(C, "vllm:prompt_tokens_cached", "prefix_hit_tokens", "Prompt tokens reused."),
    Shown(C, "vllm:generation_tokens", "generated_tokens", "Generated tokens."),
    Shown(
        C, "vllm:request_success", "finished", "Requests by their end.", ("finished_reason",),
        (("stop", "length", "abort", "error"),),
    ),
    Shown(
        C, "vllm:admission_rejections", "admission_rejections", "Refused at the door.", ("reason",),
        (("max_num_queued_reqs", "max_num_queued_tokens"),),
    ),
    Shown(H, "vllm:time_to_first_token_seconds", "ttft", "First token - arrival."),
    Shown(H, "vllm:inter_token_latency_seconds", "itl", "Gap between two tokens."),
    Shown(H, "vllm:request_time_per_output_token_seconds", "tpot_or_zero", "TPOT; 0 for an answer of one token."),
    Shown(H, "vllm:e2e_request_latency_seconds", "e2e", "Last token - arrival."),
    Shown(H, "vllm:request_queue_time_seconds", "queue_time", "First start - arrival."),
    Shown(H, "vllm:request_prefill_time_seconds", "prefill_time", "First token - first start."),
    Shown(H, "vllm:request_decode_time_seconds", "decode_time", "Last - first token."),
    Shown(H, "vllm:request_inference_time_seconds", "inference_time", "Last token - first start."),
    Shown(H, "vllm:request_prompt_tokens", "request_prompt_tokens", "Prompt tokens of a request.", bounds=SIZES),
    Shown(H, "vllm:request_generation_tokens", "request_output_tokens", "Generated tokens of a request.", bounds=SIZES),
    Shown(
        H, "vllm:request_max_num_generation_tokens", "request_output_tokens", "The longest of its choices.",
        bounds=SIZES,
    ),
    Shown(H, "vllm:request_params_n", "request_n", "Choices asked for.", bounds=SIZES),
    Shown(H, "vllm:request_params_max_tokens", "request_max_tokens", "Tokens allowed.", bounds=SIZES),
    Shown(
        H, "vllm:request_prefill_kv_computed_tokens", "request_computed_tokens", "Prompt tokens computed.",
        bounds=SIZES,
    ),
    Shown(H, "vllm:request_num_preemptions", "request_preemptions", "Preemptions of a request.", bounds=SIZES),
    Shown(H, "vllm:iteration_tokens_total", "step_tokens", "Prefill rows + generated tokens of a step.", bounds=SIZES),
)  # fmt: skip

LLAMACPP: Final = (
    Shown(C, "llamacpp:prompt_tokens", "prefill_rows", "Prompt tokens computed."),
    Shown(C, "llamacpp:prompt_tokens_cached", "prefix_hit_tokens", "Prompt tokens reused."),
    Shown(C, "llamacpp:prompt_seconds", "prefill_call_seconds", "Time of decode calls with prefill rows."),
    Shown(C, "llamacpp:tokens_predicted", "generated_tokens", "Generated tokens."),
    Shown(C, "llamacpp:tokens_predicted_seconds", "decode_seconds", "Decode times of requests, summed."),
    Shown(C, "llamacpp:n_decode", "decode_calls", "Calls of the model."),
    Shown(G, "llamacpp:n_tokens_max", "sequence_tokens_max", "The most tokens one sequence ever held."),
    Shown(G, "llamacpp:requests_processing", "running", "Requests with a slot."),
    Shown(G, "llamacpp:requests_deferred", "waiting", "Requests without one."),
    Shown(G, "llamacpp:n_busy_slots_per_decode", "busy_per_call", "Running sequences per decode call, on average."),
)
