/* parity_rig.h - two backends side by side: buffers in pairs, the same inputs, outputs compared bit for bit.
 * Not Criterion: device_parity is one plain program, so that it can be shipped alone to a machine with a GPU.
 * Idea: every output is NaN-poisoned before each call and lies between guard bands; one CSV row per case.
 * Source: ours. Exercise: device_parity */
#ifndef FORKGATE_PARITY_RIG_H
#define FORKGATE_PARITY_RIG_H

#include "../engine/backend.h"

#define RIG_SIDES   2   /* 0: cpu, the twin; 1: cuda, the kernel */
#define RIG_GUARD   256 /* bytes before and after every buffer */
#define RIG_BUFFERS 64

/* How inputs are filled. */
enum fill { FILL_NORMAL, FILL_OUTLIER, FILL_TINY, FILL_ZERO, FILL_SPECIAL, FILL_COUNT };

struct pair {
    void *p[RIG_SIDES];    /* data, inside the guards */
    void *base[RIG_SIDES]; /* what alloc gave */
    size_t bytes[RIG_SIDES];
};

struct rig {
    struct backend *side[RIG_SIDES];
    struct pair held[RIG_BUFFERS]; /* freed by rig_reset */
    int n_held;
    const char *only;  /* run only this op; NULL: all */
    int quick;         /* a subset that an emulator can run */
    int n_rows, n_bad; /* CSV rows written, and those that failed */
    uint64_t seed;
    struct err err;
};

/* One case: what the CSV row says, and what the comparisons found. */
struct verdict {
    const char *op, *dtype, *arm;
    char shape[160];
    long mismatches;
    long first;        /* index of the first mismatch, in the buffer named by `where` */
    const char *where; /* "y", "d", "guard", "overflow", an error message */
    double oracle;     /* worst error against float64, as a share of its budget; negative: not judged */
};

/* Opens both backends; a config that either refuses ends the program with exit 2. */
void rig_open(struct rig *r, enum route route, const struct geometry *g, int graphs);
void rig_close(struct rig *r);
void rig_reset(struct rig *r); /* frees the buffers of the case before */

/* Buffers: poisoned with NaN (0xff bytes) between guards, or holding a copy of host bytes. */
struct pair rig_output(struct rig *r, size_t bytes);
struct pair rig_input(struct rig *r, const void *host, size_t bytes);
/* The same where the sides differ in size: the twin computes a sample of what the device does. */
struct pair rig_output_sized(struct rig *r, size_t twin_bytes, size_t device_bytes);
struct pair rig_input_sized(struct rig *r, const void *twin, size_t twin_bytes, const void *device,
                            size_t device_bytes);
void rig_poison(struct rig *r, const struct pair *p);
/* Room for decode attention (backend.h), poisoned and guarded as every buffer. */
void rig_room(struct rig *r, int n_head, int head_dim, int n_ctx);

void fill_floats(struct rig *r, enum fill f, float *x, size_t n);
const char *fill_name(enum fill f);
/* n elements (whole blocks) of type t with ordinary scales; any code. */
void fill_weights(struct rig *r, enum dtype t, void *out, size_t n);
void *rig_memory(size_t bytes); /* malloc or exit 2 */

/* ---- one case ---- */
void verdict_begin(struct verdict *v, const char *op, const char *dtype, const char *arm, const char *format,
                   ...) __attribute__((format(printf, 5, 6)));
/* Counts a failed call as a mismatch with its message; returns 1 when the call was fine. */
int verdict_call(struct rig *r, struct verdict *v, int side, enum status s);
/* Compares: words of 4 bytes as f32 or of 2 as f16 (NaN as a class), or plain bytes. */
void verdict_floats(struct rig *r, struct verdict *v, const struct pair *p, const char *where);
void verdict_halves(struct rig *r, struct verdict *v, const struct pair *p, const char *where);
void verdict_bytes(struct rig *r, struct verdict *v, const struct pair *p, const char *where);
void verdict_overflow(struct rig *r, struct verdict *v);
/* Output index[i] of the device against output i of the twin, and no output of the device left as it was poisoned. */
void verdict_sample(struct rig *r, struct verdict *v, const struct pair *p, const int64_t *index, size_t n);
/* The max_scaled budget of an op gate (golden/budgets.csv of $FORKGATE_ROOT, or of the source tree), or exit 2. */
double rig_budget(struct rig *r, const char *op, const char *dtype);
/* One value against float64: |got - truth| <= budget * scale. */
void verdict_oracle(struct verdict *v, float got, double truth, double budget, double scale);
/* Checks the guards of all buffers, then writes the CSV row. */
void verdict_end(struct rig *r, struct verdict *v);
int rig_wants(const struct rig *r, const char *op);

/* ---- the suites, one file each ---- */
void parity_rows(struct rig *r);      /* embed rmsnorm act_prepare swiglu add top2 row_sums: parity_rows.c */
void parity_cache(struct rig *r);     /* rope kv_append: parity_cache.c */
void parity_matmul(struct rig *r);    /* parity_matmul.c */
void parity_attention(struct rig *r); /* parity_attention.c */
void parity_fused(struct rig *r);     /* neighbours that the device merges: parity_fused.c */
void parity_scale(struct rig *r);     /* a 7B model's products, sampled: parity_scale.c */
void parity_far(struct rig *r);       /* attention at positions up to 131071, sampled: parity_far.c */
void parity_session(struct rig *r);   /* no step allocates: parity_session.c */
void parity_steps(struct rig *r);     /* a small decode step, eager and as a replayed graph: parity_steps.c */

#endif
