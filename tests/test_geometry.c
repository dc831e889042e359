/* test_geometry.c - geometry strings round-trip, and a value without an instance is refused by name. */
#include <criterion/criterion.h>

#include <string.h>

#include "engine/geometry.h"

Test(geometry, parse_applies_only_what_is_named) {
    struct geometry g = geometry_default(ARCH_SM90);
    struct err err;
    cr_assert_eq(geometry_parse("fa_tkv=16,fa_splits=1", &g, &err), STATUS_OK);
    char text[96];
    geometry_format(&g, text, sizeof text);
    cr_assert_str_eq(text, "fa_tq=64,fa_tkv=16,fa_chunk=256,fa_splits=1");
}

Test(geometry, refusals_leave_the_value_alone_and_name_the_field) {
    static const char *const bad[] = {"",           "fa_tkv",       "fa_tkv=",     "fa_tkv=17",
                                      "fa_tq=32",   "fa_chunk=100", "fa_splits=0", "fa_tkv=16,",
                                      "fa_tkv=16 ", "fa_tkvx=16",   "fa_tkv=-16",  "fa_chunk=99999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct geometry g = geometry_default(ARCH_SM90);
        struct err err = {""};
        cr_assert_eq(geometry_parse(bad[i], &g, &err), STATUS_USAGE, "accepted: %s", bad[i]);
        cr_assert_eq(g.fa_tkv, FA_TKV_DEFAULT, "changed by: %s", bad[i]);
        cr_assert(strlen(err.message) > 0, "no message for: %s", bad[i]);
    }
}
