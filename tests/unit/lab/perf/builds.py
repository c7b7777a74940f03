"""A small library that stands in for libggml-cpu: an exported function in front of a local kernel, then stripped."""

import shutil
import subprocess
from pathlib import Path

import pytest

from arriero.lab.compile import find_compilers

SOURCE = """
static __attribute__((noinline, noclone)) int kernel(const signed char *a, const signed char *b, int n) {
    int s = 0;
    for (int i = 0; i < n; i++) { __asm__ volatile(""); s += a[i] * b[i]; }
    return s;
}
int ggml_gemm_q8_0(const signed char *a, const signed char *b, int n) { return kernel(a, b, n) + 1; }
int ggml_mul_mat(const signed char *a, const signed char *b, int n) {
    int s = 0;
    for (int i = 0; i < n; i++) s += kernel(a, b, i);
    return s;
}
float ggml_half(float x) { return x * 0.5f; }
double ggml_sum(const float *x, int n) {
    double s = 0.0;
    for (int i = 0; i < n; i++) { __asm__ volatile(""); s += x[i]; }
    return s;
}
"""


def stripped_library(folder: Path) -> Path:
    """Builds it; skips the test where the tools are missing."""
    compilers = find_compilers()
    strip = shutil.which("strip")
    if "gcc" not in compilers or strip is None or shutil.which("objdump") is None:
        pytest.skip("needs gcc and binutils")
    source = folder / "kernels.c"
    source.write_text(SOURCE)
    built = compilers["gcc"].build(
        [source], ["-O1", "-fasynchronous-unwind-tables"], folder / "libggml-cpu.so", shared=True
    )
    subprocess.run([strip, "--strip-all", str(built)], check=True)
    return built
