/* test_explain_tape.c - tapes: what was recorded of every op does not depend on how the step was run, and its sums see all.
 * Source: ours. Exercise: ctest -R unit.explain_tape */
#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/checksum.h"
#include "tests/explain_rig.h"

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

Test(explain_tape, a_tape_does_not_depend_on_chunks_and_survives_the_wire) {
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
    must(tape_write(&x, out, values, NULL, &err), &err);
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

Test(explain_tape, a_tape_does_not_depend_on_where_the_sums_are_made) {
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
Test(explain_tape, calls_that_wait_are_watched_after_their_launch) {
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
Test(explain_tape, values_past_the_limit_are_not_kept_and_that_is_said) {
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
Test(explain_tape, rows_of_every_kind_sum_to_the_checksum_of_their_values) {
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

Test(explain_tape, a_checksum_sees_every_bit_every_place_and_no_order) {
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

Test(explain_tape, ulp_buckets_split_where_they_say) {
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
