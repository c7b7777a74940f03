/* The dot product of a row of Q6_K blocks and a row of Q8_K blocks, for AVX2, FMA and F16C.
 *
 * The two forms differ in one thing: the integer sums of a block's eight strips go into one accumulator after the
 * other, or into two that are added at the end. Integer addition has no rounding, and the one multiply-add in floats
 * for each block is the same, so their results are equal bit for bit. */

#include "blocks.h"
#include "lanes.h"

/* Sums of four neighbouring products of one strip of 32, times the two scales of its groups: eight 32-bit lanes. */
static inline __m256i strip(__m256i six_bits, const int8_t *quants, int first_scale, int second_scale) {
    const __m256i activations = _mm256_loadu_si256((const __m256i *)quants);
    const __m256i unsigned_pairs = _mm256_maddubs_epi16(six_bits, activations);
    const __m256i offset_pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(32), activations);
    const __m256i pairs = _mm256_sub_epi16(unsigned_pairs, offset_pairs);
    const __m256i scales = _mm256_set_m128i(_mm_set1_epi16((short)second_scale), _mm_set1_epi16((short)first_scale));
    return _mm256_madd_epi16(pairs, scales);
}

/* The strips 0..3 of one half of a block: strip n holds the values 32 n to 32 n + 31 of the half. */
static inline __m256i six_bits_of(const uint8_t *low, const uint8_t *high, int strip_number) {
    const __m256i nibbles = _mm256_set1_epi8(0x0f);
    const __m256i top = _mm256_set1_epi8(0x30);
    const __m256i lows = _mm256_loadu_si256((const __m256i *)(low + 32 * (strip_number & 1)));
    const __m256i highs = _mm256_loadu_si256((const __m256i *)high);
    switch (strip_number) {
    case 0:
        return _mm256_or_si256(_mm256_and_si256(lows, nibbles), _mm256_and_si256(_mm256_slli_epi16(highs, 4), top));
    case 1:
        return _mm256_or_si256(_mm256_and_si256(lows, nibbles), _mm256_and_si256(_mm256_slli_epi16(highs, 2), top));
    case 2:
        return _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(lows, 4), nibbles), _mm256_and_si256(highs, top));
    default:
        return _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(lows, 4), nibbles),
                               _mm256_and_si256(_mm256_srli_epi16(highs, 2), top));
    }
}

/* `is_split` is a constant wherever this is called. */
static inline __attribute__((always_inline)) float dot(const q6k_block *weights, const q8k_block *activations,
                                                       int64_t blocks, int is_split) {
    __m256 sums = _mm256_setzero_ps();
    for (int64_t at = 0; at < blocks; ++at) {
        const q6k_block *block = weights + at;
        const int8_t *quants = activations[at].quants;
        __m256i even = _mm256_setzero_si256();
        __m256i odd = _mm256_setzero_si256();
        for (int half = 0; half < 2; ++half) {
            const uint8_t *low = block->low + 64 * half;
            const uint8_t *high = block->high + 32 * half;
            const int8_t *scales = block->scales + 8 * half;
            const int8_t *row = quants + 128 * half;
            const __m256i first = strip(six_bits_of(low, high, 0), row, scales[0], scales[1]);
            const __m256i second = strip(six_bits_of(low, high, 1), row + 32, scales[2], scales[3]);
            const __m256i third = strip(six_bits_of(low, high, 2), row + 64, scales[4], scales[5]);
            const __m256i fourth = strip(six_bits_of(low, high, 3), row + 96, scales[6], scales[7]);
            if (is_split) {
                even = _mm256_add_epi32(even, _mm256_add_epi32(first, third));
                odd = _mm256_add_epi32(odd, _mm256_add_epi32(second, fourth));
            } else {
                even = _mm256_add_epi32(even, first);
                even = _mm256_add_epi32(even, second);
                even = _mm256_add_epi32(even, third);
                even = _mm256_add_epi32(even, fourth);
            }
        }
        const __m256i whole = is_split ? _mm256_add_epi32(even, odd) : even;
        const float scale = _cvtsh_ss(block->scale) * activations[at].scale;
        sums = _mm256_fmadd_ps(_mm256_set1_ps(scale), _mm256_cvtepi32_ps(whole), sums);
    }
    return sum_of_lanes(sums);
}

void q6_dot_baseline(const q6k_block *weights, const q8k_block *activations, int64_t blocks, float *out) {
    *out = dot(weights, activations, blocks, 0);
}

void q6_dot_split(const q6k_block *weights, const q8k_block *activations, int64_t blocks, float *out) {
    *out = dot(weights, activations, blocks, 1);
}

/* Many rows in one call, so that a check does not pay for a foreign call each. */
typedef void dot_function(const q6k_block *, const q8k_block *, int64_t, float *);

void q6_dot_many(dot_function *kernel, const q6k_block *weights, const q8k_block *activations, int64_t blocks,
                 int64_t count, float *out) {
    for (int64_t at = 0; at < count; ++at) {
        kernel(weights + blocks * at, activations + blocks * at, blocks, out + at);
    }
}
