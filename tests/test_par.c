/* test_par.c - the pool covers a range once, at any size, grain and thread count, thousands of times in a row. */
#include <criterion/criterion.h>

#include <string.h>

#include "engine/par.h"

#define N_MAX 1000

struct mark_job {
    int64_t n, grain;
    int threads;
    unsigned char hits[N_MAX]; /* one writer per element when ranges are disjoint */
    int bad[PAR_THREADS_MAX];  /* per thread: misaligned or out of range */
    int calls[PAR_THREADS_MAX];
};

static void mark(void *ctx, int64_t begin, int64_t end, int thread) {
    struct mark_job *job = ctx;
    if (thread < 0 || thread >= job->threads) return; /* then hits are missing */
    job->calls[thread]++;
    if (begin % job->grain != 0 || begin >= end || end > job->n) {
        job->bad[thread]++;
        return;
    }
    for (int64_t i = begin; i < end; i++) job->hits[i]++;
}

static void check_range(par *p, int threads, int64_t n, int64_t grain) {
    static struct mark_job job;
    memset(&job, 0, sizeof job);
    job.n = n;
    job.grain = grain;
    job.threads = threads;
    par_for(p, n, grain, mark, &job);
    for (int64_t i = 0; i < N_MAX; i++)
        cr_assert_eq(job.hits[i], i < n ? 1 : 0, "threads %d n %d grain %d: element %d hit %d times", threads,
                     (int)n, (int)grain, (int)i, job.hits[i]);
    for (int t = 0; t < PAR_THREADS_MAX; t++) {
        cr_assert_eq(job.bad[t], 0, "threads %d n %d grain %d: bad range", threads, (int)n, (int)grain);
        cr_assert(job.calls[t] <= 1, "thread %d was called %d times", t, job.calls[t]);
    }
}

Test(par, every_index_once_in_grain_aligned_ranges) {
    static const int threads[] = {1, 2, 3, 4, 7, 64};
    static const int64_t sizes[] = {0, 1, 2, 7, 8, 9, 63, 64, 65, 999, 1000};
    static const int64_t grains[] = {1, 3, 8, 64, 5000};
    for (size_t t = 0; t < sizeof threads / sizeof threads[0]; t++) {
        par *p = NULL;
        struct err err;
        cr_assert_eq(par_open(threads[t], &p, &err), STATUS_OK);
        cr_assert_eq(par_threads(p), threads[t]);
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
            for (size_t g = 0; g < sizeof grains / sizeof grains[0]; g++)
                check_range(p, threads[t], sizes[s], grains[g]);
        par_close(p);
    }
}

Test(par, all_threads_take_part_when_there_is_work_for_all) {
    par *p = NULL;
    struct err err;
    cr_assert_eq(par_open(4, &p, &err), STATUS_OK);
    struct mark_job job = {.n = 400, .grain = 8, .threads = 4};
    par_for(p, job.n, job.grain, mark, &job);
    for (int t = 0; t < 4; t++) cr_assert_eq(job.calls[t], 1, "thread %d: %d calls", t, job.calls[t]);
    par_close(p);
}

static void sum_range(void *ctx, int64_t begin, int64_t end, int thread) {
    int64_t *sums = ctx;
    for (int64_t i = begin; i < end; i++) sums[thread * 8] += i;
}

Test(par, thousands_of_short_jobs_lose_nothing) {
    par *p = NULL;
    struct err err;
    cr_assert_eq(par_open(3, &p, &err), STATUS_OK);
    for (int round = 0; round < 5000; round++) {
        int64_t sums[24] = {0};
        par_for(p, 100 + round % 7, 1, sum_range, sums);
        int64_t n = 100 + round % 7;
        cr_assert_eq(sums[0] + sums[8] + sums[16], n * (n - 1) / 2, "round %d", round);
    }
    par_close(p);
}

Test(par, no_pool_and_bad_counts) {
    cr_assert_eq(par_threads(NULL), 1);
    check_range(NULL, 1, 100, 8);
    par_close(NULL);
    static const int bad[] = {0, -1, 65, 1 << 20};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        par *p = NULL;
        struct err err = {""};
        cr_assert_eq(par_open(bad[i], &p, &err), STATUS_USAGE, "accepted %d threads", bad[i]);
        cr_assert(p == NULL && strlen(err.message) > 0);
    }
}
