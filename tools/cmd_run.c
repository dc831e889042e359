/* cmd_run.c - `forkgate run`: the tiers that judge a change, as one command with one exit code. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gates/under.h"
#include "tools/cli_table.h"
#include "tools/commands.h"
#include "tools/run_reports.h"
#include "tools/run_rounds.h"

enum { BATTERY_SMALL, BATTERY_QUICK, BATTERY_FULL }; /* in the order of --battery's words */

struct run_args {
    struct cli_engine engine;
    int tiers[RUNNER_TIERS];
    int battery; /* BATTERY_SMALL, .. */
    int keep_going, verbose, list, jobs, repeat;
    struct run_reports reports;
    const char *only;
    char command[1024]; /* as it was given */
    const char *cause, *base, *engine_cmd, *under;
    int class_fa, tiers_given;
};

static void take_tiers(struct argp_state *state, void *args, char *arg) {
    struct run_args *a = args;
    memset(a->tiers, 0, sizeof a->tiers);
    a->tiers_given = 1;
    if (*arg == '\0') argp_error(state, "--tier: want parity, suite, identity, tolerance or perf");
    for (const char *p = arg; *p != '\0';) {
        char name[16];
        size_t n = strcspn(p, ",");
        (void)snprintf(name, sizeof name, "%.*s", (int)(n < 15 ? n : 15), p);
        int tier = tier_from_name(name);
        if (tier < 0) argp_error(state, "--tier %s: want parity, suite, identity, tolerance or perf", name);
        a->tiers[tier] = 1;
        p += n;
        if (*p == ',') p++;
    }
}

static void take_under(struct argp_state *state, void *args, char *arg) {
    struct run_args *a = args;
    a->under = arg;
    if (!under_is_tool(arg))
        argp_error(state, "--under %s: want memcheck, racecheck, initcheck or synccheck", arg);
}

static const struct cli_option options[] = {
    {"tier", 0, "LIST",
     "parity,suite,identity,tolerance,perf (default: the first three; with --class fa the first four)", 0,
     CLI_BY(take_tiers)},
    {"class", 0, "bitwise|fa", "what kind of change this is (default bitwise)", 0,
     CLI_AT(struct run_args, class_fa)},
    {"cause", 0, "TEXT", "class fa: why the bits cannot be kept", 0, CLI_AT(struct run_args, cause)},
    {"base", 0, "DUMPS|BINARY|COMMAND",
     "judge streams and speed against this (default: goldens; the default geometry of this build)", 0,
     CLI_AT(struct run_args, base)},
    {"engine-cmd", 0, "'.. {prompt} {n} {out} {follow}'", "tolerance: the candidate is another engine", 0,
     CLI_AT(struct run_args, engine_cmd)},
    {"battery", 0, "small|quick|full",
     "how many cases and prompts (default quick; tier tolerance decides nothing on small)", 0,
     CLI_AT(struct run_args, battery)},
    {"only", 0, "GATE[/CASE]", "one gate, or its cases whose text contains CASE", 0,
     CLI_AT(struct run_args, only)},
    {"under", 0, "memcheck|racecheck|initcheck|synccheck",
     "parity on the device, each gate under this tool of compute-sanitizer", 0, CLI_BY(take_under)},
    {"repeat", 0, "N", "run everything N times, 1 to 1000; every round counts (control runs)", 0,
     CLI_WITHIN(struct run_args, repeat, 1, 1000)},
    {"keep-going", 0, NULL, "run later tiers after a red one", 0, CLI_AT(struct run_args, keep_going)},
    {"jobs", 0, "N", "gates at a time, 1 to 16 (default: online cores on cpu, 1 on cuda)", 0,
     CLI_WITHIN(struct run_args, jobs, 1, 16)},
    {"list", 0, NULL, "list the gates that --tier and --only select (default: all), run nothing", 0,
     CLI_AT(struct run_args, list)},
    {"verbose", 'v', NULL, "show every check", 0, CLI_AT(struct run_args, verbose)},
    CLI_HEADER("Reports:", 1),
    {"csv", 0, "FILE", "write every check as a CSV row", 1, CLI_ONCE(struct run_args, reports.csv)},
    {"junit", 0, "FILE", "write JUnit XML", 1, CLI_ONCE(struct run_args, reports.junit)},
    {"html", 0, "FILE", "write one self-contained HTML file", 1, CLI_ONCE(struct run_args, reports.html)},
    {"summary-md", 0, "FILE", "write a Markdown job summary (at most 1 MiB)", 1,
     CLI_ONCE(struct run_args, reports.summary)},
    {"format", 0, "text|github", "github: annotation lines too (default when GITHUB_ACTIONS is true)", 1,
     CLI_AT(struct run_args, reports.github)},
    CLI_LAST};

