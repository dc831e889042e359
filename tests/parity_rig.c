/* parity_rig.c - see parity_rig.h. */
#include "parity_rig.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../engine/fmath.h"
#include "../engine/rng.h"
#include "../gates/budget.h"

#define GUARD_BYTE  0xa5
#define POISON_BYTE 0xff /* f32: NaN; f16: NaN; int8: -1 */

_Noreturn static void rig_die(const char *what) {
    fprintf(stderr, "device_parity: %s\n", what);
    exit(2);
}

void *rig_memory(size_t bytes) {
    void *p = malloc(bytes == 0 ? 1 : bytes);
    if (p == NULL) rig_die("out of host memory");
    return p;
}

static void rig_must(struct rig *r, enum status s) {
    if (s != STATUS_OK) rig_die(r->err.message);
}

void rig_open(struct rig *r, enum route route, const struct geometry *g, int graphs) {
    struct backend_config c;
    struct device_info d;
    memset(&c, 0, sizeof c);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    rig_must(r, backend_cuda_device(&d, &r->err));
    c.route = route;
    c.arch = d.cc_major == 9 ? ARCH_SM90 : ARCH_SM80;
    c.geometry = *g;
    c.n_threads = cores < 1 ? 1 : cores > 64 ? 64 : (int)cores;
    c.graphs = graphs;
    rig_must(r, backend_cpu_open(&c, &r->side[0], &r->err));
    rig_must(r, backend_cuda_open(&c, &r->side[1], &r->err));
    r->n_held = 0;
}

void rig_reset(struct rig *r) {
    for (int i = 0; i < r->n_held; i++)
        for (int s = 0; s < RIG_SIDES; s++) r->side[s]->free(r->side[s], r->held[i].base[s]);
    r->n_held = 0;
}

void rig_close(struct rig *r) {
    rig_reset(r);
    for (int s = 0; s < RIG_SIDES; s++) r->side[s]->close(r->side[s]);
}

/* ---- buffers --------------------------------------------------------------------------------------------------- */

static struct pair rig_pair(struct rig *r, size_t twin_bytes, size_t device_bytes) {
    struct pair p;
    if (r->n_held == RIG_BUFFERS) rig_die("too many buffers in one case");
    for (int s = 0; s < RIG_SIDES; s++) {
        struct backend *b = r->side[s];
        size_t bytes = p.bytes[s] = s == 0 ? twin_bytes : device_bytes;
        rig_must(r, b->alloc(b, bytes + 2 * RIG_GUARD, &p.base[s], &r->err));
        p.p[s] = (char *)p.base[s] + RIG_GUARD;
        rig_must(r, b->fill(b, p.base[s], GUARD_BYTE, RIG_GUARD, &r->err));
        rig_must(r, b->fill(b, (char *)p.p[s] + bytes, GUARD_BYTE, RIG_GUARD, &r->err));
    }
    r->held[r->n_held++] = p;
    return p;
}

void rig_poison(struct rig *r, const struct pair *p) {
    for (int s = 0; s < RIG_SIDES; s++)
        rig_must(r, r->side[s]->fill(r->side[s], p->p[s], POISON_BYTE, p->bytes[s], &r->err));
}

struct pair rig_output_sized(struct rig *r, size_t twin_bytes, size_t device_bytes) {
    struct pair p = rig_pair(r, twin_bytes, device_bytes);
    rig_poison(r, &p);
    return p;
}

struct pair rig_output(struct rig *r, size_t bytes) {
    return rig_output_sized(r, bytes, bytes);
}

void rig_room(struct rig *r, int n_head, int head_dim, int n_ctx) {
    size_t bytes[RIG_SIDES];
    for (int s = 0; s < RIG_SIDES; s++)
        bytes[s] = r->side[s]->attention_room(r->side[s], n_head, head_dim, n_ctx, NULL);
    struct pair p = rig_output_sized(r, bytes[0], bytes[1]);
    for (int s = 0; s < RIG_SIDES; s++)
        (void)r->side[s]->attention_room(r->side[s], n_head, head_dim, n_ctx, p.p[s]);
}

struct pair rig_input_sized(struct rig *r, const void *twin, size_t twin_bytes, const void *device,
                            size_t device_bytes) {
    struct pair p = rig_pair(r, twin_bytes, device_bytes);
    const void *host[RIG_SIDES] = {twin, device};
    for (int s = 0; s < RIG_SIDES; s++)
        rig_must(r, r->side[s]->copy_in(r->side[s], p.p[s], host[s], p.bytes[s], &r->err));
    return p;
}

struct pair rig_input(struct rig *r, const void *host, size_t bytes) {
    return rig_input_sized(r, host, bytes, host, bytes);
}

/* ---- inputs ---------------------------------------------------------------------------------------------------- */

const char *fill_name(enum fill f) {
    static const char *const names[FILL_COUNT] = {"normal", "outlier", "tiny", "zero", "special"};
    return names[f];
}

