/* child_engine.h - an engine configuration as the options of a forkgate command line. Source: ours. */
#ifndef FORKGATE_CHILD_ENGINE_H
#define FORKGATE_CHILD_ENGINE_H

#include "engine/engine.h"
#include "gates/child_process.h"

/* Everything that -m does not say: backend, route, arch, geometry, KV type, SIMD, chunk, threads, graphs. */
void child_add_engine(struct child_args *a, const struct engine_config *config);

#endif
