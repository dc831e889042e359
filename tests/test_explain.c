/* test_explain.c - the op that moved first is named, and the kind of difference is called by its name. */
#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/checksum.h"
#include "gates/explain_report.h"
#include "gates/generate.h"
#include "tests/explain_plants.h"

#define ROOT  FORKGATE_SOURCE_DIR
#define MODEL ROOT "/fixtures/models/seedling-q8_0.gguf"

static const char short_prompt[] = "It was a dark night, and she";
static const char long_prompt[] =
    "It was a dark and stormy night, and the rain fell on the roofs of the town like a drum.";

static struct engine_config config_of(enum route route) {
    struct engine_config c = engine_config_default();
    c.compute.route = route;
    c.compute.n_threads = 1;
    c.n_ctx = 128;
    return c;
}

static void must(enum status s, const struct err *err) {
    cr_assert_eq(s, STATUS_OK, "%s", err->message);
}

static dump *stream_of(const struct engine_config *c, const char *prompt, int n, float temperature) {
    struct err err = {""};
    struct generate_request r;
    engine *e = NULL;
    dump *d = NULL;
    memset(&r, 0, sizeof r);
    r.prompt_name = "test";
    r.prompt = prompt;
    r.prompt_bytes = strlen(prompt);
    r.n = n;
    r.sampler = sampler_greedy();
    r.sampler.temperature = temperature;
    r.sampler.seed = 7;
    must(engine_open(MODEL, c, &e, &err), &err);
    must(generate_run(e, &r, 1, 1, NULL, NULL, &d, &err), &err);
    engine_close(e);
    return d;
}

static engine *open_planted(const struct engine_config *c, enum plant plant) {
    struct err err = {""};
    engine *e = NULL;
    must(engine_open(MODEL, c, &e, &err), &err);
    if (plant != PLANT_NONE) plant_into(e, plant);
    return e;
}

/* Explains `b` (with a plant) against `a` along a stream of `a`; other may be NULL. */
static struct explain_result explain_by(const struct engine_config *a, const struct engine_config *b,
                                        enum plant plant, const dump *base, const dump *other,
                                        const char *prompt, int copies) {
    struct err err = {""};
    struct explain_side sides[2];
    struct explain_result out;
    int32_t *ids = NULL;
    size_t n = 0;
    memset(sides, 0, sizeof sides);
    sides[0].model = sides[1].model = MODEL;
    sides[0].config = *a;
    sides[1].config = *b;
    sides[0].engine = open_planted(a, PLANT_NONE);
    sides[1].engine = open_planted(b, plant);
    must(engine_encode(sides[0].engine, prompt, strlen(prompt), 1, &ids, &n, &err), &err);
    struct explain_request r = {&sides[0], &sides[1], ids, n, base, other, 0, copies, NULL, NULL};
    must(explain_run(&r, &out, &err), &err);
    free(ids);
    explain_side_close(&sides[0]);
    explain_side_close(&sides[1]);
    return out;
}

static struct explain_result explain(const struct engine_config *a, const struct engine_config *b,
                                     enum plant plant, const dump *base, const dump *other,
                                     const char *prompt) {
    return explain_by(a, b, plant, base, other, prompt, 0);
}

Test(explain, every_plant_is_named_by_op_and_by_kind) {
    struct engine_config c = config_of(ROUTE_Q8);
    dump *base = stream_of(&c, short_prompt, 4, 0.0f);
    int hits = 0;
    for (int i = 0; i < PLANT_CASES; i++) {
        const struct plant_case *p = &plant_cases[i];
        struct explain_result r = explain(&c, &c, p->plant, base, NULL, short_prompt);
        int hit = r.verdict == p->verdict && r.first.layer == p->layer && strcmp(r.first.op, p->op) == 0 &&
                  strcmp(r.first.tensor, p->tensor) == 0;
        fprintf(stderr, "%-12s %-16s layer %2d %-12s %-16s %s\n", p->name, explain_verdict_name(r.verdict),
                r.first.layer, r.first.op, r.first.tensor, hit ? "hit" : "MISS");
        if (!hit) fprintf(stderr, "    %s\n", r.conclusion);
        hits += hit;
        explain_free(&r);
    }
    dump_close(base);
    cr_assert_eq(hits, PLANT_CASES, "%d of %d plants named", hits, PLANT_CASES);
}

