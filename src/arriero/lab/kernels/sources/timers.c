/* Nanoseconds for many calls of a kernel behind a pointer, so that no call can be left out or merged with the next.
 *
 * The kernels of ggml come as pointers too; their types are those of the interface that ggml exposes for benchmarks. */

#include <time.h>

#include "blocks.h"

typedef void tile_function(const q8_block *, ptrdiff_t, const q8_block *, ptrdiff_t, int64_t, float *);
typedef void dot_function(const q6k_block *, const q8k_block *, int64_t, float *);
typedef void ggml_dot_function(int, float *, size_t, const void *, size_t, const void *, size_t, int);
typedef _Bool ggml_tile_function(const void *, int64_t, int64_t, int64_t, const void *, int64_t, const void *, int64_t,
                                 void *, int64_t, int, int, int);

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t time_tile(tile_function *kernel, const q8_block *weights, const q8_block *activations, int64_t depth,
                  float *out, int64_t calls) {
    const int64_t begin = now_ns();
    for (int64_t at = 0; at < calls; ++at) {
        kernel(weights, (ptrdiff_t)depth, activations, (ptrdiff_t)depth, depth, out);
    }
    return now_ns() - begin;
}

/* The same eight results by eight dot products of ggml; a call is all eight. */
int64_t time_ggml_dots(ggml_dot_function *kernel, const q8_block *weights, const q8_block *activations, int64_t depth,
                       float *out, int64_t calls) {
    const int64_t begin = now_ns();
    for (int64_t at = 0; at < calls; ++at) {
        for (int column = 0; column < 2; ++column) {
            for (int row = 0; row < 4; ++row) {
                kernel((int)(32 * depth), out + 4 * column + row, 0, weights + row * depth, 0,
                       activations + column * depth, 0, 1);
            }
        }
    }
    return now_ns() - begin;
}

/* The same tile by ggml's matrix kernel; 0 and nothing written if it does not take such a tile. */
int64_t time_ggml_tile(ggml_tile_function *kernel, const void *parameters, int type, int out_type,
                       const q8_block *weights, const q8_block *activations, int64_t depth, float *out,
                       int64_t calls) {
    _Bool taken = 1;
    const int64_t begin = now_ns();
    for (int64_t at = 0; at < calls; ++at) {
        taken &= kernel(parameters, 4, 2, depth, weights, depth, activations, depth, out, 4, type, type, out_type);
    }
    return taken ? now_ns() - begin : 0;
}

int64_t time_dot(dot_function *kernel, const q6k_block *weights, const q8k_block *activations, int64_t blocks,
                 float *out, int64_t calls) {
    const int64_t begin = now_ns();
    for (int64_t at = 0; at < calls; ++at) {
        kernel(weights, activations, blocks, out);
    }
    return now_ns() - begin;
}

int64_t time_ggml_dot(ggml_dot_function *kernel, const q6k_block *weights, const q8k_block *activations,
                      int64_t blocks, float *out, int64_t calls) {
    const int64_t begin = now_ns();
    for (int64_t at = 0; at < calls; ++at) {
        kernel((int)(256 * blocks), out, 0, weights, 0, activations, 0, 1);
    }
    return now_ns() - begin;
}
