/* witness.c - see witness.h. */
#include "gates/model/witness.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "engine/backend.h"

static struct {
    struct backend *backend; /* whose table holds the shim; NULL: none */
    enum status (*begin)(struct backend *self, const struct step *s, int *replayed, struct err *err);
    struct witness seen;
    const void *caches[BATCH_MAX]; /* of the decode step before */
    int n, repeats;
} watch;

/* ---- steps ------------------------------------------------------------------------------------------------------- */
static void note_decode(const struct step *s, int replayed) {
    int same = s->n_rows == watch.n;
    for (int i = 0; i < s->n_rows; i++) {
        same = same && watch.caches[i] == s->kv[i]->k;
        watch.caches[i] = s->kv[i]->k;
    }
    watch.n = s->n_rows;
    watch.repeats = same ? watch.repeats + 1 : 0;
    watch.seen.decodes++;
    watch.seen.ripe += watch.repeats >= 2;
    watch.seen.replayed += replayed != 0;
}

static enum status watched_begin(struct backend *self, const struct step *s, int *replayed, struct err *err) {
    enum status status = watch.begin(self, s, replayed, err);
    if (s->n_seq == 1 && s->n_rows > watch.seen.rows) watch.seen.rows = s->n_rows;
    if (status == STATUS_OK && s->n_seq == s->n_rows) note_decode(s, *replayed);
    return status;
}

enum status witness_open(engine *e, struct err *err) {
    if (watch.backend != NULL) return err_set(err, STATUS_USAGE, "witness: another engine is being watched");
    memset(&watch, 0, sizeof watch);
    watch.backend = engine_backend(e);
    watch.begin = watch.backend->step_begin;
    watch.backend->step_begin = watched_begin;
    return STATUS_OK;
}

struct witness witness_close(void) {
    if (watch.backend != NULL) watch.backend->step_begin = watch.begin;
    watch.backend = NULL;
    return watch.seen;
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */
static struct witness_threads listed(void) {
    struct witness_threads t = {0, {0}};
    DIR *d = opendir("/proc/self/task");
    for (const struct dirent *f; d != NULL && t.n < WITNESS_THREADS && (f = readdir(d)) != NULL;)
        if (f->d_name[0] != '.') t.id[t.n++] = strtol(f->d_name, NULL, 10);
    if (d != NULL) (void)closedir(d);
    return t;
}

/* A listing may miss threads while another ends: the first that comes twice. */
struct witness_threads witness_threads(void) {
    struct witness_threads t = listed(), before;
    do {
        before = t;
        t = listed();
    } while (t.n != before.n || memcmp(t.id, before.id, sizeof t.id) != 0);
    return t;
}

int witness_started(const struct witness_threads *then) {
    const struct witness_threads now = witness_threads();
    int started = 0;
    for (int i = 0; i < now.n; i++) {
        int known = 0;
        for (int k = 0; k < then->n; k++) known |= then->id[k] == now.id[i];
        started += !known;
    }
    return started;
}
