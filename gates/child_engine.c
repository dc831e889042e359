/* child_engine.c - see child_engine.h. */
#include "gates/child_engine.h"

void child_add_engine(struct child_args *a, const struct engine_config *config) {
    static const char *const simd[] = {"auto", "scalar", "avx2"};
    char geometry[96];
    geometry_format(&config->compute.geometry, geometry, sizeof geometry);
    child_add_pair(a, "--backend", config->backend == BACKEND_CUDA ? "cuda" : "cpu");
    child_add_pair(a, "--route", route_name(config->compute.route));
    child_add_pair(a, "--arch", arch_name(config->compute.arch));
    child_add_pair(a, "--geometry", geometry);
    child_add_pair(a, "--kv", kv_dtype_name(config->kv));
    child_add_pair(a, "--simd", simd[config->compute.simd]);
    child_add_number(a, "--chunk", config->chunk);
    child_add_number(a, "--threads", config->compute.n_threads);
    if (!config->compute.graphs) child_add(a, "--no-graph");
}
