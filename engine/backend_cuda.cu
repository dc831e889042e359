/* backend_cuda.cu - the CUDA table of ops: device, stream, memory, steps and the launch census.
 * Not an op: kernels and launchers are in engine/ops/<op>.cu, weights in engine/cuda/weights.cu, graphs in graph.c.
 * Idea: one device, one stream, calls in order; the model decides what runs, this file only owns things.
 * Source: ours. Exercise: device_parity */
#include "backend.h"

#include <stdlib.h>
#include <string.h>

#include "checksum.h"
#include "cuda/check.h"

/* ---- device -------------------------------------------------------------------------------------------------- */

enum status backend_cuda_device(struct device_info *out, struct err *err) {
    memset(out, 0, sizeof *out);
    int n = 0;
    cudaError_t e = CUDA_CALL(cudaGetDeviceCount(&n));
    if (e != cudaSuccess || n == 0) {
        (void)cudaGetLastError();
        return err_set(err, STATUS_UNSUPPORTED, "no CUDA device: %s",
                       e != cudaSuccess ? cudaGetErrorString(e) : "none is visible");
    }
    cudaDeviceProp p;
    CUDA_TRY(cudaGetDeviceProperties(&p, 0), err);
    memcpy(out->name, p.name, sizeof out->name - 1);
    out->cc_major = p.major;
    out->cc_minor = p.minor;
    out->n_sm = p.multiProcessorCount;
    out->memory_bytes = p.totalGlobalMem;
    CUDA_TRY(cudaDriverGetVersion(&out->driver), err);
    CUDA_TRY(cudaRuntimeGetVersion(&out->runtime), err);
    return STATUS_OK;
}

/* The accumulate model is a property of the chip: bits of another architecture's model cannot be made here. */
static enum status device_fits(const struct backend_config *config, const struct device_info *d,
                               struct err *err) {
    int have = d->cc_major == 9 && d->cc_minor == 0   ? ARCH_SM90
               : d->cc_major == 8 && d->cc_minor == 0 ? ARCH_SM80
                                                      : 0;
    if (have == 0)
        return err_set(
            err, STATUS_UNSUPPORTED,
            "backend cuda: %s is of compute capability %d.%d; the kernels and their accumulate models "
            "are for 8.0 and 9.0",
            d->name, d->cc_major, d->cc_minor);
    if (have != (int)config->arch)
        return err_set(err, STATUS_UNSUPPORTED, "backend cuda: --arch %s, but the device %s is %s",
                       arch_name(config->arch), d->name, arch_name((enum arch)have));
    if (config->route == ROUTE_F32)
        return err_set(err, STATUS_UNSUPPORTED, "backend cuda: route f32 runs on the CPU only");
    return geometry_check(&config->geometry, err);
}

/* ---- memory -------------------------------------------------------------------------------------------------- */

/* Host-visible work in mid-capture: run what is captured first (see cuda_graph_flush). */
static enum status memory_alloc(struct backend *self, size_t bytes, void **out, struct err *err) {
    struct cuda_context *c = cuda_context_of(self);
    RETURN_IF_ERROR(cuda_graph_flush(c, err));
    return cuda_reserve(c, bytes, out, err);
}

static void memory_free(struct backend *self, void *p) {
    cuda_settle_quietly(cuda_context_of(self));
    cuda_release(cuda_context_of(self), p);
}

static enum status stream_sync(struct backend *self, struct err *err) {
    struct cuda_context *c = cuda_context_of(self);
    RETURN_IF_ERROR(cuda_graph_flush(c, err));
    CUDA_TRY(cudaStreamSynchronize(c->stream), err);
    return STATUS_OK;
}

static enum status memory_copy_in(struct backend *self, void *dst, const void *host, size_t bytes,
                                  struct err *err) {
    struct cuda_context *c = cuda_context_of(self);
    RETURN_IF_ERROR(cuda_graph_flush(c, err));
    RETURN_IF_ERROR(cuda_copy(c, dst, host, bytes, cudaMemcpyHostToDevice, err));
    return stream_sync(self, err);
}

static enum status memory_copy_out(struct backend *self, void *host, const void *src, size_t bytes,
                                   struct err *err) {
    struct cuda_context *c = cuda_context_of(self);
    RETURN_IF_ERROR(cuda_graph_flush(c, err));
    RETURN_IF_ERROR(cuda_copy(c, host, src, bytes, cudaMemcpyDeviceToHost, err));
    return stream_sync(self, err);
}

static enum status memory_fill(struct backend *self, void *dst, int byte, size_t bytes, struct err *err) {
    struct cuda_context *c = cuda_context_of(self);
    RETURN_IF_ERROR(cuda_graph_flush(c, err));
    return cuda_fill(c, dst, byte, bytes, err);
}

static void weight_release(struct backend *self, struct weight *w) {
    cuda_settle_quietly(cuda_context_of(self));
    cuda_release(cuda_context_of(self), w->data);
    memset(w, 0, sizeof *w);
}

/* ---- steps --------------------------------------------------------------------------------------------------- */

