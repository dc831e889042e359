/* backend_cpu.c - the host backend: a thin table over the twins.
 * Not arithmetic: every number is made in engine/ops/.
 * Idea: every pointer handed out is in one list, so close frees what the caller forgot; every op counts itself.
 * Source: ours. Exercise: ctest -R unit.backend */
#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "fault.h"
#include "ops/twins.h"
#include "tcmodel.h"

#define ALLOC_ALIGN 256

enum kernel {
    KERNEL_EMBED,
    KERNEL_RMSNORM,
    KERNEL_ACT_F32, /* + enum act_kind */
    KERNEL_ACT_F16,
    KERNEL_ACT_Q8_32,
    KERNEL_ACT_Q8_256,
    KERNEL_MATMUL_F32, /* + enum act_kind */
    KERNEL_MATMUL_F16,
    KERNEL_MATMUL_Q8_32,
    KERNEL_MATMUL_Q8_256,
    KERNEL_ROPE,
    KERNEL_KV_APPEND_F16, /* + enum kv_dtype */
    KERNEL_KV_APPEND_Q8_0,
    KERNEL_KV_APPEND_F32,
    KERNEL_ATTENTION_F16, /* + enum kv_dtype */
    KERNEL_ATTENTION_Q8_0,
    KERNEL_ATTENTION_F32,
    KERNEL_SWIGLU,
    KERNEL_ADD,
    KERNEL_TOP2,
    KERNELS
};

static const char *const kernel_names[KERNELS] = {
    "embed",          "rmsnorm",       "act_f32",        "act_f16",       "act_q8_32",
    "act_q8_256",     "matmul_f32",    "matmul_f16",     "matmul_q8_32",  "matmul_q8_256",
    "rope",           "kv_append_f16", "kv_append_q8_0", "kv_append_f32", "attention_f16",
    "attention_q8_0", "attention_f32", "swiglu",         "add",           "top2"};

_Static_assert(KERNELS <= BACKEND_KERNELS_MAX, "the census has room for every twin");

struct cpu {
    struct twin_ctx twins;
    uint64_t overflow;
    struct attention_use use;
    uint64_t calls[KERNELS];
    void **owned; /* [n_owned] everything handed out and not yet freed */
    size_t n_owned, room;
};

static struct cpu *cpu_of(struct backend *self) {
    return self->impl;
}

static void count(struct backend *self, int kernel) {
    cpu_of(self)->calls[kernel]++;
}

/* ---- memory -------------------------------------------------------------------------------------------------- */
/* Takes ownership of p (frees it when the list cannot grow). p == NULL: the allocation itself was refused. */
static enum status own(struct backend *self, void *p, size_t bytes, struct err *err) {
    struct cpu *c = cpu_of(self);
    if (p != NULL && c->n_owned == c->room) {
        size_t room = c->room == 0 ? 64 : 2 * c->room;
        void **grown = realloc(c->owned, room * sizeof *grown);
        if (grown == NULL) {
            free(p);
            p = NULL;
        } else {
            c->owned = grown;
            c->room = room;
        }
    }
    if (p == NULL) return err_set(err, STATUS_NOMEM, "backend cpu: %zu bytes refused", bytes);
    c->owned[c->n_owned++] = p;
    self->memory_calls++;
    return STATUS_OK;
}

static void cpu_free(struct backend *self, void *p) {
    struct cpu *c = cpu_of(self);
    for (size_t i = c->n_owned; p != NULL && i > 0; i--) { /* from the end: short-lived buffers come last */
        if (c->owned[i - 1] != p) continue;
        c->owned[i - 1] = c->owned[--c->n_owned];
        free(p);
        self->memory_calls++;
        return;
    }
}

static enum status cpu_alloc(struct backend *self, size_t bytes, void **out, struct err *err) {
    *out = NULL;
    if (bytes > SIZE_MAX - ALLOC_ALIGN)
        return err_set(err, STATUS_NOMEM, "backend cpu: %zu bytes refused", bytes);
    size_t rounded = bytes == 0 ? ALLOC_ALIGN : (bytes + ALLOC_ALIGN - 1) / ALLOC_ALIGN * ALLOC_ALIGN;
    void *p = FAULT_FAILS_COUNTED(FAULT_ALLOC, "") ? NULL : aligned_alloc(ALLOC_ALIGN, rounded);
    RETURN_IF_ERROR(own(self, p, bytes, err));
    *out = p;
    return STATUS_OK;
}

