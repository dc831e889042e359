/* engine.h - the public boundary: open a model, create sessions, prefill, decode, read logits, rewind.
 * Who owns what: an engine owns its weights, its backend and its tokenizer, and must outlive its sessions; a session owns
 * its KV cache and its last logits. Pointers handed out are borrowed and live until the next call on the same object.
 * An engine and its sessions belong to one thread at a time.
 * Idea: the narrowest surface that gates and tools need; nothing else of engine/ is included by tools.
 * Source: ours. Exercise: ctest -R unit.session */
#ifndef FORKGATE_ENGINE_H
#define FORKGATE_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#include "backend.h"
#include "trace.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct engine engine;
typedef struct session session;

enum backend_kind { BACKEND_CPU = 0, BACKEND_CUDA = 1 };

struct engine_config {
    enum backend_kind backend;
    struct backend_config compute; /* route, arch, geometry, threads, simd, graphs */
    enum kv_dtype kv;              /* f32 only on route f32 */
    int chunk;                     /* prompt rows per prefill step, 1 .. CHUNK_MAX; never carries bits */
    int n_ctx;                     /* positions per session; 0: the model's own */
};

/* route f16, sm_90, default geometry, all online cores (at most 64), f16 KV, CHUNK_DEFAULT, graphs on. */
struct engine_config engine_config_default(void);

/* What provenance, inspect and reports want to know about an open engine. */
struct engine_info {
    uint64_t serial; /* unique per engine_open in this process: a key for what callers derive once */
    char model_name[64];
    char architecture[16]; /* "qwen2" */
    char tokenizer[16];    /* vocab_pre_name */
    uint64_t model_bytes;  /* file size */
    int n_layer, n_embd, n_head, n_kv_head, head_dim, n_ff, n_vocab, n_ctx;
    int tied;
    struct engine_config config; /* as resolved */
    struct device_info device;   /* zeroed on the CPU backend */
};

/* Maps the model, checks it whole, uploads its weights and makes its tables and workspace. *out is NULL unless STATUS_OK.
 * n_ctx above the model's own is lowered to it. Errors: STATUS_USAGE for options out of their range or that do not go
 * together (named as on the command line; n_threads 1 .. 64); STATUS_IO, STATUS_FORMAT, STATUS_UNSUPPORTED,
 * STATUS_SHAPE, STATUS_INVALID or STATUS_LIMIT for the file, which the message names; STATUS_DEVICE, STATUS_NOMEM. */
enum status engine_open(const char *model_path, const struct engine_config *config, engine **out,
                        struct err *err);
/* Sessions first. NULL is allowed, here and in session_close. */
void engine_close(engine *e);
/* Fills all of *out; its texts end with NUL. Cannot fail. */
void engine_describe(const engine *e, struct engine_info *out);
/* The mapped model file, for hashing. */
const void *engine_model_data(const engine *e, uint64_t *bytes);

/* ---- text ---- */
/* Ids of text[0..length), any bytes; BOS first when the model file asks for it. parse_special: special tokens written out
 * in the text become their ids. The caller frees *ids, which may be NULL when *n is 0. Errors: STATUS_INVALID (a byte that
 * the vocabulary has no token for, and where), STATUS_LIMIT (beyond 512 MiB), STATUS_NOMEM. */
enum status engine_encode(const engine *e, const char *text, size_t length, int parse_special, int32_t **ids,
                          size_t *n, struct err *err);
/* The bytes of one id, borrowed until engine_close. id: 0 .. n_vocab - 1; any other ends the process (an assertion), so
 * ids that come from outside are checked first. */
void engine_token_bytes(const engine *e, int32_t id, const uint8_t **bytes, size_t *length);
/* 1: EOS, EOT or another end of generation; 0: any other id, also one outside the vocabulary. */
int engine_is_end(const engine *e, int32_t id);

/* ---- sessions ---- */
/* An empty session with a KV cache of the engine's n_ctx positions. *out is NULL unless STATUS_OK. Errors: STATUS_NOMEM or
 * STATUS_DEVICE when the cache (its size is in the message) is refused, STATUS_UNSUPPORTED for --kv q8_0 with a
 * head_dim that is no multiple of 32. */
enum status session_create(engine *e, session **out, struct err *err);
void session_close(session *s);
int session_pos(const session *s);  /* positions filled so far */
int session_room(const session *s); /* positions left */

/* Appends n >= 1 tokens (chunked by config.chunk) and leaves the logits of the last one. Before any work: STATUS_USAGE for
 * n == 0, STATUS_LIMIT when they do not fit, STATUS_INVALID for an id outside the vocabulary. A step that fails later
 * (STATUS_DEVICE, STATUS_NOMEM) leaves the chunks before it in the cache, session_pos behind them, and no logits: go on
 * from session_pos, or rewind. */
enum status session_prefill(session *s, const int32_t *ids, size_t n, struct err *err);

/* Called with the logits of every row in order; returning anything but STATUS_OK stops the run. */
typedef enum status score_fn(void *ctx, int pos, const float *logits, const struct top2 *top,
                             struct err *err);
/* Teacher forcing as one (chunked) prefill: appends n tokens and reports the logits after each of them. Errors as in
 * session_prefill, and what fn returned: session_pos is then behind the last chunk that was computed, which holds the row. */
enum status session_score(session *s, const int32_t *ids, size_t n, score_fn *fn, void *ctx, struct err *err);

/* One token for each of n <= BATCH_MAX distinct sessions of one engine; each gets the bits it would get alone. Errors:
 * STATUS_USAGE (n, a session twice or of another engine), STATUS_LIMIT (a context is full), STATUS_INVALID (an id),
 * STATUS_DEVICE, STATUS_NOMEM; no session_pos has moved then, but logits may be gone. */
enum status engine_decode_batch(engine *e, session *const *sessions, const int32_t *ids, int n,
                                struct err *err);
enum status session_decode(session *s, int32_t id, struct err *err);

/* Drops positions >= pos, leaving the cache as if they had never been computed; logits are gone until the next step.
 * STATUS_USAGE unless pos is 0 .. session_pos. */
enum status session_rewind(session *s, int pos, struct err *err);

const float *session_logits(const session *s);     /* [n_vocab] host memory; NULL before the first step */
const struct top2 *session_top2(const session *s); /* raw, before any penalty */
/* f16 overflows and unquantisable blocks met by this session's steps so far; non-zero makes a stream INVALID. */
uint64_t session_overflows(const session *s);

/* ---- observing ---- */
/* NULL fn: off. STATUS_NOMEM when the staging buffer for event data is refused: it is taken here, once, at the first
 * trace; untraced engines have none, and a step takes no backend memory either way. */
enum status engine_set_trace(engine *e, trace_fn *fn, void *ctx, struct err *err);
/* The same without copies, for watchers that look where the tensors are (trace.h). NULL fn: off. */
void engine_set_tap(engine *e, tap_fn *fn, void *ctx);
int engine_kernel_counts(engine *e, struct kernel_count out[BACKEND_KERNELS_MAX]);

/* ---- access for gates that test below the session (fill the KV tail with noise, read cache rows) ---- */
struct kv_cache *session_kv(session *s);
struct backend *engine_backend(engine *e);

#ifdef __cplusplus
}
#endif
#endif
