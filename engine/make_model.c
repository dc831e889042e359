/* make_model.c - writes a synthetic or a requantised model file (see make_model.h).
 * Not the plan of what is in it (make_plan.c) and not the quantisers (quantise.c).
 * Idea: buffers of SLAB elements are filled (by hash, or from the source), quantised and written, over and over; the
 * slabs of a synthetic tensor do not depend on each other, so threads share them.
 * Source: ours. Exercise: ctest -R unit.make_model */
#include "make_model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "make_plan.h"
#include "par.h"
#include "quantise.h"
#include "rng.h"

#define SLAB      (1u << 16) /* elements at a time; a multiple of every block */
#define SLABS     64         /* that threads fill before they are written */
#define SUM_SIGMA 147.8f     /* standard deviation of the sum of four uniform bytes */

struct job {
    const struct make_model_request *request;
    gguf_writer *w;
    float *values;  /* [SLABS, SLAB] */
    uint8_t *coded; /* [SLABS, SLAB * 4] */
    par *pool;
    uint64_t done, total;
    struct err *err;
};

/* values[i] = weight first + i of the tensor, first a multiple of 2: near normal, at most 3.45 deviations out. Four
 * bytes of one hash are summed for each; a hash serves two weights. */
static void fill_random(uint64_t stream, uint64_t first, float mean, float deviation, float *values,
                        size_t n) {
    uint64_t base = rng_mix(stream + 0x9e3779b97f4a7c15u);
    float unit = deviation / SUM_SIGMA;
    for (size_t i = 0; i < n; i += 2) {
        uint64_t bits = rng_mix(base + ((first + i) / 2 + 1) * 0x9e3779b97f4a7c15u);
        uint64_t pairs = (bits & 0x00ff00ff00ff00ffu) + (bits >> 8 & 0x00ff00ff00ff00ffu);
        uint64_t sums = (pairs & 0x0000ffff0000ffffu) + (pairs >> 16 & 0x0000ffff0000ffffu);
        values[i] = mean + (float)((int32_t)(sums & 0xffff) - 510) * unit;
        if (i + 1 < n) values[i + 1] = mean + (float)((int32_t)(sums >> 32) - 510) * unit;
    }
}

static enum status write_coded(struct job *j, uint64_t bytes) {
    RETURN_IF_ERROR(gguf_write_data(j->w, j->coded, bytes, j->err));
    j->done += bytes;
    if (j->request->progress != NULL) j->request->progress(j->request->progress_ctx, j->done, j->total);
    return STATUS_OK;
}

/* ---- synthetic --------------------------------------------------------------------------------------------- */

/* Up to SLABS slabs of one tensor, from element `first` on. */
struct batch {
    struct job *j;
    const struct make_shape *shape;
    const struct plan_tensor *t;
    uint64_t stream, first;
    size_t n;
    enum status status[SLABS];
    struct err err[SLABS];
};

static void fill_slabs(void *ctx, int64_t begin, int64_t end, int thread) {
    struct batch *b = ctx;
    const struct plan_tensor *t = b->t;
    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        size_t at = (size_t)i * SLAB, n = b->n - at < SLAB ? b->n - at : SLAB;
        float *values = b->j->values + at;
        if (t->rope_factors)
            for (size_t e = 0; e < n; e++)
                values[e] =
                    plan_rope_factor(b->shape->rope_base, (int)(b->first + at + e), b->shape->head_dim / 2);
        else
            fill_random(b->stream, b->first + at, t->mean, t->deviation, values, n);
        b->status[i] = quantise(t->dtype, values, b->j->coded + dtype_bytes(t->dtype, at), n, &b->err[i]);
    }
}

static enum status write_synthetic(struct job *j, const struct make_shape *s, const struct plan_tensor *t,
                                   uint64_t index) {
    uint64_t elements = t->dims[0] * t->dims[1], most = (uint64_t)SLABS * SLAB;
    struct batch b = {.j = j, .shape = s, .t = t, .stream = rng_u64(j->request->seed, index)};
    for (b.first = 0; b.first < elements; b.first += most) {
        b.n = (size_t)(elements - b.first < most ? elements - b.first : most);
        int64_t slabs = (int64_t)((b.n + SLAB - 1) / SLAB);
        par_for(j->pool, slabs, 1, fill_slabs, &b);
        for (int64_t i = 0; i < slabs; i++)
            if (b.status[i] != STATUS_OK)
                return err_set(j->err, b.status[i], "tensor '%s': %s", t->name, b.err[i].message);
        RETURN_IF_ERROR(write_coded(j, dtype_bytes(t->dtype, b.n)));
    }
    return STATUS_OK;
}