static enum status cpu_copy(struct backend *self, void *dst, const void *src, size_t bytes, struct err *err) {
    (void)self;
    if (FAULT_FAILS_COUNTED(FAULT_COPY, ""))
        return err_set(err, STATUS_DEVICE, "backend cpu: copy of %zu bytes failed", bytes);
    if (bytes != 0) memcpy(dst, src, bytes);
    return STATUS_OK;
}

static enum status cpu_fill(struct backend *self, void *dst, int byte, size_t bytes, struct err *err) {
    (void)self, (void)err;
    if (bytes != 0) memset(dst, byte, bytes);
    return STATUS_OK;
}

static enum status cpu_sync(struct backend *self, struct err *err) {
    (void)self, (void)err;
    return STATUS_OK;
}

/* ---- weights ------------------------------------------------------------------------------------------------- */
/* A plain copy of the file's bytes, or of the f32 values. */
static enum status upload_copy(struct backend *self, int as_f32, enum dtype dtype, const void *src, int64_t n,
                               int64_t k, void **out, struct err *err) {
    uint64_t elements = (uint64_t)n * (uint64_t)k;
    size_t bytes = (size_t)(as_f32 ? elements * sizeof(float) : dtype_bytes(dtype, elements));
    RETURN_IF_ERROR(cpu_alloc(self, bytes, out, err));
    if (as_f32)
        dtype_dequantise(dtype, src, *out, (size_t)elements);
    else
        memcpy(*out, src, bytes);
    return STATUS_OK;
}

static enum status cpu_weight_upload(struct backend *self, enum weight_use use, enum dtype dtype,
                                     const void *src, int64_t n, int64_t k, struct weight *out,
                                     struct err *err) {
    memset(out, 0, sizeof *out);
    const struct dtype_info *info = dtype_info((int)dtype);
    if (info == NULL) return err_set(err, STATUS_UNSUPPORTED, "weight type %d", (int)dtype);
    if (n < 1 || k < 1 || k % info->block != 0)
        return err_set(err, STATUS_SHAPE, "a %lld x %lld matrix of %s (blocks of %d)", (long long)n,
                       (long long)k, info->name, info->block);
    enum act_kind act = act_kind_for(self->config.route, dtype);
    void *data = NULL;
    if (use != WEIGHT_MATMUL || act == ACT_F32) {
        RETURN_IF_ERROR(upload_copy(self, use == WEIGHT_VECTOR, dtype, src, n, k, &data, err));
    } else {
        RETURN_IF_ERROR(act == ACT_F16 ? matmul_f16_pack(dtype, src, n, k, &data, err)
                                       : matmul_q8_pack(dtype, src, n, k, &data, err));
        RETURN_IF_ERROR(own(self, data, 0, err));
    }
    out->dtype = dtype;
    out->act = act;
    out->n = n;
    out->k = k;
    out->data = data;
    return STATUS_OK;
}

static void cpu_weight_free(struct backend *self, struct weight *w) {
    cpu_free(self, w->data);
    memset(w, 0, sizeof *w);
}

/* ---- steps --------------------------------------------------------------------------------------------------- */
static enum status cpu_step_begin(struct backend *self, const struct step *s, int *replayed,
                                  struct err *err) {
    *replayed = 0;
    return step_check(s, self->config.route, err);
}

static enum status cpu_step_end(struct backend *self, const struct step *s, struct err *err) {
    (void)self, (void)s, (void)err;
    return STATUS_OK;
}

/* ---- ops ----------------------------------------------------------------------------------------------------- */
static enum status cpu_embed(struct backend *self, const struct step *s, const struct weight *table, float *x,
                             struct err *err) {
    for (int r = 0; r < s->n_rows; r++)
        if (s->id[r] < 0 || s->id[r] >= table->n)
            return err_set(err, STATUS_INVALID, "embed: row %d has id %d of a table of %lld", r,
                           (int)s->id[r], (long long)table->n);
    count(self, KERNEL_EMBED);
    embed_twin(&cpu_of(self)->twins, s, table, x);
    return STATUS_OK;
}

