/* op_arms.c - see op_arms.h. */
#include "gates/ops/op_arms.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gates/ops/launch_rows.h"

/* ---- rows ---------------------------------------------------------------------------------------------------- */
static void start_row(const struct op_bench *b, const struct op_io *io, const char *arm, const char *metric,
                      struct evidence *row) {
    memset(row, 0, sizeof *row);
    (void)snprintf(row->test_case, sizeof row->test_case, "%s", io->c->text);
    (void)snprintf(row->arm, sizeof row->arm, "%s", arm);
    (void)snprintf(row->metric, sizeof row->metric, "%s", metric);
    (void)snprintf(row->kernels, sizeof row->kernels, "%s", b->kernels);
    memcpy(row->ref, b->ref, sizeof row->ref);
    memcpy(row->got, b->got, sizeof row->got);
    (void)snprintf(row->grade, sizeof row->grade, "measured");
    row->seed = io->c->seed;
    (void)snprintf(row->repro, sizeof row->repro, "forkgate run --tier parity --only '%s/%s'", b->op->gate,
                   io->c->text);
}

/* Bits of the twin say nothing of the device: a row that was made by another backend than the candidate's is no verdict. */
static int is_foreign(const struct op_bench *b) {
    const char *own = b->ctx->config.backend == BACKEND_CUDA ? "cuda" : "cpu";
    return b->ran_on != NULL && strcmp(b->ran_on, own) != 0;
}

static void send_judged(const struct op_bench *b, struct evidence *row, double value, double bound,
                        const char *note) {
    row->value = value;
    row->bound = bound;
    row->verdict = is_foreign(b) ? VERDICT_ERROR : compare_judge(value, bound);
    (void)snprintf(row->note, sizeof row->note, "%s", note);
    if (is_foreign(b))
        (void)snprintf(row->note, sizeof row->note, "ran on backend %s, not on the one under test",
                       b->ran_on);
    b->ctx->emit(b->ctx->sink, row);
}

static void judged_row(const struct op_bench *b, const struct op_io *io, const char *arm, const char *metric,
                       double value, double bound, const char *note) {
    struct evidence row;
    start_row(b, io, arm, metric, &row);
    send_judged(b, &row, value, bound, note);
}

static void write_hash(const float *x, size_t n, char out[40]) {
    struct hash128 h = hash_logits(x, n); /* NaN as a class, as the bits are compared */
    hash_format(&h, out);
}

void op_arms_note(const struct op_bench *b, const struct op_io *io, enum verdict v, const char *note) {
    struct evidence row;
    start_row(b, io, "run", "none", &row);
    row.value = row.bound = (double)NAN;
    row.verdict = v;
    (void)snprintf(row.note, sizeof row.note, "%.300s", note);
    b->ctx->emit(b->ctx->sink, &row);
}

void bench_row(struct op_bench *b, const struct op_io *io, const char *arm, const char *metric, double value,
               double bound, const char *note) {
    judged_row(b, io, arm, metric, value, bound, note);
}

void bench_row_bits(struct op_bench *b, const struct op_io *io, const char *arm, const float *want,
                    const float *got, size_t n) {
    size_t first;
    size_t differ = metrics_bits_differ(want, got, n, &first);
    char note[200] = "", at[64];
    if (differ > 0) {
        struct compare_shape flat = {1, {(int64_t)n, 0, 0, 0}};
        compare_index_text(n == io->n ? &io->shape : &flat, first, at, sizeof at);
        (void)snprintf(note, sizeof note, "%zu of %zu differ, first %s got %.9g want %.9g", differ, n, at,
                       (double)got[first], (double)want[first]);
    }
    struct evidence row;
    start_row(b, io, arm, "bits", &row);
    write_hash(want, n, row.ref);
    write_hash(got, n, row.got);
    send_judged(b, &row, (double)differ, 0, note);
}

/* ---- arms ---------------------------------------------------------------------------------------------------- */
/* Outputs with a byte that holds the poison of its own run in both runs, which differ in every byte: never written. They are
 * counted as values where each output is one, else as bytes. */
