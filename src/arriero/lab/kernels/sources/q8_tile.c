/* A tile of 4 rows of weights by 2 rows of activations, both Q8_0, for AVX2, FMA and F16C.
 *
 * The two forms differ in one thing: how the two activation scales of a depth block become floats.
 * All else, the order of every floating-point operation included, is the same code, so their results are equal bit
 * for bit. */

#include "blocks.h"
#include "lanes.h"

typedef struct {
    __m128 first, second; /* each in all four lanes */
} two_scales;

static inline two_scales one_by_one(uint16_t first, uint16_t second) {
    const two_scales found = {_mm_set1_ps(_cvtsh_ss(first)), _mm_set1_ps(_cvtsh_ss(second))};
    return found;
}

static inline two_scales packed(uint16_t first, uint16_t second) {
    const uint32_t bits = (uint32_t)first | (uint32_t)second << 16;
    const __m128 floats = _mm_cvtph_ps(_mm_cvtsi32_si128((int)bits));
    const two_scales found = {_mm_shuffle_ps(floats, floats, 0x00), _mm_shuffle_ps(floats, floats, 0x55)};
    return found;
}

static inline __m256i quants_of(const q8_block *block) {
    return _mm256_loadu_si256((const __m256i *)block->quants);
}

/* Sums of four neighbouring products, exact: |weights| is unsigned, and the sign moves to the activations. */
static inline __m256 products(__m256i weights, __m256i activations) {
    const __m256i magnitudes = _mm256_sign_epi8(weights, weights);
    const __m256i signed_activations = _mm256_sign_epi8(activations, weights);
    const __m256i pairs = _mm256_maddubs_epi16(magnitudes, signed_activations);
    return _mm256_cvtepi32_ps(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

static inline __m256 in_both_halves(__m128 four) {
    return _mm256_set_m128(four, four);
}

/* out[2][4]: one row for each row of activations. `is_packed` is a constant wherever this is called. */
static inline __attribute__((always_inline)) void tile(
    const q8_block *weights, ptrdiff_t weight_row, const q8_block *activations, ptrdiff_t activation_row,
    int64_t depth, float *out, int is_packed) {
    __m256 sums[2][4] = {{_mm256_setzero_ps()}};
    for (int64_t at = 0; at < depth; ++at) {
        uint64_t bits = 0;
        __m256i rows[4];
        for (int row = 0; row < 4; ++row) {
            const q8_block *block = weights + row * weight_row + at;
            bits |= (uint64_t)block->scale << (16 * row);
            rows[row] = quants_of(block);
        }
        const __m128 weight_scales = _mm_cvtph_ps(_mm_cvtsi64_si128((long long)bits));
        const q8_block *columns[2] = {activations + at, activations + activation_row + at};
        const two_scales scales = is_packed ? packed(columns[0]->scale, columns[1]->scale)
                                            : one_by_one(columns[0]->scale, columns[1]->scale);
        for (int column = 0; column < 2; ++column) {
            const __m128 scale = column == 0 ? scales.first : scales.second;
            const __m256 each = in_both_halves(_mm_mul_ps(weight_scales, scale));
            const __m256i quants = quants_of(columns[column]);
            sums[column][0] = _mm256_fmadd_ps(_mm256_shuffle_ps(each, each, 0x00), products(rows[0], quants), sums[column][0]);
            sums[column][1] = _mm256_fmadd_ps(_mm256_shuffle_ps(each, each, 0x55), products(rows[1], quants), sums[column][1]);
            sums[column][2] = _mm256_fmadd_ps(_mm256_shuffle_ps(each, each, 0xaa), products(rows[2], quants), sums[column][2]);
            sums[column][3] = _mm256_fmadd_ps(_mm256_shuffle_ps(each, each, 0xff), products(rows[3], quants), sums[column][3]);
        }
    }
    for (int column = 0; column < 2; ++column) {
        for (int row = 0; row < 4; ++row) {
            out[4 * column + row] = sum_of_lanes(sums[column][row]);
        }
    }
}

void q8_tile_baseline(const q8_block *weights, ptrdiff_t weight_row, const q8_block *activations,
                      ptrdiff_t activation_row, int64_t depth, float *out) {
    tile(weights, weight_row, activations, activation_row, depth, out, 0);
}

void q8_tile_packed(const q8_block *weights, ptrdiff_t weight_row, const q8_block *activations,
                    ptrdiff_t activation_row, int64_t depth, float *out) {
    tile(weights, weight_row, activations, activation_row, depth, out, 1);
}

/* The scales alone, for pairs that no tile would hold: out[count][8], four lanes of each. */
void q8_scales_baseline(const uint16_t *pairs, int64_t count, float *out) {
    for (int64_t at = 0; at < count; ++at) {
        const two_scales found = one_by_one(pairs[2 * at], pairs[2 * at + 1]);
        _mm_storeu_ps(out + 8 * at, found.first);
        _mm_storeu_ps(out + 8 * at + 4, found.second);
    }
}

void q8_scales_packed(const uint16_t *pairs, int64_t count, float *out) {
    for (int64_t at = 0; at < count; ++at) {
        const two_scales found = packed(pairs[2 * at], pairs[2 * at + 1]);
        _mm_storeu_ps(out + 8 * at, found.first);
        _mm_storeu_ps(out + 8 * at + 4, found.second);
    }
}

/* Many tiles in one call, so that a check does not pay for a foreign call each: rows of one tile lie together. */
typedef void tile_function(const q8_block *, ptrdiff_t, const q8_block *, ptrdiff_t, int64_t, float *);

void q8_tile_many(tile_function *kernel, const q8_block *weights, const q8_block *activations, int64_t depth,
                  int64_t count, float *out) {
    for (int64_t at = 0; at < count; ++at) {
        kernel(weights + 4 * depth * at, (ptrdiff_t)depth, activations + 2 * depth * at, (ptrdiff_t)depth, depth,
               out + 8 * at);
    }
}
