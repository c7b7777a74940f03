/* Arithmetic peak of some threads: peak VARIANT THREADS MILLISECONDS REPETITIONS
 *
 * Every thread multiplies and adds in registers, in enough independent chains to fill the pipelines.
 * A line for each repetition: VARIANT OPERATIONS NANOSECONDS; a multiply-add is two operations.
 *
 *   fp32-avx512f, fp32-fma                fused multiply-add of float32
 *   int8-avx512_vnni, int8-avx_vnni       four products of unsigned and signed bytes, summed into int32
 *   int8-avx2                             the same by three instructions, as kernels without VNNI do it
 *   fp32-compiler, int8-compiler          plain loops, as the compiler makes them; the only ones off x86
 *
 * Ends with status 4 for a variant that it was not built with. It does not ask the CPU: the caller knows.
 */

#define _GNU_SOURCE
#include <string.h>

#include "team.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define HAS_X86 1
#endif

static volatile float sink;
static volatile float factor = 0.999f, summand = 0.001f; /* so that nothing is known when it is compiled */
static volatile signed char left_byte = 3, right_byte = -2;

struct job {
    void (*kernel)(long rounds);
    long rounds;
};

#ifdef HAS_X86

/* Chains are variables of their own and no array, or compilers copy registers around in the loop. */
#define TIMES_8(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7)
#define TIMES_12(DO) TIMES_8(DO) DO(8) DO(9) DO(10) DO(11)
#define TIMES_16(DO) TIMES_12(DO) DO(12) DO(13) DO(14) DO(15)

#define CHAINS_512 16
#define CHAINS_256 12 /* of 16 registers; the others hold operands */
#define CHAINS_AVX2 8 /* that path needs registers in between */

#define BEGIN(k) chain##k = ALL(k); /* each another value, or the compiler computes one for all */
#define SUM(k) total = PLUS(total, chain##k);

__attribute__((target("avx512f"))) static void fp32_avx512f(long rounds) {
#define DECLARE(k) __m512 chain##k;
#define STEP(k) chain##k = _mm512_fmadd_ps(chain##k, times, plus);
#define PLUS _mm512_add_ps
#define ALL(k) _mm512_set1_ps((float)(k))
    TIMES_16(DECLARE)
    const __m512 times = _mm512_set1_ps(factor), plus = _mm512_set1_ps(summand);
    __m512 total = _mm512_setzero_ps();
    TIMES_16(BEGIN)
    for (long round = 0; round < rounds; round++) { TIMES_16(STEP) }
    TIMES_16(SUM)
    sink = _mm512_cvtss_f32(total);
#undef DECLARE
#undef STEP
#undef PLUS
#undef ALL
}

__attribute__((target("avx2,fma"))) static void fp32_fma(long rounds) {
#define DECLARE(k) __m256 chain##k;
#define STEP(k) chain##k = _mm256_fmadd_ps(chain##k, times, plus);
#define PLUS _mm256_add_ps
#define ALL(k) _mm256_set1_ps((float)(k))
    TIMES_12(DECLARE)
    const __m256 times = _mm256_set1_ps(factor), plus = _mm256_set1_ps(summand);
    __m256 total = _mm256_setzero_ps();
    TIMES_12(BEGIN)
    for (long round = 0; round < rounds; round++) { TIMES_12(STEP) }
    TIMES_12(SUM)
    sink = _mm256_cvtss_f32(total);
#undef DECLARE
#undef STEP
#undef PLUS
#undef ALL
}

__attribute__((target("avx512f,avx512bw,avx512vnni"))) static void int8_avx512_vnni(long rounds) {
#define DECLARE(k) __m512i chain##k;
#define STEP(k) chain##k = _mm512_dpbusd_epi32(chain##k, left, right);
#define PLUS _mm512_add_epi32
#define ALL(k) _mm512_set1_epi32(k)
    TIMES_16(DECLARE)
    const __m512i left = _mm512_set1_epi8(left_byte), right = _mm512_set1_epi8(right_byte);
    __m512i total = _mm512_setzero_si512();
    TIMES_16(BEGIN)
    for (long round = 0; round < rounds; round++) { TIMES_16(STEP) }
    TIMES_16(SUM)
    sink = (float)_mm_cvtsi128_si32(_mm512_castsi512_si128(total));
#undef DECLARE
#undef STEP
#undef PLUS
#undef ALL
}

#if defined(__clang__) || __GNUC__ >= 11
#define HAS_AVX_VNNI 1
__attribute__((target("avx2,avxvnni"))) static void int8_avx_vnni(long rounds) {
#define DECLARE(k) __m256i chain##k;
#define STEP(k) chain##k = _mm256_dpbusd_avx_epi32(chain##k, left, right);
#define PLUS _mm256_add_epi32
#define ALL(k) _mm256_set1_epi32(k)
    TIMES_12(DECLARE)
    const __m256i left = _mm256_set1_epi8(left_byte), right = _mm256_set1_epi8(right_byte);
    __m256i total = _mm256_setzero_si256();
    TIMES_12(BEGIN)
    for (long round = 0; round < rounds; round++) { TIMES_12(STEP) }
    TIMES_12(SUM)
    sink = (float)_mm256_extract_epi32(total, 0);
#undef DECLARE
#undef STEP
#undef PLUS
#undef ALL
}
#endif

