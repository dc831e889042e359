/* coverage.c - see coverage.h. */
#include "gates/coverage.h"

#include <stdlib.h>
#include <string.h>


void coverage_start(struct coverage *c, const struct kernel_count *kernels, int n) {
    memset(c, 0, sizeof *c);
    for (int i = 0; i < n && i < BACKEND_KERNELS_MAX; i++)
        (void)snprintf(c->kernels[c->n_kernels++], sizeof c->kernels[0], "%s", kernels[i].name);
}

static void mark(struct coverage *c, int gate, const char *word, size_t n) {
    for (int k = 0; k < c->n_kernels; k++)
        if (strlen(c->kernels[k]) == n && memcmp(c->kernels[k], word, n) == 0) c->ran[k][gate] = 1;
}

void coverage_add(struct coverage *c, const struct gate_result *g) {
    if (c->n_gates == COVERAGE_GATES) return;
    c->gates[c->n_gates] = g->gate;
    c->skipped[c->n_gates] = g->verdict == VERDICT_SKIP;
    for (size_t i = 0; i < g->n_rows; i++) {
        for (const char *p = g->rows[i].kernels; *p != '\0';) {
            size_t n = strcspn(p, " ");
            mark(c, c->n_gates, p, n);
            p += n + (p[n] == ' ');
        }
    }
    c->n_gates++;
}

int coverage_gates_of(const struct coverage *c, int kernel) {
    int n = 0;
    for (int g = 0; g < c->n_gates; g++) n += c->ran[kernel][g];
    return n;
}

int coverage_missing(const struct coverage *c) {
    int n = 0;
    for (int k = 0; k < c->n_kernels; k++) n += coverage_gates_of(c, k) == 0;
    return n;
}

/* ---- of a run -------------------------------------------------------------------------------------------------- */
enum status coverage_of_run(const struct run_result *r, const struct engine_config *config,
                            struct coverage *out, struct err *err) {
    struct backend *b = NULL;
    struct kernel_count kernels[BACKEND_KERNELS_MAX];
    RETURN_IF_ERROR(config->backend == BACKEND_CUDA ? backend_cuda_open(&config->compute, &b, err)
                                                    : backend_cpu_open(&config->compute, &b, err));
    coverage_start(out, kernels, b->kernel_counts(b, kernels));
    b->close(b);
    for (size_t i = 0; i < r->n; i++) coverage_add(out, &r->gates[i]);
    return STATUS_OK;
}

/* Behind a red tier every gate is a SKIP; a gate of its own that was skipped (no such model, not its backend) only leaves
 * less evidence. */
static int tier_was_reached(const struct run_result *r, enum tier t) {
    for (size_t i = 0; i < r->n; i++)
        if (r->gates[i].gate->tier == t && r->gates[i].verdict != VERDICT_SKIP) return 1;
    return 0;
}

int coverage_is_complete(const struct runner_options *o, const struct run_result *r) {
    return o->context.only == NULL && o->tiers[TIER_PARITY] && o->tiers[TIER_IDENTITY] &&
           tier_was_reached(r, TIER_PARITY) && tier_was_reached(r, TIER_IDENTITY);
}

static const struct gate gate_coverage = {
    .id = "coverage.kernels",
    .tier = TIER_PARITY,
    .claim = "every kernel of the selected backend ran in some gate",
};

static void name_missing(const struct coverage *c, char *out, size_t room) {
    size_t used = (size_t)snprintf(out, room, "never ran:");
    for (int k = 0; k < c->n_kernels && used < room; k++)
        if (coverage_gates_of(c, k) == 0)
            used += (size_t)snprintf(out + used, room - used, " %s", c->kernels[k]);
    int named = 0;
    for (int g = 0; g < c->n_gates && used < room; g++)
        if (c->skipped[g])
            used += (size_t)snprintf(out + used, room - used, "%s %s", named++ == 0 ? "; skipped gates:" : "",
                                     c->gates[g]->id);
}

enum status coverage_judge(const struct coverage *c, const struct engine_config *config, struct run_result *r,
                           struct err *err) {
    int missing = coverage_missing(c);
    const char *backend = config->backend == BACKEND_CUDA ? "cuda" : "cpu";
    struct evidence row;
    memset(&row, 0, sizeof row);
    row.tier = gate_coverage.tier;
    (void)snprintf(row.gate, sizeof row.gate, "%s", gate_coverage.id);
    (void)snprintf(row.test_case, sizeof row.test_case, "%d kernels", c->n_kernels);
    (void)snprintf(row.arm, sizeof row.arm, "launched");
    (void)snprintf(row.metric, sizeof row.metric, "missing");
    (void)snprintf(row.grade, sizeof row.grade, "measured");
    (void)snprintf(row.repro, sizeof row.repro, "forkgate run --backend %s", backend);
    if (missing > 0) name_missing(c, row.note, sizeof row.note);
    row.value = missing;
    row.verdict = missing == 0 && c->n_kernels > 0 ? VERDICT_PASS : VERDICT_FAIL;
    return runner_append(r, &gate_coverage, backend, &row, err);
}

/* ---- showing --------------------------------------------------------------------------------------------------- */
void coverage_print(FILE *out, const struct coverage *c, int verbose) {
    fprintf(out, "coverage: %d of %d kernels ran\n", c->n_kernels - coverage_missing(c), c->n_kernels);
    for (int k = 0; k < c->n_kernels; k++) {
        if (coverage_gates_of(c, k) == 0) fprintf(out, "  %-24s NOT RUN by any gate\n", c->kernels[k]);
        if (coverage_gates_of(c, k) == 0 || !verbose) continue;
        fprintf(out, "  %-24s", c->kernels[k]);
        for (int g = 0; g < c->n_gates; g++)
            if (c->ran[k][g]) fprintf(out, " %s", c->gates[g]->id);
        fprintf(out, "\n");
    }
}
