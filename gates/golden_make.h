/* golden_make.h - makes the streams that goldens are: the full battery on one route, and again in fresh processes.
 * Not a comparison (golden_refresh.h). Source: ours. Exercise: forkgate golden review */
#ifndef FORKGATE_GOLDEN_MAKE_H
#define FORKGATE_GOLDEN_MAKE_H

#include "engine/engine.h"
#include "gates/golden.h"

#define GOLDEN_STREAMS_MAX 16

struct golden_maker {
    const char *source_dir, *model_path, *self; /* self: this binary, for fresh processes */
    struct engine_config config;
    void (*progress)(void *sink, const char *prompt, int done, int total); /* may be NULL */
    void *sink;
};

/* What the goldens of those streams will be called, before one is made. */
enum status golden_make_names(const struct golden_maker *m, char names[GOLDEN_STREAMS_MAX][GOLDEN_NAME],
                              int *n, struct err *err);

/* Every prompt of the full battery, greedily, eight at a time. out[0..*n) are the caller's to close. */
enum status golden_make(const struct golden_maker *m, dump **out, int *n, struct err *err);

/* Each of them again, alone, in a fresh process of its own. */
enum status golden_make_again(const struct golden_maker *m, dump **out, int *n, struct err *err);

#endif
