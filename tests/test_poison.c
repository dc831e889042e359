/* test_poison.c - guards see one byte outside, in-place overruns too; unwritten elements are found; salts never agree. */
#include <criterion/criterion.h>

#include <math.h>
#include <string.h>

#include "gates/poison.h"

static struct backend *backend;
static struct err err;

static void setup(void) {
    struct backend_config c;
    memset(&c, 0, sizeof c);
    c.arch = ARCH_SM90;
    c.geometry = geometry_default(ARCH_SM90);
    c.n_threads = 1;
    cr_assert_eq(backend_cpu_open(&c, &backend, &err), STATUS_OK, "%s", err.message);
}

static void teardown(void) {
    backend->close(backend);
}

TestSuite(poison, .init = setup, .fini = teardown);

Test(poison, every_word_is_a_signalling_nan_and_the_salts_never_agree) {
    for (size_t i = 0; i < 100000; i++) {
        uint32_t a = poison_word(i, 0), b = poison_word(i, 1);
        cr_assert((a & 0x7f800000u) == 0x7f800000u && (a & 0x400000u) == 0 && (a & 0x3fffffu) != 0,
                  "word %zu", i);
        cr_assert((b & 0x7f800000u) == 0x7f800000u && (b & 0x400000u) == 0 && (b & 0x3fffffu) != 0,
                  "word %zu", i);
        cr_assert_neq(a, b, "word %zu", i);
        cr_assert_neq(a, poison_word(i + 1, 0), "one constant at word %zu", i);
    }
}

static size_t damage_after(int64_t at, int in_place) {
    struct guarded g;
    size_t damaged = 99;
    char where[64];
    cr_assert_eq(poison_alloc(backend, 20, &g, &err), STATUS_OK, "%s", err.message);
    uint8_t *bytes = g.data;
    if (in_place) {
        float *x = (float *)(void *)(bytes + at);
        *x = *x + 1.0f;
    } else {
        bytes[at] ^= 1;
    }
    cr_assert_eq(poison_check(&g, &damaged, where, &err), STATUS_OK);
    if (damaged > 0) cr_assert(strlen(where) > 0, "it is said where");
    poison_free(&g);
    return damaged;
}

Test(poison, one_byte_outside_is_seen_on_both_sides_and_none_inside) {
    cr_assert_eq(damage_after(0, 0), 0);
    cr_assert_eq(damage_after(19, 0), 0);
    cr_assert_eq(damage_after(20, 0), 1, "the first byte behind");
    cr_assert_eq(damage_after(-1, 0), 1, "the last byte before");
    cr_assert_eq(damage_after(20 + POISON_GUARD - 1, 0), 1, "the last guard byte");
}

Test(poison, an_in_place_sum_over_the_end_changes_the_guard) {
    cr_assert(damage_after(20, 1) > 0, "x += 1 on the first float behind");
}

static size_t holding(const float *host, size_t n, int salt, size_t *first) {
    size_t count = 0;
    for (size_t i = n; i-- > 0;) {
        uint32_t word = poison_word(i, salt);
        if (memcmp(host + i, &word, sizeof word) != 0) continue;
        count++;
        *first = i;
    }
    return count;
}

Test(poison, elements_that_were_not_written_hold_the_poison_of_their_place) {
    struct guarded g;
    float host[8];
    size_t first = 99;
    cr_assert_eq(poison_alloc(backend, sizeof host, &g, &err), STATUS_OK);
    for (int salt = 0; salt < 2; salt++) {
        cr_assert_eq(poison_fill(&g, salt, &err), STATUS_OK);
        float *x = g.data;
        for (int i = 0; i < 5; i++) x[i] = 0.0f;
        memcpy(host, g.data, sizeof host);
        cr_assert_eq(holding(host, 8, salt, &first), 3);
        cr_assert_eq(first, 5);
        cr_assert_eq(holding(host, 8, !salt, &first), 0, "the other salt is another pattern");
    }
    poison_free(&g);
}