void fill_floats(struct rig *r, enum fill f, float *x, size_t n) {
    uint64_t seed = ++r->seed;
    for (size_t i = 0; i < n; i++) {
        uint64_t bits = rng_u64(seed ^ 0x5bd1e995u, i);
        x[i] = rng_normal(seed, i);
        switch (f) {
        case FILL_OUTLIER:
            x[i] *= bits % 61 == 0 ? 57.0f : 1.0f;
            break;
        case FILL_TINY:
            x[i] *= bits % 2 == 0 ? 0x1p-130f : 0x1p-20f;
            break;
        case FILL_ZERO:
            x[i] = bits % 2 == 0 ? 0.0f : -0.0f;
            break;
        case FILL_SPECIAL: /* NaN, both Inf, and values that overflow f16 */
            if (bits % 211 == 0)
                x[i] = fm_f32_from_bits(bits & 256 ? 0x7fc00000u : bits & 512 ? 0x7f800000u : 0xff800000u);
            if (bits % 97 == 1) x[i] *= 1e6f;
            break;
        case FILL_NORMAL:
        case FILL_COUNT:
            break;
        }
    }
}

static uint16_t weight_scale(uint64_t bits) {
    float x = rng_uniform(bits, 1) * 0.02f;
    if (bits % 31 == 0) x = 0.0f;
    if (bits % 37 == 0) x *= 0x1p-14f; /* an f16 subnormal */
    return fm_f32_to_f16(x);
}

/* Overwrites the f16 fields of block i so that values stay ordinary. */
static void weight_block_scales(enum dtype t, uint8_t *block, uint64_t bits) {
    uint16_t d = weight_scale(bits), m = weight_scale(rng_mix(bits));
    size_t at = t == DTYPE_Q6_K ? offsetof(struct block_q6_K, d) : 0;
    memcpy(block + at, &d, sizeof d);
    if (t == DTYPE_Q4_1 || t == DTYPE_Q5_1 || t == DTYPE_Q4_K || t == DTYPE_Q5_K)
        memcpy(block + 2, &m, sizeof m);
}

void fill_weights(struct rig *r, enum dtype t, void *out, size_t n) {
    const struct dtype_info *info = dtype_info((int)t);
    size_t bytes = (size_t)dtype_bytes(t, n);
    uint64_t seed = ++r->seed;
    uint8_t *b = out;
    if (!info->is_quantised) {
        for (size_t i = 0; i < n; i++) {
            float x = rng_normal(seed, i) * 0.05f;
            uint16_t h = t == DTYPE_F16 ? fm_f32_to_f16(x) : fm_f32_to_bf16(x);
            if (t == DTYPE_F32)
                memcpy(b + 4 * i, &x, sizeof x);
            else
                memcpy(b + 2 * i, &h, sizeof h);
        }
        return;
    }
    for (size_t i = 0; i < bytes; i++) b[i] = (uint8_t)rng_u64(seed, i);
    for (size_t i = 0; i < bytes / (size_t)info->bytes; i++)
        weight_block_scales(t, b + i * (size_t)info->bytes, rng_u64(seed + 77, i));
}

/* ---- verdicts -------------------------------------------------------------------------------------------------- */

int rig_wants(const struct rig *r, const char *op) {
    return r->only == NULL || strcmp(r->only, op) == 0;
}

void verdict_begin(struct verdict *v, const char *op, const char *dtype, const char *arm, const char *format,
                   ...) {
    va_list args;
    memset(v, 0, sizeof *v);
    v->op = op;
    v->dtype = dtype;
    v->arm = arm;
    v->first = -1;
    v->where = "";
    v->oracle = -1.0;
    va_start(args, format);
    (void)vsnprintf(v->shape, sizeof v->shape, format, args);
    va_end(args);
}

static void verdict_note(struct verdict *v, long index, const char *where) {
    if (v->mismatches++ == 0) {
        v->first = index;
        v->where = where;
    }
}

int verdict_call(struct rig *r, struct verdict *v, int side, enum status s) {
    if (s == STATUS_OK) return 1;
    fprintf(stderr, "device_parity: %s: %s\n", r->side[side]->name, r->err.message);
    verdict_note(v, side, "error");
    return 0;
}

static void rig_fetch(struct rig *r, const struct pair *p, uint8_t *out[RIG_SIDES]) {
    for (int s = 0; s < RIG_SIDES; s++) {
        size_t bytes = p->bytes[s] + 2 * RIG_GUARD;
        out[s] = rig_memory(bytes);
        rig_must(r, r->side[s]->copy_out(r->side[s], out[s], p->base[s], bytes, &r->err));
    }
}

void verdict_floats(struct rig *r, struct verdict *v, const struct pair *p, const char *where) {
    uint8_t *out[RIG_SIDES];
    rig_fetch(r, p, out);
    for (size_t i = 0; i < p->bytes[0] / 4; i++) {
        float a, b;
        memcpy(&a, out[0] + RIG_GUARD + 4 * i, 4);
        memcpy(&b, out[1] + RIG_GUARD + 4 * i, 4);
        if (memcmp(&a, &b, 4) != 0 && !(fm_f32_is_nan(a) && fm_f32_is_nan(b)))
            verdict_note(v, (long)i, where);
    }
    free(out[0]);
    free(out[1]);
}