/* --under is about device kernels: tier parity, alone. */
static void check_under(struct run_args *a, struct argp_state *state) {
    if (a->under == NULL) return;
    if (a->class_fa || a->base != NULL || a->engine_cmd != NULL)
        argp_error(
            state,
            "--under looks at the kernels of tier parity: it takes no --class, --base or --engine-cmd");
    for (int t = 0; t < RUNNER_TIERS; t++) {
        if (t == TIER_PARITY) continue;
        if (a->tiers_given && a->tiers[t])
            argp_error(state, "--under goes with --tier parity only, not with tier %s",
                       tier_name((enum tier)t));
        a->tiers[t] = 0;
    }
}

/* Does a selected gate of this tier, one whose name begins so, read what is asked about? */
static int reads(const struct run_args *a, enum tier t, const char *name) {
    return a->tiers[t] && (a->only == NULL || strncmp(a->only, name, strlen(name)) == 0);
}

/* What goes together: an option that no selected tier reads would be an option ignored. */
static void check_together(struct run_args *a, struct argp_state *state) {
    int named = a->cause != NULL && a->cause[strspn(a->cause, " \t\n")] != '\0';
    if (a->class_fa && !named)
        argp_error(state, "--class fa needs --cause TEXT: bits are given up for a named reason");
    if (a->cause != NULL && !a->class_fa) argp_error(state, "--cause goes with --class fa");
    if (a->class_fa && !a->tiers_given) a->tiers[TIER_TOLERANCE] = 1;
    int of_four = reads(a, TIER_TOLERANCE, "tolerance") || reads(a, TIER_PERF, "perf");
    if (a->engine_cmd != NULL && !of_four)
        argp_error(state, "--engine-cmd is read by tier tolerance only (add --class fa --cause TEXT)");
    if (a->base != NULL && !of_four && !reads(a, TIER_IDENTITY, "stream.golden"))
        argp_error(state, "--base is read by tiers identity (stream.golden), tolerance and perf only");
    if (a->engine.route_given && !of_four)
        argp_error(state,
                   "--route is read by tiers tolerance and perf only: parity and identity judge f16 and q8");
    if (a->engine.config.kv == KV_F32)
        argp_error(state, "--kv f32 goes with route f32, and run judges streams on routes f16 and q8");
    if (a->engine_cmd != NULL && !a->class_fa)
        argp_error(state, "--engine-cmd is judged by the tolerance tier: give --class fa --cause TEXT");
    for (int t = 0; a->engine_cmd != NULL && t < RUNNER_TIERS; t++) {
        if (t == TIER_TOLERANCE) continue; /* the other tiers would judge this build, not that engine */
        if (a->tiers_given && a->tiers[t])
            argp_error(state, "--engine-cmd goes with --tier tolerance only: tier %s judges this build",
                       tier_name((enum tier)t));
        a->tiers[t] = 0;
    }
}

/* How far apart two names are: letters that one has and the other lacks, in any order. */
static int letters_apart(const char *a, const char *b) {
    int seen[256] = {0}, apart = 0;
    for (; *a != '\0'; a++) seen[(unsigned char)*a]++;
    for (; *b != '\0'; b++) seen[(unsigned char)*b]--;
    for (int i = 0; i < 256; i++) apart += abs(seen[i]);
    return apart;
}

