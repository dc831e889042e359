/* cmd_golden.c - `forkgate golden`: list, show, verify, review and refresh the committed streams. */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gates/golden_make.h"
#include "gates/runner.h"
#include "tools/cli_table.h"
#include "tools/commands.h"
#include "tools/golden_print.h"

#define NAMES_MAX 64
#define ROUTES    2

struct golden_args {
    struct cli_engine engine;
    const char *action, *reason;
    const char *names[NAMES_MAX];
    int n_names, regenerate, routes_given;
    int routes[ROUTES]; /* f16, q8 */
};

static void take_routes(struct argp_state *state, void *args, char *arg) {
    int *routes = ((struct golden_args *)args)->routes;
    ((struct golden_args *)args)->routes_given = 1;
    routes[0] = strcmp(arg, "f16") == 0 || strcmp(arg, "f16,q8") == 0;
    routes[1] = strcmp(arg, "q8") == 0 || strcmp(arg, "f16,q8") == 0;
    if (!routes[0] && !routes[1]) argp_error(state, "--routes %s: want f16, q8 or f16,q8", arg);
}

static const struct cli_option options[] = {
    {"reason", 0, "TEXT", "why goldens move (refresh)", 1, CLI_AT(struct golden_args, reason)},
    {"regenerate", 0, NULL, "verify: make every stream again and compare", 1,
     CLI_AT(struct golden_args, regenerate)},
    {"routes", 0, "f16,q8", "which routes review, refresh and --regenerate run (default both)", 1,
     CLI_BY(take_routes)},
    CLI_LAST};

static void take_name(struct argp_state *state, void *args, char *arg) {
    struct golden_args *a = args;
    if (a->action == NULL)
        a->action = arg;
    else if (a->n_names == NAMES_MAX)
        argp_error(state, "more than %d names", NAMES_MAX);
    else
        a->names[a->n_names++] = arg;
}

/* An option that the action does not read is a mistake, not a wish. */
static void check_read(struct argp_state *state, const struct golden_args *a) {
    int makes = a->action == NULL || a->regenerate || strcmp(a->action, "review") == 0 ||
                strcmp(a->action, "refresh") == 0;
    if (!makes && !a->engine.route_given && (a->engine.given || a->routes_given))
        argp_error(
            state,
            "%s makes no stream: engine options and --routes are for review, refresh and verify --regenerate",
            a->action);
}

static void check(struct argp_state *state, void *args) {
    const struct golden_args *a = args;
    check_read(state, a);
    if (a->engine.route_given)
        argp_error(state, "--route is not read here: give --routes f16 or --routes q8");
    if (a->action == NULL) argp_error(state, "give verify, list, show, review or refresh");
    if (a->action == NULL) return;
    if (strcmp(a->action, "list") == 0 && a->n_names > 0)
        argp_error(state, "list takes no NAME: it lists all");
    if (a->regenerate && strcmp(a->action, "verify") != 0) argp_error(state, "--regenerate goes with verify");
    if (a->reason != NULL && strcmp(a->action, "refresh") != 0)
        argp_error(state, "--reason goes with refresh");
}

static const struct cli_table arguments = {
    CLI_ARGP(
        "verify [NAME...]\nlist\nshow NAME\nreview [NAME[:FIRST-LAST]...]\nrefresh --reason TEXT "
        "[NAME[:FIRST-LAST]...]",
        "The committed streams. verify: every dump's integrity and every manifest field; review: what a "
        "refresh would change; refresh: change what is named and nothing else.\v"
        "A refresh is refused without a reason, under CI=true, when the build's parity is red, when it does "
        "not repeat itself in fresh processes, and when a stream or record outside the named set differs. "
        "Without a NAME only new streams are taken; with one, a new stream needs its name too. A line that a "
        "build with local changes wrote has a + behind its commit.\n\n"
        "Examples:\n"
        "  forkgate golden verify --regenerate\n"
        "  forkgate golden show sm_90-f16/holmes\n"
        "  forkgate golden review\n"
        "  forkgate golden refresh --reason 'P.V starts at the tile' 'sm_90-f16/*'\n"
        "  forkgate golden refresh --reason 'the wrong token' sm_90-f16/holmes:63-63\n"
        "Exit: 0 intact, nothing would change, refreshed; 1 streams differ, refused; 2 damage, bad usage, "
        "nothing there.\n",
        cli_engine_children),
    options, take_name, check};

