/* Layouts of the quantised blocks, as GGUF files define them. */

#ifndef ARRIERO_BLOCKS_H
#define ARRIERO_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

/* 32 values: scale * quants[i]; quants lie in -127..127. */
typedef struct {
    uint16_t scale; /* half precision */
    int8_t quants[32];
} q8_block;

/* 256 values in 16 groups of 16: scale * scales[group] * (q - 32), q of 6 bits.
 * Each half of 128 values has 64 bytes of low nibbles and 32 bytes that hold two high bits of four values each. */
typedef struct {
    uint8_t low[128];
    uint8_t high[64];
    int8_t scales[16];
    uint16_t scale; /* half precision */
} q6k_block;

/* 256 values: scale * quants[i]; sums of groups of 16 stand beside them. */
typedef struct {
    float scale;
    int8_t quants[256];
    int16_t sums[16];
} q8k_block;

_Static_assert(sizeof(q8_block) == 34, "a Q8_0 block has 34 bytes");
_Static_assert(sizeof(q6k_block) == 210, "a Q6_K block has 210 bytes");
_Static_assert(sizeof(q8k_block) == 292, "a Q8_K block has 292 bytes");

#endif