/* A gate that is not there, or that no selected tier has: nothing would run. */
static void check_only(const struct run_args *a, struct argp_state *state) {
    char near[400] = "", name[64];
    const struct gate *named = NULL;
    size_t used = 0;
    if (a->only == NULL) return;
    (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(a->only, "/"), a->only);
    for (int i = 0; gate_registry[i] != NULL; i++) {
        const char *id = gate_registry[i]->id;
        if (runner_selects_gate(a->only, id)) named = gate_registry[i];
        if (used + strlen(id) + 16 < sizeof near &&
            (strstr(id, name) != NULL || letters_apart(id, name) <= 3))
            used += (size_t)snprintf(near + used, sizeof near - used, "%s%s",
                                     used > 0 ? ", " : "; near it: ", id);
    }
    if (named == NULL)
        argp_error(state, "--only %s: no such gate%s; forkgate run --list has all", name, near);
    else if (!a->tiers[named->tier])
        argp_error(state, "--only %s: tier %s is not selected (--tier %s)", name, tier_name(named->tier),
                   tier_name(named->tier));
}

static void check(struct argp_state *state, void *args) {
    struct run_args *a = args;
    check_together(args, state);
    for (int t = 0; a->list && !a->tiers_given && t < RUNNER_TIERS; t++) a->tiers[t] = 1;
    check_under(args, state);
    check_only(args, state);
}

static const struct cli_table arguments = {
    CLI_ARGP(
        "",
        "Runs the gate tiers on the candidate: parity (are the numbers right?), suite (did anything else "
        "break?), identity "
        "(is the path on the rails?). Engine options are the candidate's; goldens are those of the default "
        "geometry.\v"
        "Examples:\n"
        "  forkgate run                                    # before every merge\n"
        "  forkgate run --tier parity --only op.attention  # one op\n"
        "  forkgate run --geometry fa_tkv=16 --keep-going  # a tile: identity turns red\n"
        "  forkgate run --class fa --cause 'FA_TKV 32->16' --geometry fa_tkv=16\n"
        "  forkgate run --backend cpu,cuda                 # both; default with a GPU\n"
        "  forkgate run --backend cuda --under memcheck    # the kernels under a tool\n"
        "  forkgate run --tier identity --repeat 9         # control runs: one build\n"
        "  forkgate run --battery full --csv run.csv --junit run.xml --html run.html\n"
        "  forkgate run --format github --summary-md \"$GITHUB_STEP_SUMMARY\"  # on CI\n"
        "Exit: 0 all that ran is green: may land, unless the verdict line says 'not a landing verdict'; 1 a "
        "gate failed or is blind; 2 a gate could not judge, a selected tier had no "
        "verdict, "
        "nothing was run, bad usage.\n",
        cli_engine_children),
    options, NULL, check};

/* All rows of a run in one array, for the writers. */
static enum status gather(const struct run_result *r, struct evidence **rows, size_t *n, struct err *err) {
    *n = 0;
    for (size_t i = 0; i < r->n; i++) *n += r->gates[i].n_rows;
    *rows = calloc(*n + 1, sizeof **rows);
    if (*rows == NULL) return err_set(err, STATUS_NOMEM, "%zu rows", *n);
    size_t at = 0;
    for (size_t i = 0; i < r->n; i++) {
        if (r->gates[i].n_rows > 0) memcpy(*rows + at, r->gates[i].rows, r->gates[i].n_rows * sizeof **rows);
        at += r->gates[i].n_rows;
    }
    return STATUS_OK;
}

/* Reports first: what is printed last is the verdict. */
static enum status tell(const struct run_args *a, const struct gate_context *ctx,
                        const struct run_print *print, const struct run_result *r, struct err *err) {
    struct evidence *rows = NULL;
    struct report_sum sum;
    size_t n = 0;
    RETURN_IF_ERROR(gather(r, &rows, &n, err));
    enum status s = run_reports_write(&a->reports, rows, n, a->command, ctx, err);
    if (s == STATUS_OK) s = report_sum_rows(rows, n, &sum, err);
    if (s == STATUS_OK) {
        run_print_end(print, r, &sum);
        report_sum_free(&sum);
    }
    free(rows);
    return s;
}