static enum status step_caches(struct cuda_context *c, const struct step *s, struct err *err) {
    const struct kv_cache *first = s->kv[0];
    if (s->n_rows < 1 || s->n_rows > CHUNK_MAX || (s->n_seq != 1 && s->n_seq != s->n_rows) ||
        s->n_seq > BATCH_MAX)
        return err_set(err, STATUS_SHAPE, "step: %d rows of %d sequences", s->n_rows, s->n_seq);
    if (first->dtype == KV_F32)
        return err_set(err, STATUS_UNSUPPORTED, "step: f32 KV caches are for route f32");
    struct kv_view v = {first->dtype, first->n_ctx, first->n_kv_head, first->head_dim, s->n_seq > 1, {}, {}};
    for (int i = 0; i < s->n_seq; i++) {
        const struct kv_cache *kv = s->kv[i];
        if (kv->dtype != v.dtype || kv->n_ctx != v.n_ctx || kv->n_kv_head != v.n_kv_head ||
            kv->head_dim != v.head_dim)
            return err_set(err, STATUS_SHAPE, "step: the caches of sequences 0 and %d differ in shape", i);
        v.k[i] = kv->k;
        v.v[i] = kv->v;
    }
    c->kv = v;
    return STATUS_OK;
}

static enum status step_begin(struct backend *self, const struct step *s, int *replayed, struct err *err) {
    struct cuda_context *c = cuda_context_of(self);
    *replayed = 0;
    RETURN_IF_ERROR(cuda_graph_abandon(c, err));
    RETURN_IF_ERROR(step_caches(c, s, err));
    size_t bytes = (size_t)s->n_rows * sizeof(int32_t);
    CUDA_TRY(cudaEventSynchronize(c->staged), err);
    memcpy(c->host_step, s->id, bytes);
    memcpy(c->host_step + CHUNK_MAX, s->pos, bytes);
    RETURN_IF_ERROR(cuda_copy(c, c->id, c->host_step, bytes, cudaMemcpyHostToDevice, err));
    RETURN_IF_ERROR(cuda_copy(c, c->pos, c->host_step + CHUNK_MAX, bytes, cudaMemcpyHostToDevice, err));
    CUDA_TRY(cudaEventRecord(c->staged, c->stream), err);
    return cuda_graph_begin(c, s, replayed, err);
}

static enum status step_end(struct backend *self, const struct step *s, struct err *err) {
    (void)s;
    return cuda_graph_end(cuda_context_of(self), err);
}

static enum status step_forget(struct backend *self, struct err *err) {
    return cuda_graph_forget(cuda_context_of(self), err);
}

static size_t attention_room(struct backend *self, int n_head, int head_dim, int n_ctx, void *base) {
    struct cuda_context *c = cuda_context_of(self);
    size_t parts = (size_t)BATCH_MAX * (size_t)n_head * ceil_div(n_ctx, c->base.config.geometry.fa_chunk);
    size_t n_ml = parts * 2, n_part = parts * (size_t)head_dim;
    if (base != NULL) c->room = {(float *)base, (float *)base + n_ml, n_ml, n_part};
    return (n_ml + n_part) * sizeof(float);
}

/* ---- census -------------------------------------------------------------------------------------------------- */

static enum status overflow_take(struct backend *self, uint64_t *count, struct err *err) {
    struct cuda_context *c = cuda_context_of(self);
    unsigned long long n = 0;
    RETURN_IF_ERROR(memory_copy_out(self, &n, c->overflow, sizeof n, err));
    *count = n;
    return n == 0 ? STATUS_OK : memory_fill(self, c->overflow, 0, sizeof n, err);
}

/* Small results go through page-locked staging: a copy to pageable memory would wait for each of them. */
static enum status memory_fetch(struct backend *self, const struct fetch *f, int n, uint64_t *overflows,
                                struct err *err) {
    struct cuda_context *c = cuda_context_of(self);
    RETURN_IF_ERROR(cuda_graph_flush(c, err));
    if (n > FETCHES_MAX) return err_set(err, STATUS_LIMIT, "fetch: %d copies at once", n);
    for (int i = 0; i < n; i++) {
        void *to = f[i].bytes <= FETCH_SMALL ? c->host_fetch + (i + 1) * FETCH_SMALL : f[i].host;
        RETURN_IF_ERROR(cuda_copy(c, to, f[i].src, f[i].bytes, cudaMemcpyDeviceToHost, err));
    }
    RETURN_IF_ERROR(
        cuda_copy(c, c->host_fetch, c->overflow, sizeof *c->overflow, cudaMemcpyDeviceToHost, err));
    CUDA_TRY(cudaStreamSynchronize(c->stream), err);
    for (int i = 0; i < n; i++)
        if (f[i].bytes <= FETCH_SMALL) memcpy(f[i].host, c->host_fetch + (i + 1) * FETCH_SMALL, f[i].bytes);
    unsigned long long count;
    memcpy(&count, c->host_fetch, sizeof count);
    *overflows = count;
    return count == 0 ? STATUS_OK : memory_fill(self, c->overflow, 0, sizeof count, err);
}

