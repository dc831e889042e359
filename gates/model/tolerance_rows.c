/* tolerance_rows.c - evidence rows of the tolerance package: each with the numbers, the bound and a command that replays it.
 * Source: ours. Exercise: forkgate run --tier tolerance --class fa --cause TEXT --csv rows.csv */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gates/compare.h"
#include "gates/model/tolerance_parts.h"

enum verdict tolerance_judged(double value, double bound, enum verdict otherwise) {
    return compare_judge(value, bound) == VERDICT_PASS ? VERDICT_PASS : otherwise;
}

struct finding tolerance_finding(const char *arm, const char *test_case, const char *metric, double value,
                                 double bound, enum verdict verdict) {
    struct finding f = {arm, test_case, metric, value, bound, verdict, NULL, NULL, 0};
    return f;
}

/* Kernels of the candidate that ran so far in this process; a child's are its own. */
static void write_kernels(const struct package *p, char *out, size_t room) {
    struct kernel_count counts[BACKEND_KERNELS_MAX];
    engine *e = p->candidate.engine;
    int n = e == NULL ? 0 : engine_kernel_counts(e, counts);
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; i < n && used < room; i++)
        if (counts[i].calls > 0)
            used += (size_t)snprintf(out + used, room - used, "%s%s", used > 0 ? " " : "", counts[i].name);
}

static void write_hash(const dump *d, char out[40]) {
    if (d == NULL) return;
    struct dump_results r = dump_results(d);
    hash_format(&r.logits, out);
}

/* Of the candidate's stream where the row has one, else of the base's first. */
static void write_provenance(const struct package *p, const dump *d, char out[40]) {
    char *text = NULL;
    size_t n = 0;
    if (d == NULL && p->battery.n > 0) d = p->streams[0];
    if (d == NULL || provenance_format(dump_provenance(d), &text, &n, NULL) != STATUS_OK) return;
    struct hash128 h = hash_bytes(text, n);
    hash_format(&h, out);
    free(text);
}

static void emit(const struct package *p, const struct finding *f, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));
static void emit(const struct package *p, const struct finding *f, const char *format, va_list args) {
    struct evidence row;
    memset(&row, 0, sizeof row);
    row.tier = TIER_TOLERANCE;
    (void)snprintf(row.gate, sizeof row.gate, "%s", p->plan->gate);
    (void)snprintf(row.test_case, sizeof row.test_case, "%s", f->test_case);
    (void)snprintf(row.arm, sizeof row.arm, "%s", f->arm);
    (void)snprintf(row.metric, sizeof row.metric, "%s", f->metric);
    (void)snprintf(row.grade, sizeof row.grade, "measured");
    row.value = f->value;
    row.bound = f->bound;
    row.verdict = f->verdict;
    row.seed = f->seed;
    write_hash(f->ref, row.ref);
    write_hash(f->got, row.got);
    write_provenance(p, f->got, row.provenance);
    write_kernels(p, row.kernels, sizeof row.kernels);
    (void)snprintf(row.repro, sizeof row.repro, "forkgate run --tier tolerance --only %s", p->plan->gate);
    (void)vsnprintf(row.note, sizeof row.note, format, args);
    p->ctx->emit(p->ctx->sink, &row);
}

void tolerance_row(const struct package *p, const struct finding *f, const char *format, ...) {
    va_list args;
    va_start(args, format);
    emit(p, f, format, args);
    va_end(args);
}

void tolerance_note(const struct package *p, const char *arm, enum verdict v, const char *format, ...) {
    struct finding f = tolerance_finding(arm, "", "none", (double)NAN, (double)NAN, v);
    va_list args;
    va_start(args, format);
    emit(p, &f, format, args);
    va_end(args);
}

void tolerance_progress(struct package *p, const char *doing, uint64_t done, uint64_t total) {
    p->doing = doing;
    if (p->ctx->progress != NULL) p->ctx->progress(doing, done, total);
}
