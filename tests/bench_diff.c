/* bench_diff.c - how fast two big dumps are verified and compared, against one XXH3-128 pass over the same bytes.
 * Not a test: nothing here can fail but for trouble; the ratio is read by people.
 * Idea: the yardstick maps the same files freshly and hashes them in one call each, so both sides pay for page faults;
 * arms alternate, time is processor time, the median of the paired ratios is reported. Four pairs:
 * identical; every row hash and logit differs; fork after three quarters; fork at the start.
 * Source: ours. Exercise: bench_diff [RECORDS] [FOLDER] */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "gates/diff.h"

#define ROUNDS 7

/* Processor time, page faults included: a machine shared with others still gives a usable ratio. */
static double now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void die(const struct err *err) {
    fprintf(stderr, "bench_diff: %s\n", err->message);
    exit(2);
}

enum kind { SAME, OTHER_LOGITS, LATE_FORK, EARLY_FORK };

/* Records after a fork have nothing in common. */
static struct dump_record record_of(uint64_t i, uint64_t n, enum kind kind) {
    struct dump_record r;
    memset(&r, 0, sizeof r);
    r.token = (int32_t)(i * 2654435761u % 150000u);
    if ((kind == EARLY_FORK && i >= 3) || (kind == LATE_FORK && i >= n - n / 4)) r.token++;
    r.id1 = r.token;
    r.id2 = (int32_t)((i + 77) * 40503u % 150000u);
    r.logit1 = 20.0f + (float)(i % 64) * 0.03125f;
    r.logit2 = 19.0f;
    if (kind == OTHER_LOGITS) r.logit2 += 0.0009765625f * (float)(1 + i % 3);
    r.logsumexp = 20.5;
    uint64_t seed[2] = {i, kind == OTHER_LOGITS};
    r.row = hash_bytes(seed, sizeof seed);
    return r;
}

static void write_dump(const char *path, uint64_t n, enum kind kind) {
    struct provenance p;
    struct err err;
    dump_writer *w = NULL;
    provenance_init(&p);
    if (provenance_set(&p, "n_vocab", "151936", &err) != STATUS_OK) die(&err);
    if (dump_writer_open(path, &p, 0, 0, &w, &err) != STATUS_OK) die(&err);
    static const uint8_t text[] = " some token text";
    for (uint64_t i = 0; i < n; i++) {
        struct dump_record r = record_of(i, n, kind);
        if (dump_writer_add(w, &r, text, (uint32_t)(1 + i % 7), NULL, NULL, &err) != STATUS_OK) die(&err);
    }
    if (dump_writer_finish(w, &p, NULL, &err) != STATUS_OK) die(&err);
    provenance_free(&p);
}

/* One XXH3-128 pass over a freshly mapped file. Returns its size. */
static double hash_file(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0) {
        perror(path);
        exit(2);
    }
    void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    (void)close(fd);
    if (map == MAP_FAILED) {
        perror(path);
        exit(2);
    }
    volatile struct hash128 h = hash_bytes(map, (size_t)st.st_size);
    (void)h;
    (void)munmap(map, (size_t)st.st_size);
    return (double)st.st_size;
}

static enum diff_verdict diff_once(const char *a, const char *b) {
    dump *da = NULL, *db = NULL;
    struct diff_result r;
    struct err err;
    if (diff_files(a, b, NULL, &da, &db, &r, &err) != STATUS_OK) die(&err);
    dump_close(da);
    dump_close(db);
    return r.verdict;
}

static int by_value(const void *x, const void *y) {
    const double *a = x, *b = y;
    return (*a > *b) - (*a < *b);
}

static double median(double *t) {
    qsort(t, ROUNDS, sizeof *t, by_value);
    return t[ROUNDS / 2];
}

static void measure(const char *name, const char *a, const char *b) {
    double hash_s[ROUNDS], diff_s[ROUNDS], ratio[ROUNDS], bytes = 0;
    enum diff_verdict verdict = diff_once(a, b); /* warms the page cache */
    for (int i = 0; i < ROUNDS; i++) {
        for (int arm = 0; arm < 2; arm++) {
            double start = now();
            if ((arm ^ i) & 1) {
                bytes = hash_file(a) + hash_file(b);
                hash_s[i] = now() - start;
            } else {
                verdict = diff_once(a, b);
                diff_s[i] = now() - start;
            }
        }
    }
    for (int i = 0; i < ROUNDS; i++)
        ratio[i] = hash_s[i] / diff_s[i]; /* neighbours in time share the machine's mood */
    double r = median(ratio), low = ratio[0], high = ratio[ROUNDS - 1], h = median(hash_s),
           d = median(diff_s);
    printf("%-14s %-10s %7.0f MB  xxh3 %6.2f GB/s  diff %6.2f GB/s  ratio %.3f (%.3f..%.3f)\n", name,
           diff_verdict_name(verdict), bytes / 1e6, bytes / h / 1e9, bytes / d / 1e9, r, low, high);
}

int main(int argc, char **argv) {
    uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 10000000;
    const char *parent = argc > 2 ? argv[2] : "/tmp";
    char folder[512], a[600], b[600];
    if (n == 0 || argc > 3) {
        fprintf(stderr, "usage: bench_diff [RECORDS] [FOLDER]\n");
        return 2;
    }
    (void)snprintf(folder, sizeof folder, "%s/forkgate-bench-diff-XXXXXX", parent);
    if (mkdtemp(folder) == NULL) {
        perror(folder);
        return 2;
    }
    (void)snprintf(a, sizeof a, "%s/a.fgd", folder);
    (void)snprintf(b, sizeof b, "%s/b.fgd", folder);
    static const char *const names[] = {"identical", "other logits", "late fork", "early fork"};
    write_dump(a, n, SAME);
    for (int kind = SAME; kind <= EARLY_FORK; kind++) {
        write_dump(b, n, (enum kind)kind);
        measure(names[kind], a, b);
    }
    (void)unlink(a);
    (void)unlink(b);
    (void)rmdir(folder);
    return 0;
}
