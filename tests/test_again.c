/* test_again.c - the A/A arm of the gates that judge by a recording or a formula: a run that does not repeat itself is
 * INCONCLUSIVE. That each gate leaves one is the runner's to see (gate_arms_owed).
 * Source: ours. Exercise: ctest -R unit.again */
#include <criterion/criterion.h>

#include <string.h>

#include "gates/model/again.h"

TestSuite(again, .timeout = 60);

static struct evidence last;
static int seen;
static void keep_again(void *sink, const struct evidence *row) {
    (void)sink;
    if (strcmp(row->arm, "a/a") != 0) return;
    last = *row;
    seen++;
}

static struct gate_context context(void) {
    struct gate_context c;
    memset(&c, 0, sizeof c);
    c.source_dir = FORKGATE_SOURCE_DIR;
    c.model_path = FORKGATE_SOURCE_DIR "/fixtures/models/seedling-q8_0.gguf";
    c.config = engine_config_default();
    c.emit = keep_again;
    seen = 0;
    return c;
}

Test(again, a_run_that_does_not_repeat_itself_judges_nothing) {
    const struct gate_context c = context();
    const struct stream_arm a = {&c, "model.test", ROUTE_F16, NULL, NULL};
    const float row[3] = {1, 2, 3}, other[3] = {1, 2, 4};
    struct hash128 one = {{0}}, two = {{0}}, none = {{0}}, longer;
    again_add(&one, row, 3);
    again_add(&two, row, 3);
    again_row(&a, "p", &one, &two);
    cr_assert(last.verdict == VERDICT_PASS && strcmp(last.ref, last.got) == 0, "%s", last.note);
    longer = two;
    again_add(&longer, row, 3);
    again_row(&a, "p", &one, &longer);
    cr_assert_eq(last.verdict, VERDICT_INCONCLUSIVE, "a row more");
    two = none;
    again_add(&two, other, 3);
    again_row(&a, "p", &one, &two);
    cr_assert(last.verdict == VERDICT_INCONCLUSIVE && strcmp(last.ref, last.got) != 0, "%s", last.note);
    cr_assert(strstr(last.note, "not reproducible") != NULL, "%s", last.note);
    again_row(&a, "p", &none, &none);
    cr_assert_eq(last.verdict, VERDICT_INCONCLUSIVE, "two runs of nothing agree");
}
