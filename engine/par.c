/* par.c - see par.h: POSIX threads that wait for a generation number to move.
 * Not a queue: one range at a time, cut into equal contiguous parts, one part per thread.
 * Idea: a waiter spins briefly (a decode step asks for work every few microseconds), then sleeps on a condition
 * variable, so an idle pool costs nothing.
 * Source: ours. Exercise: ctest -R unit.par */
#include "par.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define SPINS 4000 /* a few microseconds; longer spins steal time from the thread that is waited for */

struct worker {
    par *pool;
    int index; /* 1 .. n-1; thread 0 is the caller */
    pthread_t thread;
};

struct par {
    int n;
    int started; /* workers running, for a partly failed open */
    struct worker worker[PAR_THREADS_MAX];
    pthread_mutex_t lock;
    pthread_cond_t start, done;
    atomic_uint generation; /* moves when a job (or the stop) is posted */
    atomic_int pending;     /* workers that have not finished the job */
    int stop;
    /* the job; written before generation moves, read after */
    par_fn *fn;
    void *ctx;
    int64_t size, part; /* range length; part is a multiple of the grain */
};

static void run_part(par *p, int thread) {
    int64_t begin = p->part * thread;
    int64_t end = begin + p->part < p->size ? begin + p->part : p->size;
    if (begin < end) p->fn(p->ctx, begin, end, thread);
}

static void wait_generation(par *p, unsigned seen) {
    for (int i = 0; i < SPINS; i++)
        if (atomic_load_explicit(&p->generation, memory_order_acquire) != seen) return;
    pthread_mutex_lock(&p->lock);
    while (atomic_load_explicit(&p->generation, memory_order_acquire) == seen)
        pthread_cond_wait(&p->start, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

static void *worker_main(void *arg) {
    struct worker *w = arg;
    par *p = w->pool;
    for (unsigned seen = 0;; seen++) {
        wait_generation(p, seen);
        if (p->stop) return NULL;
        run_part(p, w->index);
        if (atomic_fetch_sub_explicit(&p->pending, 1, memory_order_acq_rel) == 1) {
            pthread_mutex_lock(&p->lock); /* the caller checks pending under the lock: no lost wake-up */
            pthread_cond_signal(&p->done);
            pthread_mutex_unlock(&p->lock);
        }
    }
}

/* Publishes the job fields to every worker. */
static void post(par *p) {
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add_explicit(&p->generation, 1, memory_order_release);
    pthread_cond_broadcast(&p->start);
    pthread_mutex_unlock(&p->lock);
}

static void wait_done(par *p) {
    for (int i = 0; i < SPINS; i++)
        if (atomic_load_explicit(&p->pending, memory_order_acquire) == 0) return;
    pthread_mutex_lock(&p->lock);
    while (atomic_load_explicit(&p->pending, memory_order_acquire) != 0)
        pthread_cond_wait(&p->done, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

enum status par_open(int n_threads, par **out, struct err *err) {
    *out = NULL;
    if (n_threads < 1 || n_threads > PAR_THREADS_MAX)
        return err_set(err, STATUS_USAGE, "threads: %d must be 1 to %d", n_threads, PAR_THREADS_MAX);
    par *p = calloc(1, sizeof *p);
    if (p == NULL) return err_set(err, STATUS_NOMEM, "threads: out of memory");
    p->n = n_threads;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->start, NULL);
    pthread_cond_init(&p->done, NULL);
    for (int i = 1; i < n_threads; i++) {
        struct worker *w = &p->worker[i];
        w->pool = p;
        w->index = i;
        int rc = pthread_create(&w->thread, NULL, worker_main, w);
        if (rc != 0) {
            par_close(p);
            return err_set(err, STATUS_NOMEM, "threads: thread %d of %d could not be started (error %d)",
                           i + 1, n_threads, rc);
        }
        p->started = i;
    }
    *out = p;
    return STATUS_OK;
}

void par_close(par *p) {
    if (p == NULL) return;
    p->stop = 1;
    post(p);
    for (int i = 1; i <= p->started; i++) pthread_join(p->worker[i].thread, NULL);
    pthread_cond_destroy(&p->done);
    pthread_cond_destroy(&p->start);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

int par_threads(const par *p) {
    return p == NULL ? 1 : p->n;
}

void par_for(par *p, int64_t n, int64_t grain, par_fn *fn, void *ctx) {
    if (n <= 0) return;
    int64_t units = (n + grain - 1) / grain;
    if (p == NULL || p->n == 1 || units == 1) {
        fn(ctx, 0, n, 0);
        return;
    }
    p->fn = fn;
    p->ctx = ctx;
    p->size = n;
    p->part = (units + p->n - 1) / p->n * grain;
    atomic_store_explicit(&p->pending, p->n - 1, memory_order_relaxed);
    post(p);
    run_part(p, 0);
    wait_done(p);
}