static void unwritten_row(struct op_bench *b, const struct op_io *io, const struct bench_run *one,
                          const struct bench_run *two) {
    size_t width = one->n_left == io->n * sizeof(float) ? sizeof(float) : 1, missing = 0, where = 0;
    char note[160] = "", at[64];
    if (one->n_left == 0) return; /* in place: there is nothing but what the op was given */
    for (size_t i = 0; i < one->n_left; i++) {
        if (!one->left[i] || !two->left[i]) continue;
        if (missing++ == 0) where = i / width;
        i += width - 1 - i % width;
    }
    compare_index_text(&io->shape, where, at, sizeof at);
    if (missing > 0 && width > 1)
        (void)snprintf(note, sizeof note, "%zu values never written, first at %s", missing, at);
    else if (missing > 0)
        (void)snprintf(note, sizeof note, "%zu bytes never written, first is byte %zu of the outputs",
                       missing, where);
    judged_row(b, io, "poison", "unwritten", (double)missing, 0, note);
}

static void sentinel_rows(struct op_bench *b, const struct op_io *io, const struct bench_run *one,
                          const struct bench_run *two, const float *first, const float *second) {
    char note[160] = "";
    const struct bench_run *bad = one->damaged > 0 ? one : two;
    if (bad->damaged > 0) (void)snprintf(note, sizeof note, "written outside: %s", bad->where);
    judged_row(b, io, "guards", "bytes", (double)(one->damaged + two->damaged), 0, note);
    int launched = one->launches > 0 && two->launches > 0;
    judged_row(b, io, "launched", "missing", launched ? 0 : 1, 0, launched ? "" : "no kernel counted itself");
    unwritten_row(b, io, one, two);
    bench_row_bits(b, io, "repeat", first, second, io->n);
    uint64_t wrong =
        one->overflows > io->overflows ? one->overflows - io->overflows : io->overflows - one->overflows;
    (void)snprintf(note, sizeof note, "counted %llu, true %llu", (unsigned long long)one->overflows,
                   (unsigned long long)io->overflows);
    judged_row(b, io, "overflows", "count", (double)wrong, 0, note);
}

static enum status bounds_of(struct op_bench *b, const struct op_io *io, struct compare_bounds *out,
                             struct err *err) {
    memset(out, 0, sizeof *out);
    const char *key = io->budget != NULL ? io->budget : io->c->dtype;
    RETURN_IF_ERROR(budgets_bound(&b->budgets, b->op->op, key, "max_scaled", &out->pointwise, err));
    return budgets_bound(&b->budgets, b->op->op, key, "rms_scaled", &out->global, err);
}

static void rounded_truth(const struct op_io *io, float *out) {
    for (size_t i = 0; i < io->n; i++) out[i] = (float)io->truth[i];
}

/* What the rows of this case stand on: the truth as far as the contract leaves no freedom, and what the subject made. */
static void note_hashes(struct op_bench *b, const struct op_io *io, const float *got, float *scratch) {
    write_hash(got, io->n, b->got);
    if (io->exact) {
        rounded_truth(io, scratch);
        write_hash(scratch, io->n, b->ref);
        return;
    }
    struct hash128 h = hash_bytes(io->truth, io->n * sizeof *io->truth);
    hash_format(&h, b->ref);
}

/* Values that are not finite where the truth is, and, where the case makes no NaN of its own, NaN in the truth: inputs are
 * finite, so a NaN on both sides has equal bits and is no agreement. Always said, with the subnormals of both sides. */
