/* run_page.c - see run_page.h. */
#include "tools/run_page.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "gates/diff_folder.h"
#include "gates/forked.h"
#include "gates/report_html.h"

struct run_page {
    struct report_page page;
    struct forked_stream forked;
    struct diff_result diff;
    dump *a, *b;
    table *mutants;
    char title[240];
};

static enum status add_fork(struct run_page *p, const struct gate_context *ctx, struct err *err) {
    char budgets[4200];
    if (ctx->keep == NULL) return STATUS_OK;
    RETURN_IF_ERROR(forked_first(ctx->keep, &p->forked, err));
    if (p->forked.n == 0) return STATUS_OK;
    (void)snprintf(budgets, sizeof budgets, "%.4000s/golden/budgets.csv", ctx->source_dir);
    const struct diff_options o = {NULL, budgets};
    RETURN_IF_ERROR(
        diff_with_control(p->forked.golden, p->forked.candidate, &o, &p->a, &p->b, &p->diff, err));
    (void)snprintf(p->title, sizeof p->title, "%s against its golden (1 of %d that left theirs)",
                   p->forked.name, p->forked.n);
    p->page.a = p->a;
    p->page.b = p->b;
    p->page.diff = &p->diff;
    p->page.fork_title = p->title;
    p->page.side_names[0] = "the golden";
    p->page.side_names[1] = "this run";
    return STATUS_OK;
}

static enum status add_faults(struct run_page *p, const struct gate_context *ctx, struct err *err) {
    char path[4200];
    (void)snprintf(path, sizeof path, "%.4000s/reports/mutants_%s.csv", ctx->source_dir,
                   ctx->config.backend == BACKEND_CUDA ? "cuda" : "cpu");
    if (access(path, R_OK) != 0) return STATUS_OK;
    RETURN_IF_ERROR(table_read(path, &p->mutants, err));
    p->page.mutants = p->mutants;
    return STATUS_OK;
}

enum status run_page_write(const char *path, const struct evidence *rows, size_t n,
                           const struct provenance *about, const struct gate_context *ctx, struct err *err) {
    struct run_page p;
    memset(&p, 0, sizeof p);
    p.page.rows = rows;
    p.page.n = n;
    p.page.about = about;
    p.page.of_run = 1;
    enum status s = add_fork(&p, ctx, err);
    if (s == STATUS_OK) s = add_faults(&p, ctx, err);
    if (s == STATUS_OK) s = report_write_html(path, NULL, &p.page, err);
    dump_close(p.a);
    dump_close(p.b);
    table_close(p.mutants);
    return s;
}