/* The command line in one string, for reports; a long one is cut. */
static void join_command(int argc, char **argv, char *out, size_t room) {
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; i < argc && used + 1 < room; i++) {
        int n = snprintf(out + used, room - used, "%s%s", i > 0 ? " " : "", argv[i]);
        used += n > 0 ? (size_t)n : 0;
    }
}

/* forkgate-faults beside this binary, when it was built. */
static const char *faults_binary(void) {
    static char path[4096];
    (void)snprintf(path, sizeof path, "%.4000s", cli_self());
    char *slash = strrchr(path, '/');
    if (slash == NULL) return NULL;
    (void)snprintf(slash, sizeof path - (size_t)(slash - path), "/forkgate-faults");
    return access(path, X_OK) == 0 ? path : NULL;
}

static struct gate_context context_of(const struct run_args *a) {
    struct gate_context c;
    memset(&c, 0, sizeof c);
    c.model_path = a->engine.model;
    c.config = a->engine.config;
    c.source_dir = cli_source_dir();
    c.self = cli_self();
    c.full_battery = a->battery == BATTERY_FULL;
    c.small_battery = a->battery == BATTERY_SMALL;
    c.only = a->only;
    c.cause = a->cause;
    c.base = a->base;
    c.engine_cmd = a->engine_cmd;
    c.faults = faults_binary();
    c.progress = cli_progress;
    c.under = a->under;
    return c;
}

static int judge(const struct run_args *a, struct run_print *print, struct run_rounds *rounds) {
    struct run_result result;
    struct work_folder kept;
    struct err err = {""};
    if (run_reports_check(&a->reports, &rounds->options.context, &err) != STATUS_OK ||
        run_reports_keep(&a->reports, &kept, &rounds->options.context, &err) != STATUS_OK)
        return cli_fail("run", &err);
    enum status s = run_rounds(rounds, &result, &err);
    if (s == STATUS_OK) s = tell(a, &rounds->options.context, print, &result, &err);
    work_folder_remove(&kept);
    int code = s == STATUS_OK ? runner_exit_code(&result) : cli_fail("run", &err);
    runner_free(&result);
    return code;
}

static int run(int argc, char **argv) {
    struct run_args a;
    memset(&a, 0, sizeof a);
    a.tiers[TIER_PARITY] = a.tiers[TIER_SUITE] = a.tiers[TIER_IDENTITY] = 1;
    a.repeat = 1;
    a.battery = BATTERY_QUICK;
    cli_engine_default(&a.engine);
    a.engine.many_backends = 1;
    run_reports_default(&a.reports);
    join_command(argc, argv, a.command, sizeof a.command);
    cli_parse(&arguments.argp, argc, argv, &a);
    if (a.list) {
        run_print_list(gate_registry, a.tiers, a.only);
        return 0;
    }
    struct run_print print = {cli_use_colour(STDOUT_FILENO), a.verbose, 0, -1, {0}, a.engine_cmd != NULL};
    struct run_rounds rounds;
    memset(&rounds, 0, sizeof rounds);
    rounds.options.context = context_of(&a);
    rounds.options.registry = gate_registry;
    memcpy(rounds.options.tiers, a.tiers, sizeof a.tiers);
    rounds.options.keep_going = a.keep_going;
    rounds.options.class_fa = a.class_fa;
    rounds.options.timeout_scale =
        a.battery == BATTERY_FULL || a.under != NULL ? 20 : runner_patience(a.engine.model);
    rounds.options.on_result = run_print_result;
    rounds.options.on_start = run_print_start;
    rounds.options.sink = rounds.print = &print;
    rounds.backends = a.under != NULL && a.engine.backends == 0 ? 1u << BACKEND_CUDA : a.engine.backends;
    rounds.jobs = a.jobs;
    rounds.repeat = a.repeat;
    return judge(&a, &print, &rounds);
}

const struct command cmd_run = {"run", "run the gate tiers on a candidate: may this change land?",
                                &arguments.argp, run};