static void census_row(struct op_bench *b, const struct op_io *io, const float *got, float *scratch) {
    int own_nan = io->any_bits || case_dim(io->c, "special", 0) != 0;
    size_t bad = 0, first = 0;
    char note[200], at[64];
    rounded_truth(io, scratch);
    for (size_t i = 0; i < io->n; i++) {
        int finite = io->exact ? isfinite(scratch[i]) : isfinite(io->truth[i]);
        if (!(finite && !isfinite(got[i])) && (own_nan || !isnan(io->truth[i]))) continue;
        if (bad++ == 0) first = i;
    }
    struct census mine = metrics_census(got, io->n), truth = metrics_census(scratch, io->n);
    int used = snprintf(note, sizeof note, "%zu NaN, %zu Inf, subnormal: %zu here, %zu in the truth",
                        mine.n_nan, mine.n_pos_inf + mine.n_neg_inf, mine.n_subnormal, truth.n_subnormal);
    compare_index_text(&io->shape, first, at, sizeof at);
    if (bad > 0)
        (void)snprintf(note + used, sizeof note - (size_t)used, "; first %s got %.9g want %.9g", at,
                       (double)got[first], io->truth[first]);
    judged_row(b, io, "census", "not_finite", (double)bad, 0, note);
}

static enum status oracle_rows(struct op_bench *b, struct op_io *io, const float *got, float *scratch,
                               struct err *err) {
    census_row(b, io, got, scratch);
    if (io->exact) {
        rounded_truth(io, scratch);
        bench_row_bits(b, io, io->c->family == FAMILY_EXACT ? "exact" : "oracle", scratch, got, io->n);
        return STATUS_OK;
    }
    struct compare_bounds bounds;
    RETURN_IF_ERROR(bounds_of(b, io, &bounds, err));
    struct compare_result r = compare_values(io->truth, io->scale, &io->shape, got, &io->shape, &bounds);
    judged_row(b, io, "oracle", "max_scaled", r.errors.max_scaled, bounds.pointwise, r.reason);
    judged_row(b, io, "oracle", "rms_scaled", r.errors.rms_scaled, bounds.global, "");
    return STATUS_OK;
}

/* Twin against kernel, bit for bit; where the subject is the twin itself there is nothing to compare. */
static enum status twin_row(struct op_bench *b, struct op_io *io, const float *got, float *scratch,
                            struct err *err) {
    if (b->ctx->config.backend == BACKEND_CPU) return STATUS_OK;
    struct backend *twin;
    struct bench_run report;
    char kernels[sizeof b->kernels];
    const char *ran_on = b->ran_on;
    memcpy(kernels, b->kernels, sizeof kernels);
    RETURN_IF_ERROR(bench_backend(b, io->route, &io->geometry, 1, &twin, err));
    RETURN_IF_ERROR(bench_run_once(b, io, twin, 0, scratch, &report, err));
    memcpy(b->kernels, kernels, sizeof kernels);
    b->ran_on = ran_on;
    bench_row_bits(b, io, "twin-exact", scratch, got, io->n);
    return STATUS_OK;
}

/* An element that the op computes: of those with a scale (a value that is only passed through has none) the largest. */
static size_t damage_place(const struct op_io *io, const float *got) {
    size_t at = io->n - 1;
    float most = 0.0f;
    for (size_t i = 0; i < io->n; i++) {
        if (!isfinite(got[i]) || !(fabsf(got[i]) > most) || (!io->exact && !(io->scale[i] > 0))) continue;
        most = fabsf(got[i]);
        at = i;
    }
    return at;
}

/* Does the oracle's judge see this element moved by so many bounds? *moved: by how many it really was, in whole f32 steps. */
static int is_seen(const struct op_io *io, const struct compare_bounds *bounds, size_t at, double factor,
                   float *values, double *moved) {
    double unit = bounds->pointwise * io->scale[at], want = io->truth[at] + factor * unit;
    float kept = values[at];
    values[at] = (float)want;
    if ((double)values[at] < want) values[at] = nextafterf(values[at], INFINITY);
    *moved = ((double)values[at] - io->truth[at]) / unit;
    struct compare_result r = compare_values(io->truth, io->scale, &io->shape, values, &io->shape, bounds);
    values[at] = kept;
    return r.verdict == VERDICT_FAIL;
}

