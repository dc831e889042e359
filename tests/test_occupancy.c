/* test_occupancy.c - derived residency: the seed's two cases by hand, each limit alone, the table against its symbols. */
#include <criterion/criterion.h>

#include <string.h>

#include "engine/cuda/launch.h"
#include "engine/occupancy.h"

static struct sm_limits hundred_kb(void) {
    struct sm_limits sm = occupancy_sm90();
    sm.shared = 100 * 1024;
    return sm;
}

static struct block_needs needs(int threads, int registers, size_t shared) {
    struct block_needs b;
    memset(&b, 0, sizeof b);
    b.threads = threads;
    b.registers = registers;
    b.dynamic = shared;
    return b;
}

Test(occupancy, the_write_back_stage_decides_at_fa_tkv_16) {
    struct sm_limits sm = hundred_kb();
    /* (64 + 2*32) rows of 136 f16: 34.8 KB; at 16 keys the staging is 25.5 KB and the write-back 64*128*4 = 32 KB */
    cr_assert_eq(fa_prefill_smem(64, 32, 128), 34816);
    cr_assert_eq(fa_prefill_smem(64, 16, 128), 32768);
    struct block_needs b32 = needs(128, 64, fa_prefill_smem(64, 32, 128)),
                       b16 = needs(128, 64, fa_prefill_smem(64, 16, 128));
    cr_assert_eq(occupancy_derive(&sm, &b32).by_shared, 2); /* 102400 / (34816 + 1024) = 2.86 */
    cr_assert_eq(occupancy_derive(&sm, &b16).by_shared, 3); /* 102400 / (32768 + 1024) = 3.03 */
    cr_assert_eq(occupancy_derive(&sm, &b32).resident, 2);
    cr_assert_eq(occupancy_derive(&sm, &b16).resident, 3);
}

Test(occupancy, the_reserved_kilobyte_is_counted) {
    struct sm_limits sm = hundred_kb();
    struct block_needs b = needs(32, 16, 50 * 1024); /* twice 50 KB would be all of it */
    cr_assert_eq(occupancy_derive(&sm, &b).by_shared, 1);
    b.dynamic = 49 * 1024;
    cr_assert_eq(occupancy_derive(&sm, &b).by_shared, 2);
}

Test(occupancy, each_limit_alone) {
    struct sm_limits sm = occupancy_sm90();
    struct block_needs b = needs(128, 217, 0); /* 224 * 32 a warp: 9 fit, 8 are given, 4 are a block */
    cr_assert_eq(occupancy_derive(&sm, &b).by_registers, 2);
    cr_assert_eq(occupancy_derive(&sm, &b).resident, 2);
    b = needs(384, 16, 0);
    cr_assert_eq(occupancy_derive(&sm, &b).by_threads, 5);
    cr_assert_eq(occupancy_derive(&sm, &b).resident, 5);
    b = needs(32, 16, 0);
    cr_assert_eq(occupancy_derive(&sm, &b).resident, 32, "at most 32 blocks");
    b = needs(128, 32, 300 * 1024);
    cr_assert_eq(occupancy_derive(&sm, &b).resident, 0, "a block that does not fit");
}

Test(occupancy, every_instance_of_the_table_fits_an_h200_and_is_listed_once) {
    struct sm_limits sm = occupancy_sm90();
    struct block_needs b, other;
    int n = 0, prefill = 0;
    for (; occupancy_instance(n, &b); n++) {
        struct residency r = occupancy_derive(&sm, &b);
        cr_assert(r.resident >= 1, "%s %s: %d", b.kernel, b.geometry, r.resident);
        cr_assert(b.registers > 0 && b.registers <= 255 && b.threads % WARP == 0, "%s %s", b.kernel,
                  b.geometry);
        prefill += strcmp(b.kernel, "fa_prefill_f16kv") == 0;
        for (int i = 0; i < n; i++) {
            cr_assert(occupancy_instance(i, &other));
            cr_assert(strcmp(b.kernel, other.kernel) != 0 || strcmp(b.geometry, other.geometry) != 0,
                      "%s %s twice", b.kernel, b.geometry);
        }
    }
    cr_assert_eq(prefill, 18, "2 tq x 3 tkv x 3 head_dim");
    cr_assert(n > 40, "%d instances", n);
}