/* Summing rows where they lie must say what summing copies of all of them says, to the last number. */
Test(explain, the_screen_finds_what_copying_everything_finds) {
    struct engine_config c = config_of(ROUTE_Q8);
    dump *base = stream_of(&c, short_prompt, 4, 0.0f);
    for (int i = 0; i < PLANT_CASES; i++) {
        const struct plant_case *p = &plant_cases[i];
        struct explain_result x = explain_by(&c, &c, p->plant, base, NULL, short_prompt, 0);
        struct explain_result y = explain_by(&c, &c, p->plant, base, NULL, short_prompt, 1);
        cr_assert_eq(x.verdict, y.verdict, "%s: %s, %s", p->name, x.conclusion, y.conclusion);
        cr_assert_eq(x.first.layer, y.first.layer, "%s", p->name);
        cr_assert_str_eq(x.first.op, y.first.op, "%s", p->name);
        cr_assert_str_eq(x.first.tensor, y.first.tensor, "%s", p->name);
        cr_assert(x.first_step == y.first_step && x.worst_pos == y.worst_pos, "%s", p->name);
        if (p->plant != PLANT_NOISE) {
            cr_assert_eq(x.n_deltas, y.n_deltas, "%s", p->name);
            cr_assert_eq(x.cost.screened, y.cost.screened, "%s", p->name);
            for (int side = 0; side < 2; side++)
                for (int s = 0; s < x.n_steps; s++)
                    cr_assert_eq(x.screen[side].steps[s].sum, y.screen[side].steps[s].sum, "%s", p->name);
            for (int d = 0; d < x.n_deltas; d++)
                cr_assert_eq(x.deltas[d].differing, y.deltas[d].differing, "%s delta %d", p->name, d);
        }
        cr_assert(y.cost.copied >= y.cost.screened, "copying everything copies everything");
        cr_assert(x.cost.copied < x.cost.screened / 3, "%s: %llu of %llu bytes copied", p->name,
                  (unsigned long long)x.cost.copied, (unsigned long long)x.cost.screened);
        explain_free(&x);
        explain_free(&y);
    }
    dump_close(base);
}

Test(explain, another_tile_is_a_regrouping_of_the_first_attention_past_its_keys) {
    struct engine_config a = config_of(ROUTE_F16), b = a;
    b.compute.geometry.fa_tkv = 16;
    const char *prompts[2] = {short_prompt, long_prompt};
    for (int i = 0; i < 2; i++) {
        dump *base = stream_of(&a, prompts[i], 14, 0.0f);
        struct explain_result r = explain(&a, &b, PLANT_NONE, base, NULL, prompts[i]);
        cr_assert_eq(r.verdict, EXPLAIN_REGROUPING, "%s", r.conclusion);
        cr_assert_str_eq(r.first.op, "attention");
        cr_assert_str_eq(r.first.kernel, "attention_f16");
        cr_assert_eq(r.first.layer, 0);
        cr_assert(r.first_pos >= 16, "position %d has no second tile", r.first_pos);
        cr_assert(r.worst_pos >= r.first_pos);
        cr_assert_eq(r.first_step == 0, i == 1, "step %d", r.first_step);
        cr_assert_eq(r.cache_equal, 1);
        cr_assert(r.first_delta.max_abs > 0.0 && r.first_delta.max_abs <= r.bound, "moved by %g of %g",
                  r.first_delta.max_abs, r.bound);
        cr_assert_eq(r.reproduced[0], 14, "%d rows reproduced: watching changed the path", r.reproduced[0]);
        explain_free(&r);
        dump_close(base);
    }
}

