/* test_cases.c - case rows parse strictly, symbols come from geometry.h, and fills are the same bits everywhere. */
#include <criterion/criterion.h>

#include <math.h>
#include <string.h>

#include "engine/geometry.h"
#include "gates/cases.h"

static struct op_case cases[FAMILIES];
static int n_cases;
static struct err err;

static enum status parse(const char *shape, const char *families) {
    const char *fields[6] = {"rmsnorm", "f32", shape, families, "11", "quick"};
    return case_parse(fields, cases, &n_cases, &err);
}

Test(cases, a_row_becomes_one_case_per_family_and_describes_itself) {
    cr_assert_eq(parse("rows=3 cols=NORM_LANES+1", "normal outlier"), STATUS_OK, "%s", err.message);
    cr_assert_eq(n_cases, 2);
    cr_assert_eq(case_dim(&cases[0], "cols", -1), NORM_LANES + 1);
    cr_assert_eq(case_dim(&cases[0], "absent", 42), 42);
    cr_assert_str_eq(cases[1].text, "rows=3 cols=257 f32 family=outlier seed=11");
    cr_assert_eq(parse("rows=1", "all"), STATUS_OK);
    cr_assert_eq(n_cases, FAMILIES);
}

Test(cases, expressions_bind_products_tighter_than_sums) {
    int64_t v;
    cr_assert_eq(case_expression("FA_CHUNK*2-1", 12, &v, &err), STATUS_OK);
    cr_assert_eq(v, FA_CHUNK_DEFAULT * 2 - 1);
    cr_assert_eq(case_expression("1+TC_K*3", 8, &v, &err), STATUS_OK);
    cr_assert_eq(v, 1 + TC_K * 3);
}

Test(cases, a_wrong_row_is_refused_and_says_why) {
    static const char *const shapes[] = {"rows",   "=3", "rows=", "rows=x", "rows=3+", "rows=999999999999999",
                                         "rows=-1"};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        err.message[0] = '\0';
        cr_assert_eq(parse(shapes[i], "normal"), STATUS_FORMAT, "accepted: %s", shapes[i]);
        cr_assert(strlen(err.message) > 0, "no message: %s", shapes[i]);
    }
    cr_assert_eq(parse("rows=1", "normale"), STATUS_FORMAT);
    cr_assert_eq(parse("rows=1", ""), STATUS_FORMAT);
}

static void fill(enum family f, int stream, float *x, size_t n) {
    struct op_case c = {.op = "x", .family = f, .seed = 5};
    struct fill_range range = {60000.0f, 0x1p-14f};
    case_fill(&c, stream, &range, x, n);
}

Test(cases, families_are_what_their_names_say) {
    enum { N = 4096 };
    static float x[N], y[N];
    fill(FAMILY_OUTLIER, 0, x, N);
    int large = 0;
    for (int i = 0; i < N; i++) large += fabsf(x[i]) > 12.0f;
    cr_assert(large > N / 64 && large < N / 16, "%d outliers", large);
    fill(FAMILY_SUBNORMAL, 0, x, N);
    int sub = 0;
    for (int i = 0; i < N; i++) sub += fabsf(x[i]) < 0x1p-14f && x[i] != 0;
    cr_assert(sub > N / 3 && sub < N * 2 / 3, "%d subnormal", sub);
    fill(FAMILY_HUGE, 0, x, N);
    for (int i = 0; i < N; i++)
        cr_assert(fabsf(x[i]) >= 30000.0f && fabsf(x[i]) <= 60000.0f, "%g", (double)x[i]);
    fill(FAMILY_EXACT, 0, x, N);
    for (int i = 0; i < N; i++) cr_assert(x[i] == rintf(x[i]) && fabsf(x[i]) <= 8, "%g", (double)x[i]);
    fill(FAMILY_NORMAL, 0, x, N);
    fill(FAMILY_NORMAL, 1, y, N);
    cr_assert(memcmp(x, y, sizeof x) != 0, "streams differ");
    fill(FAMILY_NORMAL, 0, y, N);
    cr_assert(memcmp(x, y, sizeof x) == 0, "the same seed gives the same bits");
}
