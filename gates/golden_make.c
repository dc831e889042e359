/* golden_make.c - see golden_make.h. */
#include "gates/golden_make.h"

#include <string.h>

#include "gates/model/fresh.h"
#include "gates/model/streams.h"

_Static_assert(GOLDEN_STREAMS_MAX == STREAMS_MAX, "one limit");

enum status golden_make_names(const struct golden_maker *m, char names[GOLDEN_STREAMS_MAX][GOLDEN_NAME],
                              int *n, struct err *err) {
    static const struct hash128 any; /* of the model: no part of a name */
    struct streams s;
    *n = 0;
    RETURN_IF_ERROR(streams_load(m->source_dir, 1, &s, err));
    enum status status = STATUS_OK;
    for (int i = 0; i < s.n && status == STATUS_OK; i++) {
        struct golden_key key;
        status = golden_key_of(&m->config, &any, s.prompts[i].bytes, s.prompts[i].n, &key);
        if (status == STATUS_OK) status = golden_name(&key, s.prompts[i].name, names[i], err);
    }
    if (status == STATUS_OK) *n = s.n;
    streams_free(&s);
    return status;
}

enum status golden_make(const struct golden_maker *m, dump **out, int *n, struct err *err) {
    struct streams s;
    *n = 0;
    RETURN_IF_ERROR(streams_load(m->source_dir, 1, &s, err));
    if (m->progress != NULL) m->progress(m->sink, "all prompts", 0, s.n);
    enum status status = streams_run_config(m->model_path, &m->config, &s, out, err);
    if (status == STATUS_OK) *n = s.n;
    streams_free(&s);
    return status;
}

enum status golden_make_again(const struct golden_maker *m, dump **out, int *n, struct err *err) {
    struct streams s;
    struct gate_context ctx;
    *n = 0;
    RETURN_IF_ERROR(streams_load(m->source_dir, 1, &s, err));
    memset(&ctx, 0, sizeof ctx);
    ctx.source_dir = m->source_dir;
    ctx.model_path = m->model_path;
    ctx.self = m->self;
    enum status status = STATUS_OK;
    for (int i = 0; i < s.n && status == STATUS_OK; i++) {
        if (m->progress != NULL) m->progress(m->sink, s.prompts[i].name, i, s.n);
        status = fresh_stream(&ctx, &m->config, &s.prompts[i], &out[i], err);
        *n += status == STATUS_OK;
    }
    streams_free(&s);
    if (status == STATUS_OK) return status;
    streams_close(out, *n);
    *n = 0;
    return status;
}