/* A legal regrouping of every row must not excuse the one row that is wrong. */
Test(explain, the_row_that_differs_most_is_the_one_that_is_judged) {
    struct engine_config a = config_of(ROUTE_F16), b = a;
    b.compute.geometry.fa_tkv = 16;
    dump *base = stream_of(&a, long_prompt, 2, 0.0f);
    struct explain_result r = explain(&a, &b, PLANT_LAST_ROW, base, NULL, long_prompt);
    cr_assert_eq(r.verdict, EXPLAIN_WRONG_VALUE, "%s", r.conclusion);
    cr_assert(r.rows_differing > 1 && r.first_pos < r.worst_pos, "%d rows from %d on, worst %d",
              r.rows_differing, r.first_pos, r.worst_pos);
    cr_assert_eq(r.worst_pos, r.rows - 1);
    cr_assert_eq(r.first_delta.pos, r.worst_pos);
    explain_free(&r);
    dump_close(base);
}

/* The same token twice gives the same value row twice, on both sides: no sign of a stale buffer. */
Test(explain, a_repeated_token_is_not_taken_for_a_stale_row) {
    static const char again[] = " and and and and";
    struct engine_config c = config_of(ROUTE_F16);
    dump *base = stream_of(&c, again, 2, 0.0f);
    struct explain_result r = explain(&c, &c, PLANT_V_HALF, base, NULL, again);
    cr_assert_str_eq(r.first.tensor, "k", "%s", r.first.tensor);
    cr_assert_eq(r.verdict, EXPLAIN_WRONG_VALUE, "%s", r.conclusion);
    explain_free(&r);
    dump_close(base);
}

/* The same ULP on q8: the quantiser turns it into whole codes. */
Test(explain, on_q8_the_quantiser_shows_as_the_amplifier) {
    struct engine_config a = config_of(ROUTE_Q8), b = a;
    char *text = NULL;
    size_t bytes = 0;
    b.compute.geometry.fa_tkv = 16;
    dump *base = stream_of(&a, long_prompt, 4, 0.0f);
    struct explain_result r = explain(&a, &b, PLANT_NONE, base, NULL, long_prompt);
    cr_assert_eq(r.verdict, EXPLAIN_REGROUPING, "%s", r.conclusion);
    cr_assert_str_eq(r.first.op, "attention");
    double flipped = 0.0, logits = 0.0;
    for (int i = 0; i < r.n_deltas; i++) {
        const struct explain_delta *d = &r.deltas[i];
        size_t n = strlen(d->op.tensor);
        if (strcmp(d->op.op, "act_prepare") == 0 && strcmp(d->op.tensor + n - 6, ".q8_32") == 0)
            flipped += (double)d->differing;
        if (strcmp(d->op.tensor, "logits") == 0) logits = d->max_abs / d->row_max;
    }
    cr_assert(flipped > 100.0, "%g codes flipped", flipped);
    cr_assert(logits > 4.0 * r.first_delta.max_abs / r.first_delta.row_max, "logits moved by %g", logits);
    struct explain_side sides[2];
    memset(sides, 0, sizeof sides);
    sides[0].config = a;
    sides[1].config = b;
    struct explain_request q = {&sides[0], &sides[1], NULL, 30, base, NULL, 0, 0, NULL, NULL};
    struct explain_view view = {{"A", "B"}, 0, 100, NULL};
    FILE *out = open_memstream(&text, &bytes);
    explain_report_text(out, &q, &r, &view);
    (void)fclose(out);
    cr_assert(strstr(text, "int8 codes flipped") != NULL, "no amplifier in the report");
    cr_assert(strstr(text, "verdict     REGROUPING") != NULL);
    free(text);
    explain_free(&r);
    dump_close(base);
}

Test(explain, threads_chunks_query_tiles_and_splits_change_no_op) {
    struct engine_config a = config_of(ROUTE_F16), b = a;
    dump *base = stream_of(&a, long_prompt, 3, 0.0f);
    b.compute.n_threads = 3;
    b.compute.geometry.fa_tq = 128;
    b.compute.geometry.fa_splits = 3;
    b.chunk = 7;
    struct explain_result r = explain(&a, &b, PLANT_NONE, base, NULL, long_prompt);
    cr_assert_eq(r.verdict, EXPLAIN_IDENTICAL, "%s", r.conclusion);
    cr_assert_eq(r.first_step, -1);
    cr_assert_eq(explain_exit_code(r.verdict), 0);
    explain_free(&r);
    dump_close(base);
}

