/* generate_provenance.c - what is known about an engine before any stream: build, machine, options, model. */
#include <stdlib.h>
#include <string.h>

#include "build_info.h"
#include "gates/file_hash.h"
#include "gates/generate.h"

#define TOOL_NAME "forkgate 0.1.0"

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

/* Hashing a model costs up to a second and every stream of a run wants it: kept for the engine asked about last. */
static struct hash128 model_hash(const engine *e, uint64_t serial) {
    static uint64_t hashed_serial;
    static struct hash128 hash;
    if (serial != hashed_serial) {
        uint64_t bytes = 0;
        const void *data = engine_model_data(e, &bytes);
        hash = hash_bytes(data, (size_t)bytes);
        hashed_serial = serial;
    }
    return hash;
}

/* Planted faults are named by the binary that has them; everything it makes says so. */
static const char *named_faults;

void generate_note_faults(const char *names) {
    named_faults = names;
}

const char *generate_faults(void) {
    return named_faults;
}

static enum status describe_device(const struct engine_info *info, struct provenance *p, struct err *err) {
    if (info->config.backend != BACKEND_CUDA) return provenance_set(p, "device", "cpu", err);
    RETURN_IF_ERROR(provenance_set(p, "device", info->device.name, err));
    RETURN_IF_ERROR(provenance_setf(p, err, "cc", "%d.%d", info->device.cc_major, info->device.cc_minor));
    RETURN_IF_ERROR(provenance_setf(p, err, "driver", "%d", info->device.driver));
    return provenance_setf(p, err, "runtime", "%d", info->device.runtime);
}

static enum status describe_options(const struct engine_config *c, struct provenance *p, struct err *err) {
    static const char *const simd[] = {"auto", "scalar", "avx2"};
    char geometry[96];
    geometry_format(&c->compute.geometry, geometry, sizeof geometry);
    RETURN_IF_ERROR(provenance_set(p, "backend", c->backend == BACKEND_CUDA ? "cuda" : "cpu", err));
    RETURN_IF_ERROR(provenance_set(p, "route", route_name(c->compute.route), err));
    RETURN_IF_ERROR(provenance_set(p, "arch", arch_name(c->compute.arch), err));
    RETURN_IF_ERROR(provenance_set(p, "geometry", geometry, err));
    RETURN_IF_ERROR(provenance_set(p, "kv", kv_dtype_name(c->kv), err));
    RETURN_IF_ERROR(provenance_set(p, "logits", "f32", err));
    RETURN_IF_ERROR(provenance_setf(p, err, "chunk", "%d", c->chunk));
    RETURN_IF_ERROR(
        provenance_setf(p, err, "graphs", "%d", c->backend == BACKEND_CUDA ? c->compute.graphs : 0));
    RETURN_IF_ERROR(provenance_setf(p, err, "threads", "%d", c->compute.n_threads));
    return provenance_set(p, "simd", simd[c->compute.simd], err);
}

static enum status describe_model(const engine *e, const struct engine_info *info, struct provenance *p,
                                  struct err *err) {
    struct hash128 h = model_hash(e, info->serial);
    char text[HASH_TEXT_BYTES];
    hash_format(&h, text);
    RETURN_IF_ERROR(provenance_set(p, "model", info->model_name, err));
    RETURN_IF_ERROR(provenance_setf(p, err, "model.bytes", "%llu", (unsigned long long)info->model_bytes));
    RETURN_IF_ERROR(provenance_set(p, "model.xxh3", text, err));
    return provenance_setf(p, err, "n_vocab", "%d", info->n_vocab);
}

/* A commit does not name what was built of a changed tree, nor of one without git: the program's own bytes do. */
static enum status describe_program(struct provenance *p, struct err *err) {
    static char hash[HASH_TEXT_BYTES];
    struct hash128 h;
    if (strcmp(FORKGATE_DIRTY, "0") == 0 && strcmp(FORKGATE_COMMIT, "unknown") != 0) return STATUS_OK;
    if (hash[0] == '\0') {
        RETURN_IF_ERROR(file_hash("/proc/self/exe", &h, err));
        hash_format(&h, hash);
    }
    return provenance_set(p, "build", hash, err);
}

static enum status describe_build(const struct engine_config *c, struct provenance *p, struct err *err) {
    RETURN_IF_ERROR(provenance_set(p, "tool", TOOL_NAME, err));
    RETURN_IF_ERROR(provenance_set(p, "commit", FORKGATE_COMMIT, err));
    RETURN_IF_ERROR(provenance_set(p, "dirty", FORKGATE_DIRTY, err));
    RETURN_IF_ERROR(describe_program(p, err));
    if (named_faults != NULL) RETURN_IF_ERROR(provenance_set(p, "faults", named_faults, err));
    return describe_options(c, p, err);
}

static enum status describe_compiler(struct provenance *p, struct err *err) {
    RETURN_IF_ERROR(provenance_set(p, "compiler", COMPILER, err));
    return provenance_set(p, "flags", FORKGATE_BUILD_FLAGS, err);
}

enum status generate_build_provenance(const struct engine_config *c, struct provenance *p, struct err *err) {
    RETURN_IF_ERROR(describe_build(c, p, err));
    return describe_compiler(p, err);
}

enum status generate_provenance(engine *e, struct provenance *p, struct err *err) {
    struct engine_info info;
    engine_describe(e, &info);
    RETURN_IF_ERROR(describe_build(&info.config, p, err));
    RETURN_IF_ERROR(describe_device(&info, p, err));
    RETURN_IF_ERROR(describe_compiler(p, err));
    return describe_model(e, &info, p, err);
}