static const char *golden_dir(void) {
    static char dir[2000];
    (void)snprintf(dir, sizeof dir, "%.1900s/golden", cli_source_dir());
    return dir;
}

/* ---- list, show, verify -------------------------------------------------------------------------------------- */
static int wanted(const struct golden_args *a, const char *name) {
    for (int i = 0; i < a->n_names; i++)
        if (fnmatch(a->names[i], name, 0) == 0) return 1;
    return a->n_names == 0;
}

static int show(const struct golden_args *a, const struct golden_set *s) {
    struct err err;
    dump *d = NULL;
    if (a->n_names != 1) {
        (void)err_set(&err, STATUS_USAGE, "show wants one NAME");
        return cli_fail("golden", &err);
    }
    const struct golden_entry *e = golden_by_name(s, a->names[0]);
    if (e == NULL) {
        (void)err_set(&err, STATUS_USAGE, "no golden is named '%s' (forkgate golden list has the names)",
                      a->names[0]);
        return cli_fail("golden", &err);
    }
    if (golden_open(s, e, &d, &err) != STATUS_OK) return cli_fail("golden", &err);
    golden_print_entry(e, d);
    dump_close(d);
    return 0;
}

struct gaps {
    size_t missing, orphans;
};

static void note_gap(void *ctx, enum golden_gap_kind kind, const char *what) {
    struct gaps *g = ctx;
    if (kind == GOLDEN_MISSING)
        g->missing++;
    else
        g->orphans++;
    printf(kind == GOLDEN_MISSING ? "MISSING  %s: no line of manifest.csv names this stream of the battery\n"
                                  : "ORPHAN   %s: no line of manifest.csv names this dump\n",
           what);
}

/* A name that is no golden's must not read as one golden that is intact. */
static enum status check_known(const struct golden_args *a, const struct golden_set *s, struct err *err) {
    for (int i = 0; i < a->n_names; i++) {
        size_t k = 0;
        while (k < s->n && fnmatch(a->names[i], s->entries[k].name, 0) != 0) k++;
        if (k == s->n)
            return err_set(err, STATUS_USAGE, "%s/manifest.csv names no golden '%s'", s->dir, a->names[i]);
    }
    return STATUS_OK;
}

static int verify_files(const struct golden_args *a, const struct golden_set *s) {
    size_t intact = 0, damaged = 0;
    struct err unknown;
    if (check_known(a, s, &unknown) != STATUS_OK) return cli_fail("golden", &unknown);
    for (size_t i = 0; i < s->n; i++) {
        struct err err;
        dump *d = NULL;
        if (!wanted(a, s->entries[i].name)) continue;
        if (golden_open(s, &s->entries[i], &d, &err) == STATUS_OK) {
            intact++;
        } else {
            damaged++;
            printf("DAMAGED  %s\n", err.message);
        }
        dump_close(d);
    }
    struct gaps gaps = {0, 0};
    struct err err;
    if (a->n_names == 0 && golden_gaps(cli_source_dir(), s, note_gap, &gaps, &err) != STATUS_OK)
        return cli_fail("golden", &err);
    printf("golden: %zu intact, %zu damaged", intact, damaged);
    if (gaps.missing + gaps.orphans > 0) printf(", %zu missing, %zu orphans", gaps.missing, gaps.orphans);
    printf("\n");
    if (intact + damaged == 0) {
        (void)err_set(&err, STATUS_USAGE, "%s/manifest.csv names no golden", s->dir);
        return cli_fail("golden", &err);
    }
    return damaged + gaps.missing > 0 || intact == 0 ? EXIT_TROUBLE : 0;
}

/* ---- making streams ------------------------------------------------------------------------------------------ */
struct made {
    dump *first[ROUTES * GOLDEN_STREAMS_MAX];
    dump *again[ROUTES * GOLDEN_STREAMS_MAX];
    int n, n_again;
};

/* What is being made: shown in front of each prompt. */
struct making {
    const char *route, *how;
};

static void show_progress(void *sink, const char *prompt, int done, int total) {
    const struct making *making = sink;
    char label[96];
    (void)snprintf(label, sizeof label, "golden: route %s%s, %.40s", making->route, making->how, prompt);
    cli_progress(label, (uint64_t)done, (uint64_t)total);
}

