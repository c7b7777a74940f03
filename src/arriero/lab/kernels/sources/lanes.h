/* What both kernels do with eight lanes. */

#ifndef ARRIERO_LANES_H
#define ARRIERO_LANES_H

#include <immintrin.h>

/* Upper half onto lower half, then pairs, then neighbours: the order that the reference repeats. */
static inline float sum_of_lanes(__m256 lanes) {
    const __m128 four = _mm_add_ps(_mm256_extractf128_ps(lanes, 1), _mm256_castps256_ps128(lanes));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

#endif
