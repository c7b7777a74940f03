#include <stdio.h>
#include <stdlib.h>

__attribute__((noinline)) double vec_dot(const float *a, const float *b, int n) {
    double s = 0.0;
    for (int i = 0; i < n; i++) s += (double)a[i] * (double)b[i];
    return s;
}

__attribute__((noinline)) void soft_max(float *a, int n) {
    float m = a[0];
    for (int i = 1; i < n; i++) if (a[i] > m) m = a[i];
    for (int i = 0; i < n; i++) a[i] = a[i] / (1.0f + m);
}

__attribute__((noinline)) double decode(float *a, float *b, int n) {
    double s = vec_dot(a, b, n);
    soft_max(a, n / 4);
    return s;
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 100, n = 4096;
    float *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b);
    for (int i = 0; i < n; i++) { a[i] = 1.0f + i % 7; b[i] = 0.5f * (i % 5); }
    double s = 0.0;
    for (int r = 0; r < rounds; r++) s += decode(a, b, n);
    printf("%.3f\n", s);
    return 0;
}
