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
        for (int k = 0; k < 32; k += 8)
            cr_assert((a >> k & 0xff) != (b >> k & 0xff), "byte %d of word %zu", k / 8, i);
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

Test(poison, bytes_that_were_never_written_are_left_under_both_salts) {
    struct guarded g;
    uint8_t left[2][11];
    cr_assert_eq(poison_alloc(backend, sizeof left[0], &g, &err), STATUS_OK);
    for (int salt = 0; salt < 2; salt++) {
        cr_assert_eq(poison_fill(&g, salt, &err), STATUS_OK);
        uint8_t *bytes = g.data;
        for (int i = 0; i < 7; i++)
            bytes[i] = i == 3 ? bytes[3] : (uint8_t)(poison_word(0, 0) >> 8 * (i % 4));
        cr_assert_eq(poison_left(&g, salt, left[salt], &err), STATUS_OK, "%s", err.message);
    }
    cr_assert(left[0][0] == 1 && left[1][0] == 0, "a value that looks like one poison is no poison");
    for (int i = 0; i < 11; i++)
        cr_assert_eq(left[0][i] && left[1][i], i == 3 || i >= 7, "byte %d of an odd number of them", i);
    poison_free(&g);
}
