/* ladder.c - see ladder.h. */
#include "gates/model/ladder.h"

#include <stdio.h>
#include <string.h>

#include "gates/compare.h"
#include "gates/ops/launch_table.h"

/* ---- rungs --------------------------------------------------------------------------------------------------- */
static int add_rung(struct rung *out, int n, int rows, int keys) {
    for (int i = 0; i < n; i++)
        if (out[i].rows == rows && out[i].keys == keys) return n;
    if (rows < 1 || n == LADDER_RUNGS) return n;
    out[n] = (struct rung){rows, keys};
    return n + 1;
}

static int least(int a, int b) {
    return a < b ? a : b;
}

/* Of each threshold the last size of one side, the first of the other, and the one before. */
int ladder_rungs(const struct geometry *g, int whole, struct rung out[LADDER_RUNGS]) {
    const int rows[] = {1 /* decode attention */, DECODE_ROWS, SMALL_TILE_ROWS, g->fa_tq};
    const int keys[] = {g->fa_tkv, g->fa_chunk, 2 * g->fa_chunk};
    int n = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int d = -1; d <= 1; d++) n = add_rung(out, n, rows[i] + d, rows[i] + d);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        for (int d = -1; d <= 1; d++) {
            int k = keys[i] + d;
            n = add_rung(out, n, least(k, whole ? CHUNK_DEFAULT : DECODE_ROWS + 1), k);
        }
    return n;
}

/* ---- what was launched --------------------------------------------------------------------------------------- */
void launches_now(engine *e, struct launches *out) {
    out->n = engine_kernel_counts(e, out->kernel);
}

void launches_since(engine *e, const struct launches *before, struct launches *out) {
    launches_now(e, out);
    for (int i = 0; i < out->n && i < before->n; i++) out->kernel[i].calls -= before->kernel[i].calls;
}

void launches_add(struct launches *into, const struct launches *more) {
    for (int i = 0; i < into->n && i < more->n; i++) into->kernel[i].calls += more->kernel[i].calls;
}

static void note_names(const struct rung_made *m, char *out, size_t room) {
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; i < m->step.n && used < room; i++)
        if (m->step.kernel[i].calls + m->decode.kernel[i].calls > 0)
            used += (size_t)snprintf(out + used, room - used, "%s%s", used > 0 ? " " : "",
                                     m->step.kernel[i].name);
}

/* ---- which kernels should be ----------------------------------------------------------------------------------- */
struct ladder_shape ladder_shape_of(engine *e) {
    struct engine_info info;
    engine_describe(e, &info);
    struct ladder_shape s = {
        info.config.backend, info.config.compute.route, info.config.kv, info.n_layer, info.head_dim, 0};
    s.wgmma = s.backend == BACKEND_CUDA && launch_table_has_wgmma(&info.config);
    return s;
}

struct kernels {
    char product[48], attention[48]; /* names; one that ends with '_' is their beginning */
};

static struct kernels kernels_for(const struct ladder_shape *s, int rows) {
    struct kernels k;
    if (s->backend == BACKEND_CUDA) {
        launch_table_product(s->route, "", rows, s->wgmma, k.product); /* of any weight type */
        launch_table_attention(s->kv, rows > 1, s->head_dim, s->wgmma, k.attention);
        return k;
    }
    (void)snprintf(k.product, sizeof k.product, "matmul_%s", s->route == ROUTE_Q8 ? "q8_" : "f16");
    (void)snprintf(k.attention, sizeof k.attention, "attention_%s", s->kv == KV_F16 ? "f16" : "q8_0");
    return k;
}

static int is_named(const char *kernel, const char *name) {
    size_t n = strlen(name);
    return n > 0 && name[n - 1] == '_' ? strncmp(kernel, name, n) == 0 : strcmp(kernel, name) == 0;
}

static int is_one_of(const char *kernel, const char *const *families, int n) {
    for (int i = 0; i < n; i++)
        if (strncmp(kernel, families[i], strlen(families[i])) == 0) return 1;
    return 0;
}

static uint64_t beyond(uint64_t a, uint64_t b) {
    return a > b ? a - b : 0;
}

uint64_t ladder_wrong(const struct ladder_shape *shape, int rows, const struct launches *l, char *note,
                      size_t room) {
    static const char *const products[] = {"matmul", "gemm", "gemv", "mmvq", "mmq"};
    static const char *const attentions[] = {"attention", "fa_prefill", "fa_decode"};
    const struct kernels expected = kernels_for(shape, rows), head = kernels_for(shape, 1);
    uint64_t product = 0, attention = 0, heads = 0, wrong = 0, n_layer = (uint64_t)shape->n_layer;
    size_t used = 0;
    note[0] = '\0';
    for (int i = 0; i < l->n; i++) {
        const struct kernel_count *k = &l->kernel[i];
        int is_product = is_one_of(k->name, products, 5), is_attention = is_one_of(k->name, attentions, 3);
        if (k->calls == 0 || (!is_product && !is_attention)) continue;
        if (used < room)
            used += (size_t)snprintf(note + used, room - used, "%s%s %llu", used > 0 ? ", " : "", k->name,
                                     (unsigned long long)k->calls);
        if (is_product && is_named(k->name, expected.product))
            product += k->calls;
        else if (is_product && is_named(k->name, head.product))
            heads += k->calls;
        else if (is_attention && is_named(k->name, expected.attention))
            attention += k->calls;
        else
            wrong += k->calls;
    }
    wrong += beyond(attention, n_layer) + beyond(n_layer, attention);
    wrong += beyond(n_layer, product) + beyond(heads, 1);
    if (wrong > 0 && used < room)
        (void)snprintf(note + used, room - used, " (%s and %s are for %d rows)", expected.product,
                       expected.attention, rows);
    return wrong;
}