static enum status make_synthetic(struct job *j, const struct quant_choice *q) {
    const struct make_model_request *r = j->request;
    const char *name = r->shape == NULL ? "tiny" : r->shape;
    const struct make_shape *found = make_shape_find(name);
    if (found == NULL)
        return err_set(j->err, STATUS_USAGE, "shape '%s' is not one of %s", name, make_model_shapes());
    struct make_shape shape = *found;
    if (r->arch != NULL) {
        if (strcmp(r->arch, "llama") != 0 && strcmp(r->arch, "qwen2") != 0 && strcmp(r->arch, "qwen3") != 0)
            return err_set(j->err, STATUS_USAGE, "architecture '%s' is not one of llama, qwen2, qwen3",
                           r->arch);
        shape.arch = r->arch;
        /* The tiny models carry what the real ones of their kind may: factors, or heads wider than n_embd / n_head. */
        if (strcmp(name, "tiny") == 0 && strcmp(r->arch, "llama") == 0) shape.rope_factors = 1;
        if (strcmp(name, "tiny") == 0 && strcmp(r->arch, "qwen3") == 0) shape.head_dim = 96;
    }
    struct plan plan;
    RETURN_IF_ERROR(plan_make(&shape, q, &plan, j->err));
    enum status s = plan_put_keys(j->w, &shape, q, j->err);
    for (int i = 0; i < plan.n && s == STATUS_OK; i++) {
        const struct plan_tensor *t = &plan.tensors[i];
        struct gguf_string text = {t->name, strlen(t->name)};
        gguf_put_tensor(j->w, text, t->dtype, t->n_dims, t->dims);
        j->total += dtype_bytes(t->dtype, t->dims[0] * t->dims[1]);
    }
    for (int i = 0; i < plan.n && s == STATUS_OK; i++)
        s = write_synthetic(j, &shape, &plan.tensors[i], (uint64_t)i);
    free(plan.tensors);
    return s;
}

/* ---- from another file ------------------------------------------------------------------------------------- */

static int is_matrix(const struct gguf_tensor *t) {
    return t->n_dims >= 2 && t->dims[1] > 1;
}

/* "blk.12.attn_v.weight" -> 12 and "attn_v.weight"; other names -> -1 and themselves. */
static int split_name(const char *name, const char **rest) {
    int layer = -1, used = 0;
    *rest = name;
    if (sscanf(name, "blk.%d.%n", &layer, &used) != 1 || used == 0) return -1;
    *rest = name + used;
    return layer;
}

static enum dtype target_type(const gguf *g, const struct quant_choice *q, const struct gguf_tensor *t,
                              int n_layer) {
    if (!is_matrix(t)) return DTYPE_F32;
    char name[65];
    const char *rest = NULL;
    (void)snprintf(name, sizeof name, "%.*s", (int)t->name.length, t->name.data);
    int layer = split_name(name, &rest);
    int tied = gguf_tensor_find(g, "output.weight") == NULL;
    int lm_head = strcmp(name, tied ? "token_embd.weight" : "output.weight") == 0;
    return quant_type_for(q, rest, layer, n_layer, lm_head, t->dims[0]);
}

static enum status requantise_tensor(struct job *j, const struct gguf_tensor *t, enum dtype to) {
    const struct dtype_info *info = dtype_info((int)t->dtype);
    uint64_t elements = t->bytes / (uint64_t)info->bytes;
    for (uint64_t at = 0; at < elements; at += SLAB) {
        size_t n = elements - at < SLAB ? (size_t)(elements - at) : SLAB;
        dtype_dequantise(t->dtype, (const char *)t->data + at * (uint64_t)info->bytes, j->values, n);
        enum status s = quantise(to, j->values, j->coded, n, j->err);
        if (s == STATUS_OK) s = write_coded(j, dtype_bytes(to, n));
        if (s != STATUS_OK) return err_prefix(j->err, s, "tensor '%.*s'", (int)t->name.length, t->name.data);
    }
    return STATUS_OK;
}

static int is_replaced_key(struct gguf_string s) {
    static const char *const replaced[] = {"general.file_type", "general.quantization_version",
                                           "general.alignment"};
    for (size_t i = 0; i < sizeof replaced / sizeof replaced[0]; i++)
        if (s.length == strlen(replaced[i]) && memcmp(s.data, replaced[i], (size_t)s.length) == 0) return 1;
    return 0;
}

