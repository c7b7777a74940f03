/* Memory bandwidth of some threads: bandwidth THREADS BYTES REPETITIONS
 *
 * Three arrays of BYTES each, every thread on its own part, which it has touched first.
 * A line for each repetition: KIND BYTES_MOVED NANOSECONDS
 *
 *   read   sums one array                      BYTES
 *   copy   b[i] = a[i]                     2 x BYTES
 *   triad  a[i] = b[i] + s * c[i]          3 x BYTES
 *
 * Bytes are counted as the program asks for them: that an ordinary store reads its cache line first is not counted.
 */

#define _GNU_SOURCE
#include <string.h>

#include "team.h"

typedef double vector __attribute__((vector_size(64)));
typedef uint64_t words __attribute__((vector_size(64)));

struct arrays {
    vector *a, *b, *c;
    size_t length; /* vectors in each */
};

struct part {
    size_t begin, end;
};

static volatile uint64_t sink;

static struct part part_of(const struct arrays *arrays, int thread, int num_threads) {
    struct part part = {
        arrays->length * (size_t)thread / (size_t)num_threads,
        arrays->length * ((size_t)thread + 1) / (size_t)num_threads,
    };
    return part;
}

static void touch(void *state, int thread, int num_threads) {
    struct arrays *arrays = state;
    struct part part = part_of(arrays, thread, num_threads);
    size_t size = (part.end - part.begin) * sizeof(vector);
    memset(arrays->a + part.begin, 1, size);
    memset(arrays->b + part.begin, 2, size);
    memset(arrays->c + part.begin, 3, size);
}

static void read_work(void *state, int thread, int num_threads) {
    struct arrays *arrays = state;
    struct part part = part_of(arrays, thread, num_threads);
    const words *data = (const words *)arrays->a;
    words sum0 = {0}, sum1 = {0}, sum2 = {0}, sum3 = {0};
    size_t i = part.begin;
    for (; i + 4 <= part.end; i += 4) {
        sum0 += data[i];
        sum1 += data[i + 1];
        sum2 += data[i + 2];
        sum3 += data[i + 3];
    }
    for (; i < part.end; i++) sum0 += data[i];
    words sum = sum0 + sum1 + sum2 + sum3;
    uint64_t total = 0;
    for (int k = 0; k < 8; k++) total += sum[k];
    sink = total;
}

static void copy_work(void *state, int thread, int num_threads) {
    struct arrays *arrays = state;
    struct part part = part_of(arrays, thread, num_threads);
    for (size_t i = part.begin; i < part.end; i++) {
        arrays->b[i] = arrays->a[i];
        __asm__ volatile("" ::: "memory"); /* or it becomes memcpy, which stores past the caches */
    }
}

static void triad_work(void *state, int thread, int num_threads) {
    struct arrays *arrays = state;
    struct part part = part_of(arrays, thread, num_threads);
    const double scale = 3.0;
    for (size_t i = part.begin; i < part.end; i++) arrays->a[i] = arrays->b[i] + scale * arrays->c[i];
}

static vector *allocate(size_t length) {
    void *memory = NULL;
    if (posix_memalign(&memory, 4096, length * sizeof(vector)) != 0) {
        fprintf(stderr, "no room for %zu bytes\n", length * sizeof(vector));
        exit(3);
    }
    return memory;
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: bandwidth THREADS BYTES REPETITIONS\n");
        return 2;
    }
    int num_threads = (int)whole(argv[1], 1, MAX_THREADS);
    size_t length = (size_t)whole(argv[2], 64 * MAX_THREADS, 1L << 40) / sizeof(vector);
    long repetitions = whole(argv[3], 1, 10000);
    struct arrays arrays = {allocate(length), allocate(length), allocate(length), length};
    const struct {
        const char *name;
        team_work work;
        size_t times;
    } kinds[] = {{"read", read_work, 1}, {"copy", copy_work, 2}, {"triad", triad_work, 3}};
    run_team(num_threads, touch, &arrays);
    for (long repetition = -1; repetition < repetitions; repetition++) { /* the first one warms up */
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            int64_t taken = run_team(num_threads, kinds[k].work, &arrays);
            if (repetition < 0) continue;
            printf("%s %zu %lld\n", kinds[k].name, kinds[k].times * length * sizeof(vector), (long long)taken);
        }
    }
    free(arrays.a);
    free(arrays.b);
    free(arrays.c);
    return 0;
}