Test(explain, other_routes_and_caches_are_other_arithmetic) {
    struct engine_config a = config_of(ROUTE_F16), b = config_of(ROUTE_Q8), c = a;
    dump *base = stream_of(&a, short_prompt, 2, 0.0f);
    struct explain_result r = explain(&a, &b, PLANT_NONE, base, NULL, short_prompt);
    cr_assert_eq(r.verdict, EXPLAIN_ARITHMETIC, "%s", r.conclusion);
    cr_assert_str_eq(r.first.op, "matmul");
    cr_assert_str_eq(r.first.tensor, "q");
    explain_free(&r);
    c.kv = KV_Q8_0;
    r = explain(&a, &c, PLANT_NONE, base, NULL, short_prompt);
    cr_assert_eq(r.verdict, EXPLAIN_ARITHMETIC, "%s", r.conclusion);
    cr_assert_str_eq(r.first.tensor, "k_cache");
    explain_free(&r);
    dump_close(base);
}

Test(explain, two_streams_of_one_engine_differ_by_sampling_only) {
    struct engine_config c = config_of(ROUTE_F16);
    dump *base = stream_of(&c, short_prompt, 8, 0.0f), *other = stream_of(&c, short_prompt, 8, 3.0f);
    struct explain_result r = explain(&c, &c, PLANT_NONE, base, other, short_prompt);
    cr_assert_eq(r.verdict, EXPLAIN_SAMPLING, "%s", r.conclusion);
    cr_assert(r.fork >= 0 && r.n_steps == r.fork + 1, "fork %d of %d steps", r.fork, r.n_steps);
    cr_assert_eq(r.reproduced[1], r.n_steps);
    explain_free(&r);
    dump_close(base);
    dump_close(other);
}

Test(explain, dumps_that_no_rebuilt_side_reproduces_are_said_to_be_so) {
    struct engine_config a = config_of(ROUTE_F16), b = a;
    b.compute.geometry.fa_tkv = 16;
    dump *base = stream_of(&a, long_prompt, 3, 0.0f), *other = stream_of(&b, long_prompt, 3, 0.0f);
    struct explain_result r = explain(&a, &a, PLANT_NONE, base, other, long_prompt);
    cr_assert_eq(r.verdict, EXPLAIN_NOT_REPRODUCED, "%s", r.conclusion);
    cr_assert_eq(explain_exit_code(r.verdict), 2);
    cr_assert_eq(r.reproduced_until[1], 0);
    cr_assert_eq(r.reproduced_until[0], -1);
    explain_free(&r);
    dump_close(base);
    dump_close(other);
}

/* ---- tapes ------------------------------------------------------------------------------------------------------- */

static struct tape record_by(const struct engine_config *c, const int32_t *ids, int n_prompt, int n_steps,
                             const char *rows_of, enum plant plant, int copies) {
    struct err err = {""};
    struct tape t;
    struct tape_plan p;
    engine *e = open_planted(c, plant);
    memset(&p, 0, sizeof p);
    p.copies = copies;
    p.ops_step = 0;
    p.prompt = ids;
    p.n_prompt = (size_t)n_prompt;
    p.forced = ids + n_prompt;
    p.n_steps = n_steps;
    p.rows_of = rows_of;
    p.n_captures = 2;
    p.captures[0] = 3;
    p.captures[1] = n_prompt + n_steps - 2;
    must(tape_record(e, &p, &t, &err), &err);
    engine_close(e);
    return t;
}

static struct tape record(const struct engine_config *c, const int32_t *ids, int n_prompt, int n_steps,
                          const char *rows_of) {
    return record_by(c, ids, n_prompt, n_steps, rows_of, PLANT_NONE, 0);
}

