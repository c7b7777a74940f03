/* A team of threads that begin together: the time from the moment when all are ready until the last one is done. */

#ifndef ARRIERO_TEAM_H
#define ARRIERO_TEAM_H

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MAX_THREADS 1024

typedef void (*team_work)(void *state, int thread, int num_threads);

struct team_member {
    team_work work;
    void *state;
    int thread;
    int num_threads;
    pthread_barrier_t *gate;
};

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void *team_member_main(void *argument) {
    struct team_member *member = argument;
    pthread_barrier_wait(member->gate);
    member->work(member->state, member->thread, member->num_threads);
    pthread_barrier_wait(member->gate);
    return NULL;
}

/* Nanoseconds that the work took; the caller is one of the threads. */
static int64_t run_team(int num_threads, team_work work, void *state) {
    static pthread_t threads[MAX_THREADS];
    static struct team_member members[MAX_THREADS];
    pthread_barrier_t gate;
    pthread_barrier_init(&gate, NULL, (unsigned)num_threads);
    for (int i = 1; i < num_threads; i++) {
        members[i] = (struct team_member){work, state, i, num_threads, &gate};
        if (pthread_create(&threads[i], NULL, team_member_main, &members[i]) != 0) {
            fprintf(stderr, "no thread %d can be started\n", i);
            exit(3);
        }
    }
    pthread_barrier_wait(&gate);
    int64_t begun = now_ns();
    work(state, 0, num_threads);
    pthread_barrier_wait(&gate);
    int64_t taken = now_ns() - begun;
    for (int i = 1; i < num_threads; i++) pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&gate);
    return taken > 0 ? taken : 1;
}

/* A whole number from the command line, or the end of the program. */
static long whole(const char *text, long least, long most) {
    char *end = NULL;
    long value = strtol(text, &end, 10);
    if (end == text || *end != '\0' || value < least || value > most) {
        fprintf(stderr, "%s: no whole number from %ld to %ld\n", text, least, most);
        exit(2);
    }
    return value;
}

#endif
