/* run_print.c - see run_print.h. */
#include "tools/run_print.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "build_info.h"
#include "gates/generate.h"
#include "gates/golden.h"
#include "gates/report.h"
#include "tools/cli.h"
#include "tools/run_floors.h"

#define RULE          "----------------------------------------------------------------------------"
#define FIXED_COLUMNS 42 /* of a gate's line: mark, name and time */
#define OTHERS_SHOWN  15 /* failing rows behind the first, one line each */

static const char *word_of(enum verdict v) {
    return v == VERDICT_PASS ? "ok" : v == VERDICT_SKIP ? "skip" : verdict_name(v);
}

static const char *paint(const struct run_print *p, enum verdict v) {
    if (!p->colour) return "";
    if (v == VERDICT_PASS) return "\033[32m";
    return v == VERDICT_SKIP ? "\033[33m" : "\033[31m";
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

static void print_goldens(const struct gate_context *ctx) {
    struct golden_set set;
    char dir[2000], hash[HASH_TEXT_BYTES];
    (void)snprintf(dir, sizeof dir, "%.1900s/golden", ctx->source_dir);
    if (golden_load(dir, &set, NULL) != STATUS_OK) {
        printf("goldens: damaged manifest (forkgate golden verify)\n");
        return;
    }
    hash_format(&set.manifest, hash);
    printf("goldens: %zu (manifest %.12s)\n", set.n, hash);
    golden_free(&set);
}

/* What is judged, in one line: this build's options, as far as the backend reads them, or the command of another engine. */
static void print_candidate(const struct gate_context *ctx) {
    const struct engine_config *c = &ctx->config;
    char geometry[96];
    geometry_format(&c->compute.geometry, geometry, sizeof geometry);
    printf("candidate: %s", ctx->engine_cmd != NULL ? ctx->engine_cmd : geometry);
    if (ctx->engine_cmd == NULL && c->kv != engine_config_default().kv)
        printf(" kv=%s", kv_dtype_name(c->kv));
    if (!c->compute.graphs)
        printf("%s", c->backend == BACKEND_CUDA ? " no-graph" : " (--no-graph: not read by backend cpu)");
    printf(" | battery %s", ctx->full_battery ? "full" : ctx->small_battery ? "small" : "quick");
    struct stat st;
    if (ctx->full_battery && stat(ctx->model_path, &st) == 0 && (long long)st.st_size > BATTERY_BRIEF_BYTES)
        printf(", %d tokens a stream: a model of %.1f GiB", BATTERY_BRIEF_TOKENS,
               (double)st.st_size / 0x1p30);
    printf("\n");
}

void run_print_header(const struct gate_context *ctx) {
    printf("forkgate 0.1.0 | engine %s%s | %s %s | %s\n", FORKGATE_COMMIT,
           FORKGATE_DIRTY[0] == '1' ? " (modified)" : "",
           ctx->config.backend == BACKEND_CUDA ? "cuda" : "cpu", arch_name(ctx->config.compute.arch),
           base_name(ctx->model_path));
    if (generate_faults() != NULL) printf("PLANTED FAULTS: %s\n", generate_faults());
    print_goldens(ctx);
    print_candidate(ctx);
}

void run_print_list(const struct gate *const *registry, const int tiers[RUNNER_TIERS], const char *only) {
    for (size_t i = 0; registry[i] != NULL; i++)
        if (tiers[registry[i]->tier] && runner_selects_gate(only, registry[i]->id))
            printf("%-10s %-24s %s\n", tier_name(registry[i]->tier), registry[i]->id, registry[i]->claim);
}

/* ---- one gate ------------------------------------------------------------------------------------------------ */
/* The row that came closest to its bound; NULL when no row had one. */
static const struct evidence *closest(const struct gate_result *r) {
    const struct evidence *best = NULL;
    for (size_t i = 0; i < r->n_rows; i++) {
        double h = report_headroom(&r->rows[i]);
        if (!(r->rows[i].bound > 0) || isnan(h)) continue;
        if (best == NULL || h > report_headroom(best)) best = &r->rows[i];
    }
    return best;
}

static size_t count_rows(const struct gate_result *r, enum verdict v) {
    size_t n = 0;
    for (size_t i = 0; i < r->n_rows; i++) n += r->rows[i].verdict == v;
    return n;
}

/* The first row of the gate's own verdict. */
static const struct evidence *telling(const struct gate_result *r) {
    for (size_t i = 0; i < r->n_rows; i++)
        if (r->rows[i].verdict == r->verdict) return &r->rows[i];
    return NULL;
}

static const char *skip_reason(const struct gate_result *r) {
    for (size_t i = 0; i < r->n_rows; i++)
        if (r->rows[i].verdict == VERDICT_SKIP) return r->rows[i].note;
    return "";
}

static void summary(const struct gate_result *r, char *out, size_t room) {
    const struct evidence *row = r->verdict == VERDICT_PASS ? closest(r) : telling(r);
    size_t bad = r->n_rows - count_rows(r, VERDICT_PASS) - count_rows(r, VERDICT_SKIP);
    if (r->verdict == VERDICT_PASS && count_rows(r, VERDICT_SKIP) > 0)
        (void)snprintf(out, room, "%zu checks; %zu skipped: %s", count_rows(r, VERDICT_PASS),
                       count_rows(r, VERDICT_SKIP), skip_reason(r));
    else if (r->verdict == VERDICT_PASS && row != NULL)
        (void)snprintf(out, room, "%zu checks, closest %.2f of its bound (%s)", r->n_rows,
                       report_headroom(row), row->arm);
    else if (r->verdict == VERDICT_PASS)
        (void)snprintf(out, room, "%zu checks, all exact", r->n_rows);
    else if (r->verdict == VERDICT_FAIL)
        (void)snprintf(out, room, "%zu of %zu checks, first: %s", bad, r->n_rows,
                       row == NULL ? "" : row->arm);
    else
        (void)snprintf(out, room, "%s", row == NULL ? "" : row->note);
}

/* The smallest damage that a gate of tier 4 was seen to call red. */
static void print_floors(const struct gate_result *r) {
    if (r->gate->tier != TIER_TOLERANCE) return;
    for (size_t i = 0; i < r->n_rows; i++) {
        const struct evidence *e = &r->rows[i];
        const char *floor = strstr(e->note, "detection floor");
        if (strcmp(e->arm, "negative") == 0 && e->verdict == VERDICT_PASS && floor != NULL)
            printf("        %.40s: %s\n", e->test_case, floor);
    }
}

static void print_rows(const struct gate_result *r) {
    for (size_t i = 0; i < r->n_rows; i++) {
        const struct evidence *e = &r->rows[i];
        printf("        %-5s %-12s %-10s %.6g <= %.6g  %s  %s\n", word_of(e->verdict), e->arm, e->metric,
               e->value, e->bound, e->test_case, e->note);
    }
}

/* Columns for what a gate saw: what the terminal leaves beside the fixed ones, and then longer text is cut; 54 in a file,
 * where nothing is. */
static int fit_summary(char *text) {
    if (!isatty(STDOUT_FILENO)) return 54;
    int room = cli_width(STDOUT_FILENO) - FIXED_COLUMNS;
    room = room < 16 ? 16 : room > 100 ? 100 : room;
    if (strlen(text) > (size_t)room) (void)memcpy(text + room - 2, "..", 3);
    return room;
}

void run_print_result(void *sink, const struct gate_result *r) {
    struct run_print *p = sink;
    char text[400];
    cli_progress_end();
    summary(r, text, sizeof text);
    int room = fit_summary(text);
    if ((int)r->gate->tier != p->tier) {
        p->tier = (int)r->gate->tier;
        printf("tier %d  %-12s %*d gates\n", p->tier + 1, tier_name(r->gate->tier), room, p->total[p->tier]);
    }
    printf("  %s%-5s%s %-22s %-*s %7.0f ms\n", paint(p, r->verdict), word_of(r->verdict),
           p->colour ? "\033[0m" : "", r->gate->id, room, text, r->ms);
    print_floors(r);
    if (p->verbose) print_rows(r);
    fflush(stdout);
}

void run_print_start(void *sink, const struct gate *g, size_t done, size_t total) {
    (void)sink;
    cli_progress(g->id, done, total);
}

/* ---- the end ------------------------------------------------------------------------------------------------- */
static void print_failing_row(const struct evidence *e) {
    if (e->test_case[0] != '\0') printf("  where   %s\n", e->test_case);
    printf("  arm     %s", e->arm);
    if (!isnan(e->bound)) printf(", %s: %.6g > %.6g", e->metric, e->value, e->bound);
    printf("\n");
    if (e->ref[0] != '\0') printf("  want    %s\n  got     %s\n", e->ref, e->got);
    if (e->note[0] != '\0') printf("  what    %s\n", e->note);
    if (e->repro[0] != '\0') printf("  rerun   %s\n", e->repro);
}

/* The other failing rows, one line each: what differs, per stream or per case. */
static void print_others(const struct gate_result *r) {
    size_t seen = 0, left = 0;
    for (size_t i = 0; i < r->n_rows; i++) {
        const struct evidence *e = &r->rows[i];
        if (e->verdict != r->verdict || seen++ == 0) continue; /* the first was shown in full */
        if (seen > OTHERS_SHOWN + 1)
            left++;
        else if (e->note[0] != '\0')
            printf("  also    %s %s: %s\n", e->test_case, e->arm, e->note);
        else
            printf("  also    %s %s: %s %.6g > %.6g\n", e->test_case, e->arm, e->metric, e->value, e->bound);
    }
    if (left > 0) printf("  also    %zu more (-v shows all, --csv keeps all)\n", left);
}

/* Arms that failed, each once: the shape of the failure. */
static void print_pattern(const struct gate_result *r) {
    printf("  pattern");
    for (size_t i = 0; i < r->n_rows; i++) {
        size_t same = 0, earlier = 0;
        if (r->rows[i].verdict != r->verdict) continue;
        for (size_t k = 0; k < r->n_rows; k++) {
            int equal = r->rows[k].verdict == r->verdict && strcmp(r->rows[k].arm, r->rows[i].arm) == 0;
            same += (size_t)equal;
            earlier += (size_t)(equal && k < i);
        }
        if (earlier == 0) printf(" %s x%zu", r->rows[i].arm, same);
    }
    printf(" of %zu checks\n", r->n_rows);
}

static void print_failure(const struct gate_result *r) {
    const struct evidence *first = telling(r);
    printf("%s %s\n  claim   %s\n", verdict_name(r->verdict), r->gate->id, r->gate->claim);
    if (first != NULL) print_failing_row(first);
    print_others(r);
    print_pattern(r);
}

static int is_red(enum verdict v) {
    return v != VERDICT_PASS && v != VERDICT_SKIP;
}

static void print_totals(const struct run_result *r) {
    size_t rows = 0, slowest = 0;
    for (size_t i = 0; i < r->n; i++) {
        rows += r->gates[i].n_rows;
        if (r->gates[i].ms > r->gates[slowest].ms) slowest = i;
    }
    printf("%zu gates, %zu checks in %.1f s", r->n, rows, r->ms * 1e-3);
    if (r->n > 0) printf("   slowest %s %.1f s", r->gates[slowest].gate->id, r->gates[slowest].ms * 1e-3);
    printf("\n");
    for (int v = VERDICT_ERROR; v < VERDICTS; v++)
        if (r->counts[v] > 0)
            printf("%llu of the failed: %s\n", (unsigned long long)r->counts[v],
                   verdict_name((enum verdict)v));
}

/* Runs of one build against itself that must agree; see runner.h. */
static void print_controls(const struct run_result *r) {
    struct runner_controls c = runner_controls(r);
    if (c.streams > 0 && c.alarms == 0)
        printf("control runs: %llu streams, 0 false alarms\n", (unsigned long long)c.streams);
    else if (c.streams > 0)
        printf("control runs: %llu streams, %llu not identical\n", (unsigned long long)c.streams,
               (unsigned long long)c.alarms);
}

static void print_unjudged(const struct run_result *r) {
    struct runner_unjudged list[2 * RUNNER_TIERS];
    size_t n = runner_unjudged(r, list);
    for (size_t i = 0; i < n; i++)
        printf("tier %s had no verdict on %s: %s\n", tier_name(list[i].tier), list[i].backend, list[i].why);
}

/* One word, or, where the gates that ran are green and more would have to run, what the reports say (report_sum.h). */
static void print_verdict(const struct run_print *p, const struct run_result *r, const struct report_sum *s) {
    int cpu = (p->backends & 1u << BACKEND_CPU) != 0, cuda = (p->backends & 1u << BACKEND_CUDA) != 0;
    int code = runner_exit_code(r), length = (int)strlen(report_sum_headline(s)) - 1;
    if (code == 0 && s->next[0] != '\0')
        printf("verdict: %.*s", length, report_sum_headline(s)); /* without its bracket */
    else
        printf("verdict: %s (%s",
               code == 0   ? "PASS"
               : code == 1 ? "FAIL"
                           : "NOT JUDGED",
               cpu && cuda ? "cpu and cuda"
               : cuda      ? "cuda only"
                           : "cpu only");
    if (!cpu || !cuda) printf("; backend %s NOT SELECTED", cuda ? "cpu" : "cuda");
    if (generate_faults() != NULL) printf("; PLANTED FAULTS: %s", generate_faults());
    if (p->other_engine)
        printf("; of the engine command alone: parity, suite and identity judge this build, not it");
    printf(")\n");
    if (s->next[0] != '\0') printf("next:    %s\n", s->next);
}

void run_print_end(const struct run_print *p, const struct run_result *r, const struct report_sum *s) {
    int red = 0;
    cli_progress_end();
    for (size_t i = 0; i < r->n; i++) {
        if (!is_red(r->gates[i].verdict)) continue;
        if (red++ == 0) printf("-- failures %.64s\n", RULE);
        print_failure(&r->gates[i]);
    }
    print_totals(r);
    run_floors_print(stdout, r);
    print_controls(r);
    print_unjudged(r);
    print_verdict(p, r, s);
    unsigned long long passed = r->counts[VERDICT_PASS], skipped = r->counts[VERDICT_SKIP];
    printf("forkgate: %llu passed, %llu failed, %llu skipped\n", passed,
           (unsigned long long)r->n - passed - skipped, skipped);
}