/* A name that no stream will have is said before minutes of work. */
static enum status check_made(const struct golden_args *a, struct err *err) {
    char made[ROUTES * GOLDEN_STREAMS_MAX][GOLDEN_NAME];
    struct golden_maker m = {cli_source_dir(), a->engine.model, NULL, a->engine.config, NULL, NULL};
    struct refresh_name name;
    int n = 0, more;
    for (int r = 0; r < ROUTES; r++) {
        if (!a->routes[r]) continue;
        m.config.compute.route = r == 0 ? ROUTE_F16 : ROUTE_Q8;
        RETURN_IF_ERROR(golden_make_names(&m, made + n, &more, err));
        n += more;
    }
    for (int i = 0; i < a->n_names; i++) {
        int k = 0;
        RETURN_IF_ERROR(refresh_name_parse(a->names[i], &name, err));
        while (k < n && fnmatch(name.pattern, made[k], 0) != 0) k++;
        if (k == n) return err_set(err, STATUS_USAGE, "no stream is named '%s'", name.pattern);
    }
    return STATUS_OK;
}

static enum status make_streams(const struct golden_args *a, int twice, struct made *out, struct err *err) {
    struct making making = {"", ""};
    struct golden_maker m = {cli_source_dir(), a->engine.model, cli_self(),
                             a->engine.config, show_progress,   &making};
    memset(out, 0, sizeof *out);
    for (int r = 0; r < ROUTES; r++) {
        int n = 0;
        if (!a->routes[r]) continue;
        m.config.compute.route = r == 0 ? ROUTE_F16 : ROUTE_Q8;
        making.route = route_name(m.config.compute.route);
        making.how = "";
        RETURN_IF_ERROR(golden_make(&m, out->first + out->n, &n, err));
        out->n += n;
        if (!twice) continue;
        making.how = " again, in fresh processes";
        RETURN_IF_ERROR(golden_make_again(&m, out->again + out->n_again, &n, err));
        out->n_again += n;
    }
    cli_progress_end();
    return STATUS_OK;
}

static void close_streams(struct made *m) {
    for (int i = 0; i < m->n; i++) dump_close(m->first[i]);
    for (int i = 0; i < m->n_again; i++) dump_close(m->again[i]);
}

/* ---- review, refresh, verify --regenerate -------------------------------------------------------------------- */
static void show_gate(void *sink, const struct gate *g, size_t done, size_t total) {
    char label[96];
    (void)sink;
    (void)snprintf(label, sizeof label, "golden: parity, %.60s", g->id);
    cli_progress(label, done, total);
}

static enum status parity_is_green(const struct golden_args *a, struct err *err) {
    struct runner_options o;
    struct run_result r;
    memset(&o, 0, sizeof o);
    o.context.model_path = a->engine.model;
    o.context.config = a->engine.config;
    o.context.source_dir = cli_source_dir();
    o.context.self = cli_self();
    o.registry = gate_registry;
    o.tiers[TIER_PARITY] = 1;
    o.jobs = a->engine.config.backend == BACKEND_CUDA ? 1 : 2;
    o.on_start = show_gate;
    RETURN_IF_ERROR(runner_run(&o, &r, err));
    cli_progress_end();
    int code = verdict_exit_code(r.counts);
    printf("parity     %llu of %zu gates passed\n", (unsigned long long)r.counts[VERDICT_PASS], r.n);
    runner_free(&r);
    return code == 0 ? STATUS_OK
                     : err_set(err, STATUS_INVALID,
                               "this build's parity is not green (forkgate run --tier parity)");
}

static enum status make_plan(const struct golden_args *a, struct golden_set *set, const struct made *made,
                             struct refresh_plan *plan, struct err *err) {
    struct refresh_name names[NAMES_MAX];
    const dump *dumps[ROUTES * GOLDEN_STREAMS_MAX];
    for (int i = 0; i < a->n_names; i++) RETURN_IF_ERROR(refresh_name_parse(a->names[i], &names[i], err));
    for (int i = 0; i < made->n; i++) dumps[i] = made->first[i];
    return refresh_plan_make(set, dumps, (size_t)made->n, names, (size_t)a->n_names, plan, err);
}

static int closing_line(const struct refresh_plan *p, int code) {
    printf("golden: %zu same, %zu changed, %zu new, %zu refused\n", p->counts[REFRESH_SAME],
           p->counts[REFRESH_CHANGED], p->counts[REFRESH_NEW], p->counts[REFRESH_REFUSED]);
    return code;
}