static void tapes_equal(const struct tape *a, const struct tape *b) {
    cr_assert_eq(a->n_steps, b->n_steps);
    for (int i = 0; i < a->n_steps; i++) {
        cr_assert(a->steps[i].sum == b->steps[i].sum, "step %d", i);
        cr_assert(hash_equal(&a->steps[i].row, &b->steps[i].row));
        cr_assert_eq(a->steps[i].top.id1, b->steps[i].top.id1);
        cr_assert(memcmp(&a->steps[i].top.logit2, &b->steps[i].top.logit2, 4) == 0);
    }
    cr_assert_eq(a->ops.n, b->ops.n);
    for (int i = 0; i < a->ops.n; i++) {
        cr_assert(a->ops.op[i].sum == b->ops.op[i].sum, "op %d", i);
        cr_assert_eq(a->ops.op[i].rows, b->ops.op[i].rows, "rows of op %d", i);
        cr_assert_str_eq(a->ops.op[i].kernel, b->ops.op[i].kernel);
    }
    cr_assert_eq(a->n_rows, b->n_rows);
    for (size_t i = 0; i < a->n_rows; i++)
        cr_assert(a->rows[i].pos == b->rows[i].pos && a->rows[i].sum == b->rows[i].sum, "row %d", (int)i);
    cr_assert_eq(a->n_row_values, b->n_row_values);
    cr_assert(memcmp(a->row_values, b->row_values, a->n_row_values * sizeof(float)) == 0,
              "values of the rows");
    for (int i = 0; i < a->n_captures; i++) {
        const struct tape_capture *x = &a->captures[i], *y = tape_capture_at(b, x->pos);
        cr_assert(y != NULL && x->n_values == y->n_values && x->n_values > 0);
        cr_assert(memcmp(x->values, y->values, x->n_values * sizeof(float)) == 0, "values at %d", x->pos);
    }
}

Test(explain, a_tape_does_not_depend_on_chunks_and_survives_the_wire) {
    static const int32_t ids[12] = {5, 9, 100, 7, 3000, 12, 14, 15, 40, 50, 60, 70};
    char path[] = "/tmp/forkgate-test-explain-XXXXXX";
    struct engine_config a = config_of(ROUTE_Q8), b = a;
    struct err err = {""};
    struct tape back;
    char *text = NULL;
    size_t n = 0;
    b.chunk = 3;
    struct tape x = record(&a, ids, 10, 3, "2/attention/attn"),
                y = record(&b, ids, 10, 3, "2/attention/attn");
    cr_assert_eq(x.n_rows, 10);
    tapes_equal(&x, &y);
    cr_assert(mkdtemp(path) != NULL);
    char values[64];
    (void)snprintf(values, sizeof values, "%s/v.fgt", path);
    FILE *out = open_memstream(&text, &n);
    must(tape_write(&x, out, values, &err), &err);
    (void)fclose(out);
    must(tape_read(text, n, "wire", values, &back, &err), &err);
    tapes_equal(&x, &back);
    tape_free(&back);
    cr_assert_eq(tape_read(text, n - 40, "wire", values, &back, &err), STATUS_FORMAT,
                 "half a trace was read");
    tape_free(&back);
    cr_assert_eq(tape_read(text + 20, n - 20, "wire", values, &back, &err), STATUS_FORMAT,
                 "another version was read");
    tape_free(&back);
    (void)unlink(values);
    (void)rmdir(path);
    free(text);
    tape_free(&x);
    tape_free(&y);
}

Test(explain, a_tape_does_not_depend_on_where_the_sums_are_made) {
    static const int32_t ids[12] = {5, 9, 100, 7, 3000, 12, 14, 15, 40, 50, 60, 70};
    static const struct {
        enum route route;
        enum kv_dtype kv;
    } arms[] = {{ROUTE_F16, KV_F16}, {ROUTE_Q8, KV_Q8_0}, {ROUTE_F32, KV_F32}};
    for (size_t i = 0; i < sizeof arms / sizeof arms[0]; i++) {
        struct engine_config c = config_of(arms[i].route);
        c.kv = arms[i].kv;
        struct tape x = record_by(&c, ids, 10, 3, "2/attention/attn", PLANT_NONE, 0),
                    y = record_by(&c, ids, 10, 3, "2/attention/attn", PLANT_NONE, 1);
        tapes_equal(&x, &y);
        cr_assert_eq(x.cost.screened, y.cost.screened);
        cr_assert(x.cost.copied < y.cost.copied);
        tape_free(&x);
        tape_free(&y);
    }
}

