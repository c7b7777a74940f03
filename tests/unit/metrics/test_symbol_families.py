import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.metrics.symbol_families import Family, family_of


@pytest.mark.parametrize(
    ("symbol", "family"),
    [
        ("ggml_vec_dot_q4_0_q8_0", Family.QUANTISED_DOT),
        ("ggml_vec_dot_q6_K_q8_K", Family.QUANTISED_DOT),
        ("ggml_vec_dot_iq4_nl_q8_0", Family.QUANTISED_DOT),
        ("ggml_vec_dot_f16", Family.MATRIX),
        ("ggml_gemm_q4_0_8x8_q8_0", Family.MATRIX),
        ("ggml_gemv_q4_K_8x8_q8_K", Family.MATRIX),
        ("void (anonymous namespace)::tinyBLAS_Q0_AVX<block_q8_0, block_q8_0, float>::gemm<4, 2>(long)", Family.MATRIX),
        ("ggml_compute_forward_mul_mat", Family.MATRIX),
        ("ggml_compute_forward_flash_attn_ext", Family.ATTENTION),
        ("ggml_compute_forward_soft_max", Family.SOFTMAX),
        ("ggml_vec_soft_max_f32", Family.SOFTMAX),
        ("ggml_compute_forward_rope", Family.ROPE),
        ("europe", Family.UNKNOWN),
        ("dequantize_row_q4_0", Family.UNPACKING),
        ("quantize_row_q8_0", Family.UNPACKING),
        ("void ggml_quantize_mat_t<8l, (ggml_type)8>(float const*, void*, long, long)", Family.UNPACKING),
        ("ggml_compute_forward_set_rows", Family.KV_COPY),
        ("ggml_cpu_fp32_to_fp16", Family.KV_COPY),
        ("ggml_compute_forward_rms_norm", Family.ELEMENTWISE),
        ("ggml_vec_swiglu_f32", Family.ELEMENTWISE),
        ("ggml_barrier", Family.SYNCHRONISATION),
        ("gomp_team_barrier_wait_end", Family.SYNCHRONISATION),
        ("ggml_graph_compute_thread", Family.GRAPH),
        ("ggml_backend_sched_graph_compute_async", Family.GRAPH),
        ("__memmove_avx512_unaligned_erms", Family.MEMORY_COPY),
        ("llama_model_loader::load_all_data", Family.LOADER),
        ("_dl_relocate_object", Family.LOADER),
        ("_PyEval_EvalFrameDefault", Family.INTERPRETER),
        ("something_else", Family.UNKNOWN),
        ("void std::vector<T>::_M_insert(__gnu_cxx::__normal_iterator<T*>)", Family.UNKNOWN),
    ],
)
def test_functions_of_llama_cpp_and_its_surroundings_have_a_family(symbol: str, family: Family) -> None:
    assert family_of(symbol) is family


@pytest.mark.parametrize(
    ("shared_object", "family"),
    [
        ("libgomp.so.1.0.0", Family.SYNCHRONISATION),
        ("ld-linux-x86-64.so.2", Family.LOADER),
        ("python3.11", Family.INTERPRETER),
        ("_ctypes.cpython-311-x86_64-linux-gnu.so", Family.INTERPRETER),
        ("libggml-cpu.so", Family.UNKNOWN),
    ],
)
def test_the_object_decides_for_a_function_without_a_name(shared_object: str, family: Family) -> None:
    assert family_of("", shared_object) is family


@given(st.text(), st.text())
def test_every_name_has_a_family(symbol: str, shared_object: str) -> None:
    assert family_of(symbol, shared_object) in Family
