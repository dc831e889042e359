/* explain_side.h - one of the two computations that `explain` compares: an engine of this process, or another binary.
 * Not a comparison.
 * Idea: both kinds answer a plan with a tape, so everything above them is written once.
 * Source: ours. Exercise: ctest -R unit.explain ; ctest -R cli.explain */
#ifndef FORKGATE_EXPLAIN_SIDE_H
#define FORKGATE_EXPLAIN_SIDE_H

#include "gates/explain_tape.h"
#include "gates/provenance.h"

struct explain_side {
    const char *model; /* path */
    struct engine_config config;
    const char *binary;     /* NULL: this process; otherwise a forkgate that has the `trace` command */
    const char *const *env; /* for the binary: "NAME=VALUE", NULL-terminated; may be NULL */
    double timeout_s;       /* of one run of the binary; 0: none */
    engine *engine;         /* private: opened by the first run, closed by explain_side_close */
};

enum status explain_side_run(struct explain_side *s, const struct tape_plan *plan, struct tape *out,
                             struct err *err);
void explain_side_close(struct explain_side *s);

/* The engine options that a dump's provenance names (backend, route, arch, geometry, kv, chunk, graphs, threads, simd) put
 * over *config; keys that are absent leave it as it is. STATUS_FORMAT names a value this build does not know. */
enum status explain_config_from(const struct provenance *p, struct engine_config *config, struct err *err);

#endif
