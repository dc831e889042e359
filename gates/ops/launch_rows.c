/* launch_rows.c - see launch_rows.h. A slow path and a quiet fallback give the same bits: only these rows see them. */
#include "gates/ops/launch_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/occupancy.h"
#include "gates/ops/launch_table.h"

static void expect_product(const struct op_bench *b, const struct op_io *io, char out[48]) {
    launch_table_product(io->route, io->c->dtype, case_dim(io->c, "rows", 1),
                         launch_table_has_wgmma(&b->ctx->config), out);
}

static void expect_attention(const struct op_bench *b, const struct op_io *io, char out[48]) {
    enum kv_dtype kv = strcmp(io->c->dtype, "f16") == 0 ? KV_F16 : KV_Q8_0;
    int prefill = case_dim(io->c, "rows", 1) > 1 && case_dim(io->c, "n_seq", 1) <= 1;
    launch_table_attention(kv, prefill, (int)case_dim(io->c, "head_dim", 64),
                           launch_table_has_wgmma(&b->ctx->config), out);
}

static int has_word(const char *list, const char *word) {
    size_t n = strlen(word);
    for (const char *p = list; *p != '\0';) {
        size_t k = strcspn(p, " ");
        if (k == n && memcmp(p, word, n) == 0) return 1;
        p += k + (p[k] == ' ');
    }
    return 0;
}

/* Is `i` an instance of this kernel at this geometry, with so many threads? Caches of both kinds share those of f16. */
static int is_instance(const struct block_needs *i, const struct kernel_launch *l, int fa_tkv) {
    char name[48], tkv[32];
    const char *q8 = strstr(l->kernel, "_q8kv");
    (void)snprintf(name, sizeof name, "%.*s%s", q8 != NULL ? (int)(q8 - l->kernel) : 40, l->kernel,
                   q8 != NULL ? "_f16kv" : "");
    (void)snprintf(tkv, sizeof tkv, "fa_tkv=%d ", fa_tkv);
    if (strcmp(i->kernel, name) != 0 || i->threads != l->threads) return 0;
    return strncmp(name, "fa_", 3) != 0 || strstr(i->geometry, tkv) != NULL;
}

/* 1: the launch asked for what no instance asks for, or fewer blocks fit than should. 0 too where the table has none. */
static int is_wrong(const struct kernel_launch *l, int fa_tkv, int is_sm90, int *known, int *derived) {
    const struct sm_limits sm = occupancy_sm90();
    struct block_needs needs;
    int fits = 0, any = 0;
    *derived = 0;
    for (int k = 0; occupancy_instance(k, &needs); k++) {
        if (!is_instance(&needs, l, fa_tkv)) continue;
        any = 1;
        if (needs.dynamic != l->dynamic) continue;
        fits = 1;
        needs.registers = l->registers; /* as loaded: the recorded ones are another build's */
        needs.shared = l->shared;
        *derived = occupancy_derive(&sm, &needs).resident;
    }
    *known |= any;
    return any && (!fits || (is_sm90 && strncmp(l->kernel, "fa_", 3) == 0 && l->queried < *derived));
}

/* All launches so far of the kernel that serves the case. */
static enum status occupancy_row(struct op_bench *b, const struct op_io *io, const char *kernel,
                                 struct err *err) {
    struct kernel_launch *l = calloc(BACKEND_LAUNCHES_MAX, sizeof *l);
    int n = 0, wrong = 0, known = 0, derived, is_sm90 = b->ctx->config.compute.arch == ARCH_SM90;
    char note[160] = "";
    if (l == NULL) return err_set(err, STATUS_NOMEM, "launch rows: out of memory");
    enum status s = b->subject->launches(b->subject, l, &n, err);
    for (int i = 0; i < n && s == STATUS_OK; i++) {
        if (strcmp(l[i].kernel, kernel) != 0) continue;
        if (!is_wrong(&l[i], io->geometry.fa_tkv, is_sm90, &known, &derived)) continue;
        wrong++;
        (void)snprintf(note, sizeof note, "%s asked for %zu bytes: %d blocks an SM queried, %d derived",
                       kernel, l[i].dynamic, l[i].queried, derived);
    }
    free(l);
    if (s == STATUS_OK && known) bench_row(b, io, "occupancy", "instances", wrong, 0, note);
    return s;
}

enum status launch_rows(struct op_bench *b, const struct op_io *io, struct err *err) {
    char kernel[48] = "", note[160] = "";
    if (b->ctx->config.backend != BACKEND_CUDA) return STATUS_OK;
    if (strcmp(b->op->op, "matmul") == 0) expect_product(b, io, kernel);
    if (strcmp(b->op->op, "attention") == 0) expect_attention(b, io, kernel);
    if (kernel[0] == '\0') return STATUS_OK;
    int served = has_word(b->kernels, kernel);
    if (!served) (void)snprintf(note, sizeof note, "%s is for this shape; %.80s ran", kernel, b->kernels);
    bench_row(b, io, "served-by", "missing", served ? 0 : 1, 0, note);
    return occupancy_row(b, io, kernel, err);
}