void verdict_halves(struct rig *r, struct verdict *v, const struct pair *p, const char *where) {
    uint8_t *out[RIG_SIDES];
    rig_fetch(r, p, out);
    for (size_t i = 0; i < p->bytes[0] / 2; i++) {
        uint16_t a, b;
        memcpy(&a, out[0] + RIG_GUARD + 2 * i, 2);
        memcpy(&b, out[1] + RIG_GUARD + 2 * i, 2);
        if (a != b && !((a & 0x7fff) > 0x7c00 && (b & 0x7fff) > 0x7c00)) verdict_note(v, (long)i, where);
    }
    free(out[0]);
    free(out[1]);
}

void verdict_bytes(struct rig *r, struct verdict *v, const struct pair *p, const char *where) {
    uint8_t *out[RIG_SIDES];
    rig_fetch(r, p, out);
    for (size_t i = 0; i < p->bytes[0]; i++)
        if (out[0][RIG_GUARD + i] != out[1][RIG_GUARD + i]) verdict_note(v, (long)i, where);
    free(out[0]);
    free(out[1]);
}

void verdict_sample(struct rig *r, struct verdict *v, const struct pair *p, const int64_t *index, size_t n) {
    uint8_t *out[RIG_SIDES];
    uint32_t poison;
    memset(&poison, POISON_BYTE, sizeof poison);
    rig_fetch(r, p, out);
    for (size_t i = 0; i < n; i++) {
        float a, b;
        memcpy(&a, out[0] + RIG_GUARD + 4 * i, 4);
        memcpy(&b, out[1] + RIG_GUARD + 4 * (size_t)index[i], 4);
        if (memcmp(&a, &b, 4) != 0 && !(fm_f32_is_nan(a) && fm_f32_is_nan(b)))
            verdict_note(v, (long)index[i], "sample");
    }
    for (size_t i = 0; i < p->bytes[1] / 4; i++)
        if (memcmp(out[1] + RIG_GUARD + 4 * i, &poison, 4) == 0) verdict_note(v, (long)i, "unwritten");
    free(out[0]);
    free(out[1]);
}

double rig_budget(struct rig *r, const char *op, const char *dtype) {
    const char *root = getenv("FORKGATE_ROOT");
    struct budgets budgets;
    char path[4096];
    double bound = 0.0;
    (void)snprintf(path, sizeof path, "%.4000s/golden/budgets.csv",
                   root != NULL ? root : FORKGATE_SOURCE_DIR);
    rig_must(r, budgets_load(path, &budgets, &r->err));
    rig_must(r, budgets_bound(&budgets, op, dtype, "max_scaled", &bound, &r->err));
    budgets_free(&budgets);
    return bound;
}

void verdict_oracle(struct verdict *v, float got, double truth, double budget, double scale) {
    double share = fabs((double)got - truth) / (budget * scale);
    if (!(share <= 1.0)) verdict_note(v, -1, "oracle");
    if (!(share <= v->oracle)) v->oracle = share;
}

void verdict_overflow(struct rig *r, struct verdict *v) {
    uint64_t n[RIG_SIDES];
    for (int s = 0; s < RIG_SIDES; s++) rig_must(r, r->side[s]->overflow_take(r->side[s], &n[s], &r->err));
    if (n[0] != n[1]) verdict_note(v, (long)n[1], "overflow");
}

static void verdict_guards(struct rig *r, struct verdict *v) {
    uint8_t band[RIG_GUARD];
    for (int i = 0; i < r->n_held; i++)
        for (int s = 0; s < RIG_SIDES; s++)
            for (int end = 0; end < 2; end++) {
                char *at = (char *)r->held[i].base[s] + (end ? RIG_GUARD + r->held[i].bytes[s] : 0);
                rig_must(r, r->side[s]->copy_out(r->side[s], band, at, RIG_GUARD, &r->err));
                for (int j = 0; j < RIG_GUARD; j++)
                    if (band[j] != GUARD_BYTE) verdict_note(v, j, "guard");
            }
}

void verdict_end(struct rig *r, struct verdict *v) {
    verdict_guards(r, v);
    r->n_rows++;
    r->n_bad += v->mismatches != 0;
    char oracle[32] = "";
    if (!(v->oracle < 0.0)) (void)snprintf(oracle, sizeof oracle, "%.3g", v->oracle);
    printf("%s,%s,%s,%s,%ld,%ld,%s,%s,%s\n", v->op, v->dtype, v->shape, v->arm, v->mismatches, v->first,
           v->where, oracle, v->mismatches == 0 ? "PASS" : "FAIL");
    fflush(stdout);
    rig_reset(r);
}