static enum status cpu_rmsnorm(struct backend *self, const float *x, const float *w, float eps, int64_t rows,
                               int64_t cols, float *y, struct err *err) {
    (void)err;
    count(self, KERNEL_RMSNORM);
    rmsnorm_twin(&cpu_of(self)->twins, x, w, eps, rows, cols, y);
    return STATUS_OK;
}

static enum status cpu_act_prepare(struct backend *self, enum act_kind kind, const float *x, int64_t rows,
                                   int64_t k, struct act *out, struct err *err) {
    if (k % act_block(kind) != 0)
        return err_set(err, STATUS_SHAPE, "act_prepare: row length %lld is not a multiple of %d",
                       (long long)k, act_block(kind));
    count(self, KERNEL_ACT_F32 + (int)kind);
    act_prepare_twin(&cpu_of(self)->twins, kind, x, rows, k, out);
    return STATUS_OK;
}

static enum status cpu_matmul(struct backend *self, const struct weight *w, const struct act *a, int64_t rows,
                              float *y, struct err *err) {
    if (a->kind != w->act || a->k != w->k)
        return err_set(err, STATUS_SHAPE, "matmul: activations %s[%lld] for a weight that wants %s[%lld]",
                       act_kind_name(a->kind), (long long)a->k, act_kind_name(w->act), (long long)w->k);
    count(self, KERNEL_MATMUL_F32 + (int)w->act);
    const struct twin_ctx *t = &cpu_of(self)->twins;
    if (w->act == ACT_F32)
        matmul_f32_twin(t, w, a, rows, y);
    else if (w->act == ACT_F16)
        matmul_f16_twin(t, w, a, rows, y);
    else
        matmul_q8_twin(t, w, a, rows, y);
    return STATUS_OK;
}

static enum status cpu_rope(struct backend *self, const struct step *s, const struct rope_table *table,
                            int n_head, int head_dim, float *x, struct err *err) {
    for (int r = 0; r < s->n_rows; r++)
        if (s->pos[r] >= table->n_pos)
            return err_set(err, STATUS_LIMIT, "rope: position %d beyond the table of %d", (int)s->pos[r],
                           table->n_pos);
    count(self, KERNEL_ROPE);
    rope_twin(&cpu_of(self)->twins, s, table, n_head, head_dim, x);
    return STATUS_OK;
}

static enum status cpu_kv_append(struct backend *self, const struct step *s, int layer, const float *k,
                                 const float *v, struct err *err) {
    (void)err;
    count(self, KERNEL_KV_APPEND_F16 + (int)s->kv[0]->dtype);
    kv_append_twin(&cpu_of(self)->twins, s, layer, k, v);
    return STATUS_OK;
}

static enum status cpu_attention(struct backend *self, const struct step *s, int layer, int n_head,
                                 const float *q, float *o, struct err *err) {
    count(self, KERNEL_ATTENTION_F16 + (int)s->kv[0]->dtype);
    return attention_twin(&cpu_of(self)->twins, s, layer, n_head, q, o, err);
}

static enum status cpu_swiglu(struct backend *self, const float *g, const float *u, int64_t n, float *y,
                              struct err *err) {
    (void)err;
    count(self, KERNEL_SWIGLU);
    swiglu_twin(&cpu_of(self)->twins, g, u, n, y);
    return STATUS_OK;
}

static enum status cpu_add(struct backend *self, float *x, const float *t, int64_t n, struct err *err) {
    (void)err;
    count(self, KERNEL_ADD);
    add_twin(&cpu_of(self)->twins, x, t, n);
    return STATUS_OK;
}

static enum status cpu_top2(struct backend *self, const float *logits, int64_t rows, int64_t n_vocab,
                            int64_t stride, struct top2 *out, struct err *err) {
    (void)err;
    count(self, KERNEL_TOP2);
    top2_twin(&cpu_of(self)->twins, logits, rows, n_vocab, stride, out);
    return STATUS_OK;
}

/* ---- census, life -------------------------------------------------------------------------------------------- */
static enum status cpu_step_forget(struct backend *self, struct err *err) {
    return cpu_sync(self, err); /* nothing is captured on the host */
}

/* The twins take theirs from the heap. */
static size_t cpu_attention_room(struct backend *self, int n_head, int head_dim, int n_ctx, void *base) {
    (void)self, (void)n_head, (void)head_dim, (void)n_ctx, (void)base;
    return 0;
}