/* Where calls wait for a partner to become one launch, their outputs are looked at after it, and not before. */
Test(explain, calls_that_wait_are_watched_after_their_launch) {
    static const int32_t ids[12] = {5, 9, 100, 7, 3000, 12, 14, 15, 40, 50, 60, 70};
    struct engine_config c = config_of(ROUTE_F16);
    struct tape x = record(&c, ids, 10, 3, "2/attention/attn"),
                y = record_by(&c, ids, 10, 3, "2/attention/attn", PLANT_WAITS, 0);
    for (int i = 0; i < x.ops.n; i++) /* a batch of launches is named together */
        memcpy(y.ops.op[i].kernel, x.ops.op[i].kernel, sizeof x.ops.op[i].kernel);
    tapes_equal(&x, &y);
    tape_free(&x);
    tape_free(&y);
}

/* A first op of more values than are kept: its rows are all compared, and the report says where the values end. */
Test(explain, values_past_the_limit_are_not_kept_and_that_is_said) {
    struct err err = {""};
    struct tape t;
    float x[4] = {1, 2, 3, 4};
    memset(&t, 0, sizeof t);
    t.n_row_values = TAPE_ROW_VALUES - 3; /* as if so many were kept */
    cr_assert_eq(tape_row_fits(&t, 3), 1);
    cr_assert_eq(tape_row_fits(&t, 4), 0);
    must(tape_add_row(&t, 7, 42, NULL, 0, &err), &err);
    cr_assert(t.n_rows == 1 && t.rows[0].cols == 0 && t.rows[0].sum == 42, "the checksum stays");
    t.n_row_values = 0;
    must(tape_add_row(&t, 8, 43, x, 4, &err), &err);
    cr_assert_eq(t.rows[1].cols, 4);
    tape_free(&t);

    struct engine_config c = config_of(ROUTE_F16);
    struct explain_side sides[2];
    char *text = NULL;
    size_t bytes = 0;
    dump *base = stream_of(&c, short_prompt, 2, 0.0f);
    struct explain_result r = explain(&c, &c, PLANT_MM_HALF, base, NULL, short_prompt);
    cr_assert_eq(r.rows_valued, r.rows, "all fit");
    r.rows_valued = 2;
    memset(sides, 0, sizeof sides);
    sides[0].config = sides[1].config = c;
    struct explain_request q = {&sides[0], &sides[1], NULL, 9, base, NULL, 0, 0, NULL, NULL};
    struct explain_view view = {{"A", "B"}, 0, 100, NULL};
    FILE *out = open_memstream(&text, &bytes);
    explain_report_text(out, &q, &r, &view);
    (void)fclose(out);
    cr_assert(strstr(text, "(most among the first 2 rows: 64 MiB of values are kept a side)") != NULL, "%s",
              "the report is silent");
    free(text);
    explain_free(&r);
    dump_close(base);
}

