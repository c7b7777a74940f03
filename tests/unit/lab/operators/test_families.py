import pytest

from arriero.lab.operators.families import family_of, layer_of
from arriero.record.cpu_lab.graph_nodes import Family

CASES = (
    ("GET_ROWS", "inp_embd", ("token_embd.weight", "inp_tokens"), Family.EMBEDDING, None),
    ("RMS_NORM", "norm-0", ("inp_embd",), Family.NORMS, 0),
    ("MUL", "attn_norm-12", ("norm-12", "blk.12.attn_norm.weight"), Family.NORMS, 12),
    ("MUL_MAT", "Qcur-3", ("blk.3.attn_q.weight", "attn_norm-3"), Family.PROJECTIONS, 3),
    ("ADD", "Qcur-3", ("Qcur-3", "blk.3.attn_q.bias"), Family.PROJECTIONS, 3),
    ("MUL_MAT", "node_90", ("blk.3.attn_output.weight", "kqv_out-3"), Family.PROJECTIONS, 3),
    ("MUL", "q_normed-1", ("norm-1", "blk.1.attn_q_norm.weight"), Family.NORMS, 1),
    ("ROPE", "Qcur-3", ("Qcur-3 (view)", "inp_pos"), Family.ROPE, 3),
    ("SET_ROWS", "cache_k_l4 (view)", ("Kcur-4", "inp_k_idxs", "cache_k_l4"), Family.KV_COPY, 4),
    ("CPY", "k_cache_view-4 (copy of x)", ("Kcur-4", "cache_v_l4 (view)"), Family.KV_COPY, 4),
    ("FLASH_ATTN_EXT", "node_31", ("Qcur-0 (view)", "cache_k_l0 (view)", "KQ_mask"), Family.ATTENTION, 0),
    ("MUL_MAT", "kq-2", ("cache_k_l2 (view)", "q-2"), Family.ATTENTION, 2),
    ("SOFT_MAX", "kq_soft_max-2", ("kq-2", "KQ_mask"), Family.ATTENTION, 2),
    ("CONT", "node_55", ("kqv-2 (permuted)",), Family.ATTENTION, 2),
    ("MUL_MAT", "ffn_up-7", ("blk.7.ffn_up.weight", "ffn_norm-7"), Family.FEED_FORWARD, 7),
    ("SWIGLU", "ffn_swiglu-7", ("ffn_gate-7", "ffn_up-7"), Family.FEED_FORWARD, 7),
    ("ADD", "ffn_inp-7", ("node_90", "l_out-6"), Family.RESIDUAL, 7),
    ("ADD", "l_out-7", ("ffn_out-7", "ffn_inp-7"), Family.RESIDUAL, 7),
    ("GET_ROWS", "node_800", ("l_out-28", "inp_out_ids"), Family.ROW_CHOICE, 28),
    ("MUL", "result_norm", ("norm", "output_norm.weight"), Family.NORMS, None),
    ("MUL_MAT", "result_output", ("output.weight", "result_norm"), Family.OUTPUT_HEAD, None),
    ("MUL_MAT", "result_output", ("token_embd.weight", "result_norm"), Family.OUTPUT_HEAD, None),
    ("VIEW", "cache_k_l0 (view)", ("cache_k_l0",), Family.VIEWS, 0),
    ("PERMUTE", "q-5", ("Qcur-5",), Family.VIEWS, 5),
    ("WHAT", "never seen", (), Family.OTHER, None),
)


@pytest.mark.parametrize(("operation", "name", "sources", "family", "layer"), CASES)
def test_a_node_is_known_by_weight_operation_or_name(
    operation: str, name: str, sources: tuple[str, ...], family: Family, layer: int | None
) -> None:
    assert family_of(operation, name, sources) is family
    assert layer_of(name, sources) == layer