static enum status requantise(struct job *j, const gguf *g, const struct quant_choice *q, int n_layer) {
    for (uint64_t i = 0; i < gguf_key_count(g); i++)
        if (!is_replaced_key(gguf_key_name(g, i))) gguf_put_key(j->w, g, i);
    gguf_put_u32(j->w, "general.file_type", q->file_type);
    gguf_put_u32(j->w, "general.quantization_version", 2);
    uint64_t n = gguf_tensor_count(g);
    for (uint64_t i = 0; i < n; i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        const struct dtype_info *info = dtype_info((int)t->dtype);
        if (info->is_quantised)
            return err_set(j->err, STATUS_UNSUPPORTED, "tensor '%.*s' is %s already; a float model is needed",
                           (int)t->name.length, t->name.data, info->name);
        enum dtype to = target_type(g, q, t, n_layer);
        gguf_put_tensor(j->w, t->name, to, t->n_dims, t->dims);
        j->total += dtype_bytes(to, t->bytes / (uint64_t)info->bytes);
    }
    for (uint64_t i = 0; i < n; i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        RETURN_IF_ERROR(requantise_tensor(j, t, target_type(g, q, t, n_layer)));
    }
    return STATUS_OK;
}

static enum status make_requantised(struct job *j, const struct quant_choice *q) {
    gguf *g = NULL;
    RETURN_IF_ERROR(gguf_open(j->request->from, &g, j->err));
    struct model_config config;
    enum status s = model_read_config(g, &config, j->err);
    s = s != STATUS_OK ? err_prefix(j->err, s, "%s", j->request->from) : requantise(j, g, q, config.n_layer);
    gguf_close(g);
    return s;
}

/* ---- the whole --------------------------------------------------------------------------------------------- */

static enum status write_file(const struct make_model_request *r, const struct quant_choice *q, FILE *f,
                              struct err *err) {
    struct job j = {.request = r, .err = err};
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    j.values = malloc((size_t)SLABS * SLAB * sizeof *j.values);
    j.coded = malloc((size_t)SLABS * SLAB * sizeof(float));
    enum status s = par_open(cores < 1                 ? 1
                             : cores > PAR_THREADS_MAX ? PAR_THREADS_MAX
                                                       : (int)cores,
                             &j.pool, err);
    if (s == STATUS_OK && (j.values == NULL || j.coded == NULL))
        s = err_set(err, STATUS_NOMEM, "no memory for make-model");
    if (s == STATUS_OK) s = gguf_writer_open(f, &j.w, err);
    if (s == STATUS_OK) s = r->from != NULL ? make_requantised(&j, q) : make_synthetic(&j, q);
    if (s == STATUS_OK)
        s = gguf_writer_close(j.w, err);
    else
        gguf_writer_drop(j.w);
    par_close(j.pool);
    free(j.values);
    free(j.coded);
    return s;
}

enum status make_model(const struct make_model_request *r, struct err *err) {
    struct quant_choice q;
    RETURN_IF_ERROR(quant_choose(r->quant, &q, err));
    if (r->out == NULL || r->out[0] == '\0') return err_set(err, STATUS_USAGE, "no output file was named");
    if (r->from != NULL && (r->shape != NULL || r->arch != NULL))
        return err_set(err, STATUS_USAGE,
                       "a requantised model keeps its shape: neither shape nor arch can be set");
    struct stat st;
    if (stat(r->out, &st) == 0 && !S_ISREG(st.st_mode)) /* the rename below would replace a device */
        return err_set(err, STATUS_USAGE, "%s: exists and is not a regular file", r->out);
    size_t bytes = strlen(r->out) + sizeof ".part";
    char *part = malloc(bytes);
    if (part == NULL) return err_set(err, STATUS_NOMEM, "no memory for make-model");
    (void)snprintf(part, bytes, "%s.part", r->out);
    FILE *f = fopen(part, "wb");
    enum status s =
        f == NULL ? err_set(err, STATUS_IO, "%s: %s", r->out, strerror(errno)) : write_file(r, &q, f, err);
    if (f != NULL && fclose(f) != 0 && s == STATUS_OK)
        s = err_set(err, STATUS_IO, "%s: %s", r->out, strerror(errno));
    if (s == STATUS_OK && rename(part, r->out) != 0)
        s = err_set(err, STATUS_IO, "%s: %s", r->out, strerror(errno));
    if (s != STATUS_OK && f != NULL) (void)remove(part);
    free(part);
    return s;
}