static enum status cpu_overflow_take(struct backend *self, uint64_t *n, struct err *err) {
    (void)err;
    *n = cpu_of(self)->overflow; /* no op is running: every op returns when its threads are done */
    cpu_of(self)->overflow = 0;
    return STATUS_OK;
}

static enum status cpu_fetch(struct backend *self, const struct fetch *f, int n, uint64_t *overflows,
                             struct err *err) {
    for (int i = 0; i < n; i++) RETURN_IF_ERROR(cpu_copy(self, f[i].host, f[i].src, f[i].bytes, err));
    return cpu_overflow_take(self, overflows, err);
}

static int cpu_kernel_counts(struct backend *self, struct kernel_count out[BACKEND_KERNELS_MAX]) {
    for (int i = 0; i < KERNELS; i++) out[i] = (struct kernel_count){kernel_names[i], cpu_of(self)->calls[i]};
    return KERNELS;
}

static void cpu_attention_use(struct backend *self, struct attention_use *out) {
    *out = cpu_of(self)->use;
}

static void cpu_close(struct backend *self) {
    if (self == NULL) return;
    struct cpu *c = cpu_of(self);
    for (size_t i = 0; i < c->n_owned; i++) free(c->owned[i]);
    free(c->owned);
    par_close(c->twins.pool);
    free(c);
    free(self);
}

static const struct backend table = {.name = "cpu",
                                     .close = cpu_close,
                                     .alloc = cpu_alloc,
                                     .free = cpu_free,
                                     .copy_in = cpu_copy,
                                     .copy_out = cpu_copy,
                                     .fetch = cpu_fetch,
                                     .host_alloc = cpu_alloc,
                                     .host_free = cpu_free,
                                     .fill = cpu_fill,
                                     .sync = cpu_sync,
                                     .weight_upload = cpu_weight_upload,
                                     .weight_free = cpu_weight_free,
                                     .step_begin = cpu_step_begin,
                                     .step_end = cpu_step_end,
                                     .step_forget = cpu_step_forget,
                                     .attention_room = cpu_attention_room,
                                     .embed = cpu_embed,
                                     .rmsnorm = cpu_rmsnorm,
                                     .act_prepare = cpu_act_prepare,
                                     .matmul = cpu_matmul,
                                     .rope = cpu_rope,
                                     .kv_append = cpu_kv_append,
                                     .attention = cpu_attention,
                                     .swiglu = cpu_swiglu,
                                     .add = cpu_add,
                                     .top2 = cpu_top2,
                                     .overflow_take = cpu_overflow_take,
                                     .waiting = host_waiting,
                                     .row_sums = host_row_sums,
                                     .peek = cpu_copy,
                                     .kernel_counts = cpu_kernel_counts,
                                     .attention_use = cpu_attention_use};

/* simd AUTO follows the machine; asking for AVX2 where there is none is refused. */
static enum status resolve_simd(enum simd simd, int *use_avx2, struct err *err) {
    *use_avx2 = simd != SIMD_SCALAR && tc_have_avx2();
    if (simd == SIMD_AVX2 && !*use_avx2)
        return err_set(err, STATUS_UNSUPPORTED, "backend cpu: this machine has no AVX2 with FMA and F16C");
    return STATUS_OK;
}

enum status backend_cpu_open(const struct backend_config *config, struct backend **out, struct err *err) {
    *out = NULL;
    int use_avx2 = 0;
    RETURN_IF_ERROR(geometry_check(&config->geometry, err));
    RETURN_IF_ERROR(resolve_simd(config->simd, &use_avx2, err));
    struct backend *b = malloc(sizeof *b);
    struct cpu *c = calloc(1, sizeof *c);
    if (b == NULL || c == NULL) {
        free(b);
        free(c);
        return err_set(err, STATUS_NOMEM, "backend cpu: out of memory");
    }
    *b = table;
    b->config = *config;
    b->config.simd = use_avx2 ? SIMD_AVX2 : SIMD_SCALAR;
    b->impl = c;
    c->twins.route = config->route;
    c->twins.arch = config->arch;
    c->twins.geometry = config->geometry;
    c->twins.use_avx2 = use_avx2;
    c->twins.use = &c->use;
    c->twins.overflow = &c->overflow;
    enum status s = par_open(config->n_threads, &c->twins.pool, err);
    if (s != STATUS_OK) {
        cpu_close(b);
        return s;
    }
    *out = b;
    return STATUS_OK;
}