static enum status host_alloc(struct backend *self, size_t bytes, void **out, struct err *err) {
    return cuda_reserve_host(cuda_context_of(self), bytes, out, err);
}

static void host_free(struct backend *self, void *p) {
    cuda_release_host(cuda_context_of(self), p);
}

/* ---- life ---------------------------------------------------------------------------------------------------- */

static void close_cuda(struct backend *self) {
    if (self == NULL) return;
    struct cuda_context *c = cuda_context_of(self);
    struct err ignored; /* closing after a lost device must not fail again */
    if (c->stream != NULL) (void)cuda_graph_forget(c, &ignored);
    cuda_release_all(c);
    cuda_release_host(c, c->host_step);
    cuda_release_host(c, c->host_fetch);
    if (c->staged != NULL) (void)cudaEventDestroy(c->staged);
    if (c->stream != NULL) (void)cudaStreamDestroy(c->stream);
    free(c);
}

static enum status open_device(struct cuda_context *c, struct err *err) {
    int optin = 0;
    CUDA_TRY(cudaSetDevice(0), err);
    CUDA_TRY(cudaDeviceGetAttribute(&optin, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0), err);
    c->smem_optin = (size_t)optin;
    RETURN_IF_ERROR(cuda_hopper_loaded(&c->hopper, err));
    CUDA_TRY(cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking), err);
    CUDA_TRY(cudaEventCreateWithFlags(&c->staged, cudaEventDisableTiming), err);
    RETURN_IF_ERROR(cuda_reserve_host(c, 2 * CHUNK_MAX * sizeof(int32_t), (void **)&c->host_step, err));
    RETURN_IF_ERROR(cuda_reserve_host(c, (FETCHES_MAX + 1) * FETCH_SMALL, (void **)&c->host_fetch, err));
    RETURN_IF_ERROR(cuda_reserve(c, CHUNK_MAX * sizeof(int32_t), (void **)&c->id, err));
    RETURN_IF_ERROR(cuda_reserve(c, CHUNK_MAX * sizeof(int32_t), (void **)&c->pos, err));
    RETURN_IF_ERROR(cuda_reserve(c, sizeof *c->overflow, (void **)&c->overflow, err));
    RETURN_IF_ERROR(cuda_reserve(c, sizeof *c->upload_overflow, (void **)&c->upload_overflow, err));
    RETURN_IF_ERROR(
        cuda_reserve(c, TOP2_ROWS * TOP2_PARTS * sizeof(struct top2), (void **)&c->top2_parts, err));
    RETURN_IF_ERROR(cuda_reserve(c, CHECKSUM_ROWS * sizeof(struct row_sum), (void **)&c->row_sums, err));
    return cuda_fill(c, c->overflow, 0, sizeof *c->overflow, err);
}

static void fill_table(struct backend *b) {
    b->close = close_cuda;
    b->alloc = memory_alloc;
    b->free = memory_free;
    b->copy_in = memory_copy_in;
    b->copy_out = memory_copy_out;
    b->fetch = memory_fetch;
    b->host_alloc = host_alloc;
    b->host_free = host_free;
    b->fill = memory_fill;
    b->sync = stream_sync;
    b->weight_upload = cuda_weight_upload;
    b->weight_free = weight_release;
    b->step_begin = step_begin;
    b->step_end = step_end;
    b->step_forget = step_forget;
    b->attention_room = attention_room;
    b->embed = embed_cuda;
    b->rmsnorm = rmsnorm_cuda;
    b->act_prepare = act_prepare_cuda;
    b->matmul = matmul_cuda;
    b->rope = rope_cuda;
    b->kv_append = kv_append_cuda;
    b->attention = attention_cuda;
    b->swiglu = swiglu_cuda;
    b->add = add_cuda;
    b->top2 = top2_cuda;
    b->overflow_take = overflow_take;
    b->kernel_counts = kernel_counts_cuda;
    b->attention_use = cuda_attention_use;
    b->waiting = waiting_cuda;
    b->row_sums = row_sums_cuda;
    b->peek = peek_cuda;
    cuda_measure_table(b);
}

enum status backend_cuda_open(const struct backend_config *config, struct backend **out, struct err *err) {
    *out = NULL;
    struct device_info d;
    RETURN_IF_ERROR(backend_cuda_device(&d, err));
    RETURN_IF_ERROR(device_fits(config, &d, err));
    struct cuda_context *c = (struct cuda_context *)calloc(1, sizeof *c);
    if (c == NULL) return err_set(err, STATUS_NOMEM, "backend cuda: out of memory");
    c->base.name = "cuda";
    c->base.config = *config;
    c->base.impl = c;
    c->n_sm = d.n_sm;
    fill_table(&c->base);
    enum status s = open_device(c, err);
    if (s != STATUS_OK) {
        close_cuda(&c->base);
        return s;
    }
    *out = &c->base;
    return STATUS_OK;
}