/* Every kind of row: as f32 it has the checksum of its values, in whatever order they are visited. */
Test(explain, rows_of_every_kind_sum_to_the_checksum_of_their_values) {
    static const enum row_kind kinds[] = {ROWS_F32, ROWS_F16, ROWS_I8, ROWS_I16, ROWS_Q8_0};
    enum { ROWS = 5, COLS = 96, STRIDE = 128 };
    static uint8_t bytes[ROWS * STRIDE * 4];
    struct row_sum sums[ROWS];
    float row[COLS];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(checksum_mix(i) >> 17);
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        struct row_span s = {kinds[k], bytes, ROWS, COLS, STRIDE};
        checksum_rows(&s, sums);
        for (int r = 0; r < ROWS; r++) {
            uint64_t backwards = 0;
            float largest = 0.0f, got;
            checksum_widen(&s, r, row);
            for (int i = COLS; i-- > 0;) backwards += checksum_element((uint64_t)i, row[i]);
            for (int i = 0; i < COLS; i++)
                if (fabsf(row[i]) > largest) largest = fabsf(row[i]);
            memcpy(&got, &sums[r].largest, sizeof got);
            cr_assert_eq(sums[r].sum, checksum_f32(row, COLS), "kind %d row %d", (int)k, r);
            cr_assert_eq(sums[r].sum, backwards, "kind %d row %d backwards", (int)k, r);
            cr_assert(memcmp(&got, &largest, sizeof got) == 0, "kind %d row %d largest", (int)k, r);
            bytes[checksum_offset(kinds[k], r * STRIDE + COLS - 32)] ^= 1; /* the lowest bit of one element */
        }
        struct row_sum after[ROWS];
        checksum_rows(&s, after);
        for (int r = 0; r < ROWS; r++) cr_assert(after[r].sum != sums[r].sum, "kind %d row %d", (int)k, r);
    }
}

Test(explain, a_checksum_sees_every_bit_every_place_and_no_order) {
    float x[6] = {1.0f, -2.0f, 0.0f, 3.5f, 1e-40f, 7.0f}, y[6];
    uint64_t sum = checksum_f32(x, 6);
    memcpy(y, x, sizeof y);
    y[2] = -0.0f;
    cr_assert(checksum_f32(y, 6) != sum, "the sign of zero");
    memcpy(y, x, sizeof y);
    y[0] = x[1];
    y[1] = x[0];
    cr_assert(checksum_f32(y, 6) != sum, "two elements swapped");
    cr_assert(checksum_f32(x, 5) != sum, "an element dropped");
    memcpy(y, x, sizeof y);
    y[3] = -x[3];
    cr_assert(checksum_f32(y, 6) != sum, "a sign flipped");
    y[0] = NAN;
    uint64_t with_nan = checksum_f32(y, 6);
    y[0] = -NAN;
    cr_assert(checksum_f32(y, 6) == with_nan, "NaN is one class");
    uint64_t parts = checksum_part(1, 2, 3) + checksum_part(4, 5, 6);
    cr_assert(parts == checksum_part(4, 5, 6) + checksum_part(1, 2, 3));
    cr_assert(checksum_part(1, 2, 3) != checksum_part(1, 3, 2));
}

Test(explain, ulp_buckets_split_where_they_say) {
    const float one = 1.0f;
    uint32_t bits;
    static const struct {
        uint32_t steps;
        enum ulp_bucket bucket;
    } at[] = {{0, ULP_0},   {1, ULP_1},    {2, ULP_2},     {3, ULP_2},       {4, ULP_4},       {15, ULP_4},
              {16, ULP_16}, {255, ULP_16}, {256, ULP_256}, {65535, ULP_256}, {65536, ULP_MORE}};
    for (size_t i = 0; i < sizeof at / sizeof at[0]; i++) {
        float other;
        memcpy(&bits, &one, sizeof bits);
        bits += at[i].steps;
        memcpy(&other, &bits, sizeof other);
        cr_assert_eq(ulp_bucket_of(one, other), at[i].bucket, "%u steps", at[i].steps);
        cr_assert_eq(ulp_bucket_of(other, one), at[i].bucket, "%u steps back", at[i].steps);
    }
    cr_assert_eq(ulp_bucket_of(1.0f, -1.0f), ULP_SIGN_NAN);
    cr_assert_eq(ulp_bucket_of(NAN, 1.0f), ULP_SIGN_NAN);
    cr_assert_eq(ulp_bucket_of(NAN, -NAN), ULP_0);
    cr_assert_eq(ulp_bucket_of(0.0f, -0.0f), ULP_0);
    cr_assert_eq(ulp_bucket_of(-0.0f, 1e-45f), ULP_1);
}
