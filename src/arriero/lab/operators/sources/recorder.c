/* Two callbacks that note times, without Python: what they cost is one reading of the clock.
 *
 * note_node is asked before each node of a graph whether the packet of nodes shall end there, and told after each packet
 * that it was computed. note_time is called after each node that was computed, by the first compute thread.
 */
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

enum kind { ASKED = 0, COMPUTED = 1, STAMPED = 2 };

typedef struct {
    int64_t at;     /* nanoseconds of the monotonic clock */
    uint64_t node;  /* the address of its tensor; 0 for a stamp */
    int64_t kind;
} event;

typedef struct {
    int64_t every;  /* a packet ends at every such node; 0: only where the graph does */
    int64_t last;   /* the number of the graph's last node, at which a packet ends in any case; -1: not known */
    int64_t lists;  /* whether each node that is asked for is noted */
    int64_t stamps; /* whether each node that was computed is noted */
    int64_t asked;  /* nodes so far */
    int64_t noted;  /* events so far, those for which there was no room among them */
    int64_t room;
    event *events;
} recorder;

static void note(recorder *self, uint64_t node, int64_t kind) {
    if (self->noted < self->room) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        event *here = &self->events[self->noted];
        here->at = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
        here->node = node;
        here->kind = kind;
    }
    self->noted++;
}

bool note_node(void *node, bool ask, void *data) {
    recorder *self = data;
    if (!ask) {
        note(self, (uint64_t)(uintptr_t)node, COMPUTED);
        return true;
    }
    int64_t number = self->asked++;
    bool ends = self->every > 0 && ((number + 1) % self->every == 0 || number == self->last);
    /* the graph is computed after its last node was asked for, so a stamp there tells when it began */
    if (ends || self->lists || (self->stamps && number == self->last)) {
        note(self, (uint64_t)(uintptr_t)node, ASKED);
    }
    return ends;
}

bool note_time(void *data) {
    recorder *self = data;
    if (self->stamps) {
        note(self, 0, STAMPED);
    }
    return false;
}