/* ---- rows ------------------------------------------------------------------------------------------------------ */
static void start_row(const struct stream_arm *a, const char *arm, const struct rung *r, const char *metric,
                      const struct rung_made *made, struct evidence *row) {
    memset(row, 0, sizeof *row);
    (void)snprintf(row->test_case, sizeof row->test_case, "rows=%d keys=%d", r->rows, r->keys);
    (void)snprintf(row->arm, sizeof row->arm, "%s", arm);
    (void)snprintf(row->metric, sizeof row->metric, "%s", metric);
    (void)snprintf(row->grade, sizeof row->grade, "measured");
    (void)snprintf(row->repro, sizeof row->repro, "forkgate run --only %s", a->gate);
    note_names(made, row->kernels, sizeof row->kernels);
}

static int rows_that_differ(const struct rung_made *want, const struct rung_made *got) {
    return !hash_equal(&want->row[0], &got->row[0]) + !hash_equal(&want->row[1], &got->row[1]);
}

static void note_hash(const struct rung_made *m, char out[40]) {
    struct hash128 h = hash_bytes(m->row, sizeof m->row);
    hash_format(&h, out);
}

static void same_bits_row(const struct stream_arm *a, const struct rung *r, const struct rung_made *want,
                          const struct rung_made *got) {
    struct evidence row;
    int differ = rows_that_differ(want, got), bad = want->not_finite + got->not_finite;
    start_row(a, "ladder", r, "rows", got, &row);
    row.value = differ > 0 ? differ : bad; /* agreement on NaN is no agreement */
    row.verdict = compare_judge(row.value, row.bound);
    note_hash(want, row.ref);
    note_hash(got, row.got);
    if (bad > 0)
        (void)snprintf(row.note, sizeof row.note, "INVALID: NaN or Inf in %d rows of logits", bad);
    else
        (void)snprintf(row.note, sizeof row.note,
                       "rows of logits %d and %d %s those of the same tokens one by one", r->keys - 1,
                       r->keys, differ > 0 ? "are not both" : "are");
    a->ctx->emit(a->ctx->sink, &row);
}

/* Wrong launches of the rung's step and of the decode step behind it. */
static uint64_t wrong_launches(const struct ladder_shape *shape, const struct rung *r,
                               const struct rung_made *got, char note[320]) {
    char step[150], decode[150];
    uint64_t wrong = ladder_wrong(shape, r->rows, &got->step, step, sizeof step) +
                     ladder_wrong(shape, 1, &got->decode, decode, sizeof decode);
    (void)snprintf(note, 320, "%s; decode: %s", step, decode);
    return wrong;
}

void ladder_rows(const struct stream_arm *a, const struct ladder_shape *shape, const struct rung *r,
                 const struct rung_made *want, const struct rung_made *got) {
    struct evidence row;
    same_bits_row(a, r, want, got);
    start_row(a, "dispatched", r, "launches", got, &row);
    row.value = (double)wrong_launches(shape, r, got, row.note);
    row.verdict = compare_judge(row.value, row.bound);
    a->ctx->emit(a->ctx->sink, &row);
}

static void negative_row(const struct stream_arm *a, const char *of, const struct rung *r,
                         const struct rung_made *made, int seen, const char *floor) {
    struct evidence row;
    start_row(a, "negative", r, "missed", made, &row);
    (void)snprintf(row.test_case, sizeof row.test_case, "%s of rows=%d keys=%d", of, r->rows, r->keys);
    row.value = !seen;
    row.verdict = seen ? VERDICT_PASS : VERDICT_BLIND;
    (void)snprintf(row.note, sizeof row.note, "detection floor: %s", floor);
    a->ctx->emit(a->ctx->sink, &row);
}

void ladder_negative_rows(const struct stream_arm *a, const struct ladder_shape *shape, const struct rung *r,
                          const struct rung_made *got, const struct hash128 *damaged) {
    struct rung_made other = *got;
    char note[160];
    other.row[1] = *damaged;
    negative_row(a, "logits", r, got, rows_that_differ(got, &other) > 0, "one bit in one logit of one row");
    launches_add(&other.step, &got->decode);
    negative_row(a, "launches", r, got, ladder_wrong(shape, r->rows, &other.step, note, sizeof note) > 0,
                 "the launches of one step more");
}