__attribute__((target("avx2"))) static void int8_avx2(long rounds) {
#define DECLARE(k) __m256i chain##k;
/* the operand's content is hidden from the compiler each time, or the product is taken out of the loop */
#define STEP(k)                        \
    __asm__ volatile("" : "+x"(left)); \
    chain##k = _mm256_add_epi32(chain##k, _mm256_madd_epi16(_mm256_maddubs_epi16(left, right), ones));
#define PLUS _mm256_add_epi32
#define ALL(k) _mm256_set1_epi32(k)
    TIMES_8(DECLARE)
    __m256i left = _mm256_set1_epi8(left_byte);
    const __m256i right = _mm256_set1_epi8(right_byte), ones = _mm256_set1_epi16(1);
    __m256i total = _mm256_setzero_si256();
    TIMES_8(BEGIN)
    for (long round = 0; round < rounds; round++) { TIMES_8(STEP) }
    TIMES_8(SUM)
    sink = (float)_mm256_extract_epi32(total, 0);
#undef DECLARE
#undef STEP
#undef PLUS
#undef ALL
}

#endif

#define PLAIN 256

static void fp32_compiler(long rounds) {
    float chain[PLAIN], times = factor, plus = summand;
    for (int k = 0; k < PLAIN; k++) chain[k] = (float)k;
    for (long round = 0; round < rounds; round++) {
        for (int k = 0; k < PLAIN; k++) chain[k] = chain[k] * times + plus;
        __asm__ volatile("" : : "r"(chain) : "memory");
    }
    sink = chain[PLAIN - 1];
}

static void int8_compiler(long rounds) {
    signed char left[PLAIN], right[PLAIN];
    int32_t total = 0;
    memset(left, left_byte, sizeof left);
    memset(right, right_byte, sizeof right);
    for (long round = 0; round < rounds; round++) {
        int32_t sum = 0;
        for (int k = 0; k < PLAIN; k++) sum += (int32_t)left[k] * (int32_t)right[k];
        total ^= sum;
        __asm__ volatile("" : : "r"(left), "r"(right) : "memory");
    }
    sink = (float)total;
}

static const struct variant {
    const char *name;
    void (*kernel)(long rounds);
    double operations; /* of one round */
} variants[] = {
#ifdef HAS_X86
    {"fp32-avx512f", fp32_avx512f, 2.0 * 16 * CHAINS_512},
    {"fp32-fma", fp32_fma, 2.0 * 8 * CHAINS_256},
    {"int8-avx512_vnni", int8_avx512_vnni, 2.0 * 64 * CHAINS_512},
#ifdef HAS_AVX_VNNI
    {"int8-avx_vnni", int8_avx_vnni, 2.0 * 32 * CHAINS_256},
#endif
    {"int8-avx2", int8_avx2, 2.0 * 32 * CHAINS_AVX2},
#endif
    {"fp32-compiler", fp32_compiler, 2.0 * PLAIN},
    {"int8-compiler", int8_compiler, 2.0 * PLAIN},
};

static void work(void *state, int thread, int num_threads) {
    (void)thread;
    (void)num_threads;
    const struct job *job = state;
    job->kernel(job->rounds);
}

int main(int argc, char **argv) {
    if (argc != 5) {
        fprintf(stderr, "usage: peak VARIANT THREADS MILLISECONDS REPETITIONS\n");
        return 2;
    }
    const struct variant *variant = NULL;
    for (size_t k = 0; k < sizeof variants / sizeof *variants; k++)
        if (strcmp(variants[k].name, argv[1]) == 0) variant = &variants[k];
    if (variant == NULL) {
        fprintf(stderr, "%s: no such variant in this build\n", argv[1]);
        return 4;
    }
    int num_threads = (int)whole(argv[2], 1, MAX_THREADS);
    double wanted_ns = (double)whole(argv[3], 1, 60000) * 1e6;
    long repetitions = whole(argv[4], 1, 10000);
    struct job job = {variant->kernel, 1000};
    int64_t taken = 0;
    for (;;) { /* warms up, and finds how many rounds take about as long as wanted */
        taken = run_team(num_threads, work, &job);
        if ((double)taken * 4 >= wanted_ns || job.rounds > (1L << 50)) break;
        job.rounds *= 2;
    }
    job.rounds = (long)((double)job.rounds * wanted_ns / (double)taken) + 1;
    for (long repetition = 0; repetition < repetitions; repetition++) {
        taken = run_team(num_threads, work, &job);
        double operations = variant->operations * (double)job.rounds * num_threads;
        printf("%s %.0f %lld\n", variant->name, operations, (long long)taken);
    }
    return 0;
}
