/* explain_rig.h - engines with and without a plant, and an explanation of their difference: what the tests of explain share.
 * Not for the product. Source: ours. */
#ifndef FORKGATE_TESTS_EXPLAIN_RIG_H
#define FORKGATE_TESTS_EXPLAIN_RIG_H

#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "gates/explain_report.h"
#include "gates/generate.h"
#include "tests/explain_plants.h"

#define ROOT  FORKGATE_SOURCE_DIR
#define MODEL ROOT "/fixtures/models/seedling-q8_0.gguf"

static const char short_prompt[] = "It was a dark night, and she";
static const char long_prompt[] =
    "It was a dark and stormy night, and the rain fell on the roofs of the town like a drum.";

static inline struct engine_config config_of(enum route route) {
    struct engine_config c = engine_config_default();
    c.compute.route = route;
    c.compute.n_threads = 1;
    c.n_ctx = 128;
    return c;
}

static inline void must(enum status s, const struct err *err) {
    cr_assert_eq(s, STATUS_OK, "%s", err->message);
}

static inline dump *stream_of(const struct engine_config *c, const char *prompt, int n, float temperature) {
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

static inline engine *open_planted(const struct engine_config *c, enum plant plant) {
    struct err err = {""};
    engine *e = NULL;
    must(engine_open(MODEL, c, &e, &err), &err);
    if (plant != PLANT_NONE) plant_into(e, plant);
    return e;
}

/* Explains `b` (with a plant) against `a` along a stream of `a`; other may be NULL. */
static inline struct explain_result explain_by(const struct engine_config *a, const struct engine_config *b,
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

static inline struct explain_result explain(const struct engine_config *a, const struct engine_config *b,
                                            enum plant plant, const dump *base, const dump *other,
                                            const char *prompt) {
    return explain_by(a, b, plant, base, other, prompt, 0);
}

#endif