/* verify --regenerate and review: nothing is written. */
static int review(const struct golden_args *a, struct golden_set *set) {
    struct made made;
    struct refresh_plan plan;
    struct err err = {""};
    memset(&made, 0, sizeof made);
    enum status s = check_made(a, &err);
    if (s == STATUS_OK) s = make_streams(a, 0, &made, &err);
    if (s == STATUS_OK) s = make_plan(a, set, &made, &plan, &err);
    int code = EXIT_TROUBLE;
    if (s == STATUS_OK) {
        golden_print_plan(&plan);
        code = closing_line(&plan, plan.counts[REFRESH_SAME] == plan.n ? 0 : 1);
        refresh_plan_free(&plan);
    } else {
        code = cli_fail("golden", &err);
    }
    close_streams(&made);
    return code;
}

static enum status check_repeat(const struct made *made, struct err *err) {
    if (made->n != made->n_again) return err_set(err, STATUS_INVALID, "the second run made other streams");
    const dump *first[ROUTES * GOLDEN_STREAMS_MAX], *again[ROUTES * GOLDEN_STREAMS_MAX];
    for (int i = 0; i < made->n; i++) {
        first[i] = made->first[i];
        again[i] = made->again[i];
    }
    RETURN_IF_ERROR(refresh_check_repeat(first, again, (size_t)made->n, err));
    printf("repeat     %d of %d streams equal in a fresh process, alone\n", made->n, made->n);
    return STATUS_OK;
}

static int commit(const struct golden_args *a, struct golden_set *set, const struct made *made) {
    struct refresh_plan plan;
    struct err err = {""};
    if (make_plan(a, set, made, &plan, &err) != STATUS_OK) return cli_fail("golden", &err);
    golden_print_plan(&plan);
    enum status s = refresh_commit(&plan, a->reason, &err);
    int code = s == STATUS_OK ? 0 : s == STATUS_IO || s == STATUS_LIMIT ? EXIT_TROUBLE : 1;
    if (s != STATUS_OK) (void)cli_fail("golden", &err);
    if (s == STATUS_OK) printf("reason     %s\n", a->reason);
    code = closing_line(&plan, code);
    refresh_plan_free(&plan);
    return code;
}

static int refresh(const struct golden_args *a, struct golden_set *set) {
    struct made made;
    struct err err = {""};
    memset(&made, 0, sizeof made);
    enum status s = refresh_permitted(a->reason, &err); /* before minutes of work */
    if (s == STATUS_OK) s = refresh_can_write(set->dir, &err);
    if (s == STATUS_OK) s = check_made(a, &err);
    if (s != STATUS_OK) return cli_fail("golden", &err);
    golden_print_modified();
    s = parity_is_green(a, &err);
    if (s == STATUS_OK) s = make_streams(a, 1, &made, &err);
    if (s == STATUS_OK) s = check_repeat(&made, &err);
    int code = s == STATUS_OK ? commit(a, set, &made) : cli_fail("golden", &err);
    close_streams(&made);
    return s == STATUS_INVALID ? 1 : code;
}

static int dispatch(const struct golden_args *a, struct golden_set *set) {
    struct err err;
    int reads = strcmp(a->action, "show") == 0 || strcmp(a->action, "list") == 0;
    if (reads && set->n == 0) {
        (void)err_set(&err, STATUS_USAGE, "%s/manifest.csv names no golden", set->dir);
        return cli_fail("golden", &err);
    }
    if (strcmp(a->action, "show") == 0) return show(a, set);
    if (strcmp(a->action, "review") == 0) return review(a, set);
    if (strcmp(a->action, "refresh") == 0) return refresh(a, set);
    if (strcmp(a->action, "list") == 0) {
        golden_print_list(set);
        return 0;
    }
    if (strcmp(a->action, "verify") == 0) {
        int code = verify_files(a, set);
        return code != 0 || !a->regenerate ? code : review(a, set);
    }
    (void)err_set(&err, STATUS_USAGE, "unknown action '%s' (verify, list, show, review, refresh)", a->action);
    return cli_fail("golden", &err);
}

static int run(int argc, char **argv) {
    struct golden_args a;
    struct golden_set set;
    struct err err;
    memset(&a, 0, sizeof a);
    a.routes[0] = a.routes[1] = 1;
    cli_engine_default(&a.engine);
    cli_parse(&arguments.argp, argc, argv, &a);
    if (golden_load(golden_dir(), &set, &err) != STATUS_OK) return cli_fail("golden", &err);
    int code = dispatch(&a, &set);
    golden_free(&set);
    return code;
}

const struct command cmd_golden = {"golden", "verify, list, show, review or refresh the committed streams",
                                   &arguments.argp, run};
