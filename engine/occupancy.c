/* occupancy.c - see occupancy.h. */
#include "occupancy.h"

#include <stdio.h>
#include <string.h>

#include "cuda/launch.h"

#define SHARED_UNIT    128 /* shared memory is given in pieces of this many bytes */
#define REGISTER_UNIT  8   /* registers of a thread, rounded up; a warp's are then a multiple of 256 */
#define WARPS_AT_ONCE  4   /* one for each of the four schedulers */
#define SM90_SHARED    (228 * 1024)
#define REGISTERS      65536
#define THREADS        2048
#define BLOCKS         32
#define PREFILL_TQ_MIN 64

struct sm_limits occupancy_sm90(void) {
    struct sm_limits sm = {"sm_90 (228 KB a multiprocessor)", SM90_SHARED, REGISTERS, THREADS, BLOCKS};
    return sm;
}

struct residency occupancy_derive(const struct sm_limits *sm, const struct block_needs *b) {
    struct residency r;
    size_t shared =
        (b->shared + b->dynamic + SHARED_UNIT - 1) / SHARED_UNIT * SHARED_UNIT + OCCUPANCY_RESERVED;
    int warps = (b->threads + WARP - 1) / WARP;
    int per_warp = (b->registers + REGISTER_UNIT - 1) / REGISTER_UNIT * REGISTER_UNIT * WARP;
    int warps_held =
        per_warp > 0 ? sm->registers / per_warp / WARPS_AT_ONCE * WARPS_AT_ONCE : sm->threads / WARP;
    r.by_shared = (int)(sm->shared / shared);
    r.by_registers = warps_held / warps;
    r.by_threads = sm->threads / (warps * WARP);
    r.by_blocks = sm->blocks;
    r.resident = r.by_shared;
    if (r.by_registers < r.resident) r.resident = r.by_registers;
    if (r.by_threads < r.resident) r.resident = r.by_threads;
    if (r.by_blocks < r.resident) r.resident = r.by_blocks;
    return r;
}

/* ---- the table ------------------------------------------------------------------------------------------------- */
/* Registers of a thread in the sm_90a code, by instance; tests/occupancy_registers.sh compiles and compares. */
static const int tkvs[] = {16, 32, 64}, hds[] = {64, 128, 256};
static const int prefill_registers[3][3] = {
    {125, 200, 201}, {141, 217, 237}, {164, 237, 247}}; /* [tkv][hd] */
static const int decode_registers[3][3] = {{64, 72, 66}, {64, 64, 67}, {113, 118, 123}};
static const int hopper_registers[2] = {
    128, 168}; /* [warpgroups - 1]: what a block starts with; they hand over later */
static const struct {
    const char *type;
    int mmq;
} typed[] = {{"q8_0", 128}, {"q4_0", 119}, {"q4_1", 124}, {"q5_0", 119},
             {"q5_1", 124}, {"q4_k", 128}, {"q5_k", 128}, {"q6_k", 128}};
#define TYPES ((int)(sizeof typed / sizeof typed[0]))

static void name(struct block_needs *out, const char *kernel, int threads, int registers, size_t shared,
                 size_t dynamic) {
    memset(out, 0, sizeof *out);
    (void)snprintf(out->kernel, sizeof out->kernel, "%s", kernel);
    out->threads = threads;
    out->registers = registers;
    out->shared = shared;
    out->dynamic = dynamic;
}

/* tq x tkv x hd. */
static int prefill_instance(int i, struct block_needs *out) {
    int tq = i / 9 == 0 ? PREFILL_TQ_MIN : FA_TQ_MAX, tkv = tkvs[i / 3 % 3], hd = hds[i % 3];
    if (i >= 18) return 0;
    name(out, "fa_prefill_f16kv", tq / FA_ROWS_PER_WARP * WARP, prefill_registers[i / 3 % 3][i % 3], 0,
         fa_prefill_smem(tq, tkv, hd));
    (void)snprintf(out->geometry, sizeof out->geometry, "fa_tq=%d fa_tkv=%d head_dim=%d", tq, tkv, hd);
    return 1;
}

static int hopper_instance(int i, struct block_needs *out) {
    int wgs = i / 6 + 1, tkv = tkvs[i / 2 % 3], hd = hds[i % 2];
    if (i >= 12) return 0;
    name(out, "fa_prefill_wgmma", (wgs + 1) * FA_HOPPER_WARPGROUP, hopper_registers[wgs - 1],
         4 * FA_HOPPER_STAGES * sizeof(unsigned long long), fa_hopper_smem(hd));
    (void)snprintf(out->geometry, sizeof out->geometry, "fa_tq=%d fa_tkv=%d head_dim=%d",
                   wgs * FA_HOPPER_ROWS, tkv, hd);
    return 1;
}

static int decode_instance(int i, struct block_needs *out) {
    if (i >= 9) return 0;
    int tkv = tkvs[i / 3], hd = hds[i % 3];
    name(out, "fa_decode_f16kv", FA_DEC_WARPS * WARP, decode_registers[i / 3][i % 3], 0, fa_decode_smem(hd));
    (void)snprintf(out->geometry, sizeof out->geometry, "fa_tkv=%d head_dim=%d", tkv, hd);
    return 1;
}

static int product_instance(int i, struct block_needs *out) {
    switch (i) {
    case 0:
    case 1:
        name(out, "gemm_f16", GEMM_WARPS * WARP, i == 0 ? 80 : 128, 0,
             gemm_smem(i == 0 ? GEMM_BM_MIN : GEMM_BM));
        (void)snprintf(out->geometry, sizeof out->geometry, "rows=%d", i == 0 ? GEMM_BM_MIN : GEMM_BM);
        return 1;
    case 2:
    case 3: {
        int bn = i == 2 ? 128 : 256;
        name(out, "gemm_f16_wgmma", WG_THREADS, 168, 2 * gemm_hopper_stages(bn) * sizeof(unsigned long long),
             gemm_hopper_smem(bn));
        (void)snprintf(out->geometry, sizeof out->geometry, "rows=%d columns=%d", WG_BM, bn);
        return 1;
    }
    case 4:
        name(out, "gemv_f16", WARP, 60, 0, gemv_smem());
        (void)snprintf(out->geometry, sizeof out->geometry, "rows=%d", GEMV_TILE);
        return 1;
    default:
        break;
    }
    i -= 5;
    if (i >= TYPES) return 0;
    name(out, "", MMQ_WARPS * WARP, typed[i].mmq, 0, mmq_smem());
    (void)snprintf(out->kernel, sizeof out->kernel, "mmq_%s", typed[i].type);
    (void)snprintf(out->geometry, sizeof out->geometry, "rows=%d columns=%d", MMQ_BM, MMQ_BN);
    return 1;
}

int occupancy_instance(int i, struct block_needs *out) {
    if (prefill_instance(i, out)) return 1;
    i -= 18;
    if (hopper_instance(i, out)) return 1;
    i -= 12;
    if (decode_instance(i, out)) return 1;
    return product_instance(i - 9, out);
}