#define DAMAGE_MOST  1.5 /* bounds: what every judge must see, or it is blind */
#define DAMAGE_STEPS 8   /* halvings: to 0.6 % of a bound */

/* The smallest damage of one element that the oracle's judge sees, in bounds; NaN when it misses DAMAGE_MOST. */
static double oracle_floor(const struct op_io *io, const struct compare_bounds *bounds, size_t at,
                           float *values) {
    double missed = 0, seen = DAMAGE_MOST, floor, moved;
    if (!is_seen(io, bounds, at, seen, values, &floor)) return (double)NAN;
    for (int i = 0; i < DAMAGE_STEPS; i++) {
        double half = (missed + seen) / 2;
        if (is_seen(io, bounds, at, half, values, &moved)) {
            seen = half;
            floor = moved;
        } else {
            missed = half;
        }
    }
    return floor;
}

/* The damage each judge must see: one element moved by one f32 step (bits), or by DAMAGE_MOST at most (oracle). Bits are held
 * against what their own row holds them against: the truth where the contract leaves no freedom, else another run. */
static enum status negative_row(struct op_bench *b, struct op_io *io, const float *got, const float *again,
                                float *want, float *scratch, struct err *err) {
    size_t at = damage_place(io, got), first;
    memcpy(scratch, got, io->n * sizeof *got);
    scratch[at] = isfinite(scratch[at]) ? nextafterf(scratch[at], INFINITY) : 0.0f;
    memcpy(want, again, io->n * sizeof *want);
    if (io->exact) rounded_truth(io, want);
    size_t before = metrics_bits_differ(want, got, io->n, &first);
    int seen = metrics_bits_differ(want, scratch, io->n, &first) > 0 && (before > 0 || first == at);
    double floor = 0;
    if (!io->exact) {
        struct compare_bounds bounds;
        RETURN_IF_ERROR(bounds_of(b, io, &bounds, err));
        memcpy(scratch, got, io->n * sizeof *got);
        floor = oracle_floor(io, &bounds, at, scratch);
        seen = seen && !isnan(floor);
    }
    struct evidence row;
    start_row(b, io, "negative", "missed", &row);
    row.value = seen ? 0 : 1;
    row.bound = 0;
    row.verdict = seen ? VERDICT_PASS : VERDICT_BLIND;
    (void)snprintf(row.note, sizeof row.note,
                   io->exact
                       ? "detection floor: 1 ulp in one element"
                       : "detection floor: 1 ulp in one element (bits), %.2f bounds in one element (oracle)",
                   floor);
    b->ctx->emit(b->ctx->sink, &row);
    return STATUS_OK;
}

enum status op_arms_case(struct op_bench *b, struct op_io *io, struct err *err) {
    float *first, *second, *want, *scratch;
    struct bench_run one, two;
    RETURN_IF_ERROR(bench_floats(b, io->n, &first, err));
    RETURN_IF_ERROR(bench_floats(b, io->n, &want, err));
    RETURN_IF_ERROR(bench_floats(b, io->n, &second, err));
    RETURN_IF_ERROR(bench_floats(b, io->n, &scratch, err));
    RETURN_IF_ERROR(bench_backend(b, io->route, &io->geometry, 0, &b->subject, err));
    RETURN_IF_ERROR(bench_run_once(b, io, b->subject, 0, first, &one, err));
    RETURN_IF_ERROR(bench_run_once(b, io, b->subject, 1, second, &two, err));
    note_hashes(b, io, first, scratch);
    sentinel_rows(b, io, &one, &two, first, second);
    RETURN_IF_ERROR(launch_rows(b, io, err));
    RETURN_IF_ERROR(oracle_rows(b, io, first, scratch, err));
    RETURN_IF_ERROR(twin_row(b, io, first, scratch, err));
    if (b->op->arms != NULL) RETURN_IF_ERROR(b->op->arms(b, io, first, err));
    if (b->negative_done) return STATUS_OK;
    b->negative_done = 1;
    return negative_row(b, io, first, second, want, scratch, err);
}
