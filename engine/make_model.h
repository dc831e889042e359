/* make_model.h - makes model files: synthetic weights in a known shape, or a requantised copy of a float model.
 * Not a trainer and not a converter of other formats.
 * Idea: weight i of tensor t is a hash of (seed, t, i), so the same request gives the same bytes on every machine, and
 * the file is streamed: memory stays small whatever the shape.
 * Source: shapes as published with each model; the type mix is llama.cpp's. Exercise: ctest -R unit.make_model */
#ifndef FORKGATE_MAKE_MODEL_H
#define FORKGATE_MAKE_MODEL_H

#include <stdint.h>

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct make_model_request {
    const char *out;  /* written as "<out>.part", renamed when complete */
    const char *from; /* a GGUF whose matrices are F32, F16 or BF16, to requantise; NULL: synthetic weights */
    const char *shape; /* synthetic: one of make_model_shapes(); NULL: "tiny" */
    const char *arch;  /* synthetic: "llama", "qwen2" or "qwen3"; NULL: the shape's own */
    const char *quant; /* "q4_k_m" (mixed) or a storage type ("f32", "f16", "q8_0", "q6_k", ..) */
    uint64_t seed;
    void (*progress)(void *ctx, uint64_t done_bytes, uint64_t total_bytes); /* may be NULL */
    void *progress_ctx;
};

/* STATUS_USAGE for an unknown shape, architecture or quant (the choices are named) and for shape or arch beside from;
 * STATUS_UNSUPPORTED for a source that is quantised already; STATUS_INVALID for a weight the type cannot store. */
enum status make_model(const struct make_model_request *request, struct err *err);

/* "tiny, seedling-like, qwen2.5-0.5b, ..." for help texts. */
const char *make_model_shapes(void);

#ifdef __cplusplus
}
#endif
#endif
