/* cmd_explain.c - `forkgate explain`: two dumps, two geometries or two binaries in; the op that moved first out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gates/explain_report.h"
#include "gates/file_out.h"
#include "gates/shell_word.h"
#include "tools/cli_table.h"
#include "tools/commands.h"
#include "tools/dump_inputs.h"

#define ENV_MAX    8
#define FILE_WIDTH 110 /* of a paragraph that goes to a file */

struct explain_args {
    struct cli_engine engine;
    const char *paths[2];
    int n_paths;
    const char *binary[2];
    const char *env[2][ENV_MAX + 1];
    int n_env[2];
    const char *file, *text, *csv, *margins;
    enum table_eol eol;
    int n, all_ops, copies, timeout;
};

static void add_env(struct argp_state *state, struct explain_args *a, int side, const char *arg) {
    if (strchr(arg, '=') == NULL || arg[0] == '=')
        argp_error(state, "--env-%c %s: want NAME=VALUE", 'a' + side, arg);
    if (a->n_env[side] == ENV_MAX) argp_error(state, "--env-%c: at most %d", 'a' + side, ENV_MAX);
    a->env[side][a->n_env[side]++] = arg;
}

static void take_env_a(struct argp_state *state, void *args, char *arg) {
    add_env(state, args, 0, arg);
}

static void take_env_b(struct argp_state *state, void *args, char *arg) {
    add_env(state, args, 1, arg);
}

static const struct cli_option options[] = {
    {"binary-a", 0, "PATH", "the forkgate binary that is side A (default: this one)", 1,
     CLI_AT(struct explain_args, binary[0])},
    {"binary-b", 0, "PATH", "the same for side B", 1, CLI_AT(struct explain_args, binary[1])},
    {"env-a", 0, "NAME=VALUE", "environment of side A's binary; may be repeated", 1, CLI_BY(take_env_a)},
    {"env-b", 0, "NAME=VALUE", "the same for side B", 1, CLI_BY(take_env_b)},
    {"timeout", 0, "S",
     "seconds a run of a side's binary may take before it is killed (default 600; up to three runs a side)",
     1, CLI_WITHIN(struct explain_args, timeout, 1, 1 << 30)},
    {"file", 'f', "FILE", "prompt (default: fixtures/prompts/NAME as the dump names it)", 1,
     CLI_AT(struct explain_args, file)},
    {"prompt", 'p', "TEXT", "prompt text", 1, CLI_AT(struct explain_args, text)},
    {"n", 'n', "N", "steps at most (default: to the fork, or to the end of A)", 1,
     CLI_WITHIN(struct explain_args, n, 1, 1 << 30)},
    {"all-ops", 0, NULL, "growth of every op, not only of the residual stream", 1,
     CLI_AT(struct explain_args, all_ops)},
    {"copy-all", 0, NULL,
     "copy every tensor to the host and compare there, instead of screening it where it lies: slow, a check "
     "of the screen",
     1, CLI_AT(struct explain_args, copies)},
    {"csv", 0, "FILE", "write one row per op of every step looked at", 1, CLI_AT(struct explain_args, csv)},
    {"margins", 0, "FILE", "write one row per step: both sides' top-2 and argmax margin", 1,
     CLI_AT(struct explain_args, margins)},
    {"eol", 0, "crlf|lf", "line ends of the CSV files (default crlf, as RFC 4180 asks)", 1,
     CLI_AT(struct explain_args, eol)},
    CLI_LAST};

static void take_path(struct argp_state *state, void *args, char *arg) {
    struct explain_args *a = args;
    if (a->n_paths == 2) argp_error(state, "unexpected argument '%s': one dump or two", arg);
    a->paths[a->n_paths++] = arg;
}

static void check(struct argp_state *state, void *args) {
    const struct explain_args *a = args;
    if (a->n_paths == 0) argp_error(state, "give a dump A.fgd, and B.fgd, engine options or --binary-b");
    if (a->file != NULL && a->text != NULL) argp_error(state, "give one of -p TEXT and -f FILE");
    for (int side = 0; side < 2; side++)
        if (a->n_env[side] > 0 && a->binary[side] == NULL)
            argp_error(state, "--env-%c needs --binary-%c", 'a' + side, 'a' + side);
}

static const struct cli_table arguments = {
    CLI_ARGP(
        "A.fgd B.fgd\nA.fgd --geometry KEY=N,..\nA.fgd --binary-b PATH",
        "Name the first op whose bits differ, and say what kind of difference it is. Both sides are rebuilt "
        "from the dumps' provenance and forced along A's tokens to the fork. With one dump, engine options "
        "are those of side B, over what A was made with; with two, they apply to both sides.\v"
        "Verdicts: IDENTICAL (exit 0); REGROUPING, WRONG-VALUE, UNWRITTEN, STALE, ARITHMETIC, SAMPLING, "
        "NOT-REPEATABLE (exit 1); NOT-REPRODUCED (exit 2: the dumps differ, the sides as rebuilt here do "
        "not) and trouble (exit 2).\n\n"
        "Examples:\n"
        "  forkgate explain a.fgd b.fgd\n"
        "  forkgate explain a.fgd --geometry fa_tkv=16 --csv growth.csv\n"
        "  forkgate explain a.fgd --binary-a base/forkgate --binary-b head/forkgate\n"
        "  forkgate explain a.fgd --binary-b build/forkgate-faults \\\n"
        "    --env-b FORKGATE_FAULT=norm-tail\n",
        cli_engine_children),
    options, take_path, check};

/* ---- sides ----------------------------------------------------------------------------------------------------- */

struct explain_job {
    struct explain_args *args;
    int argc;
    char **argv;
    dump *dumps[2];
    struct explain_side sides[2];
    char *prompt;
    size_t prompt_bytes;
    int32_t *ids;
    size_t n_ids;
    char next[1200];
};

/* Options given on the command line are put over what a dump says: they are parsed again, on top of it. */
static enum status configure(struct explain_job *job, int side, const dump *d, int with_options,
                             struct err *err) {
    struct explain_args scratch;
    memset(&scratch, 0, sizeof scratch);
    cli_engine_default(&scratch.engine);
    enum status s = explain_config_from(dump_provenance(d), &scratch.engine.config, err);
    if (s != STATUS_OK) return err_prefix(err, s, "%s", dump_name(d));
    if (with_options) cli_parse(&arguments.argp, job->argc, job->argv, &scratch);
    struct explain_side *out = &job->sides[side];
    out->model = job->args->engine.model;
    out->config = scratch.engine.config;
    out->binary = job->args->binary[side];
    out->env = job->args->env[side];
    out->timeout_s = job->args->timeout;
    return STATUS_OK;
}

static enum status open_dumps(struct explain_job *job, struct err *err) {
    for (int i = 0; i < job->args->n_paths; i++)
        RETURN_IF_ERROR(dump_open(job->args->paths[i], &job->dumps[i], err));
    if (job->dumps[1] == NULL) return STATUS_OK;
    for (int i = 0; i < 2; i++)
        if (job->args->binary[i] == NULL && !dump_inputs_ours(job->dumps[i]))
            return err_set(
                err, STATUS_USAGE,
                "%s: another engine made it, which cannot be run here; one dump and options for the "
                "other side go along any stream",
                job->args->paths[i]);
    static const char *const keys[] = {"model.xxh3", "prompt.xxh3", "n_vocab"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const char *a = provenance_get(dump_provenance(job->dumps[0]), keys[i]);
        const char *b = provenance_get(dump_provenance(job->dumps[1]), keys[i]);
        if (a != NULL && b != NULL && strcmp(a, b) != 0)
            return err_set(err, STATUS_USAGE, "%s and %s: not comparable, %s differs (%s, %s)",
                           job->args->paths[0], job->args->paths[1], keys[i], a, b);
    }
    return STATUS_OK;
}

static enum status refuse_equal_sides(const struct explain_job *job, struct err *err) {
    const struct explain_side *a = &job->sides[0], *b = &job->sides[1];
    if (job->dumps[1] != NULL || a->binary != NULL || b->binary != NULL) return STATUS_OK;
    if (memcmp(&a->config, &b->config, sizeof a->config) != 0) return STATUS_OK;
    return err_set(err, STATUS_USAGE,
                   "both sides would be the same engine with the same options: give B.fgd, an engine option "
                   "that differs from %s, or --binary-b",
                   job->args->paths[0]);
}

/* The ids come from this build's tokenizer, whatever computes the sides. */
static enum status encode(struct explain_job *job, struct err *err) {
    const struct explain_args *a = job->args;
    engine *e = NULL;
    RETURN_IF_ERROR(dump_inputs_model(job->dumps[0], a->engine.model, err));
    RETURN_IF_ERROR(
        dump_inputs_prompt(job->dumps[0], a->file, a->text, &job->prompt, &job->prompt_bytes, err));
    int side = job->sides[0].binary == NULL ? 0 : 1; /* an engine that is wanted anyway, when there is one */
    RETURN_IF_ERROR(engine_open(a->engine.model, &job->sides[side].config, &e, err));
    enum status s = engine_encode(e, job->prompt, job->prompt_bytes, 1, &job->ids, &job->n_ids, err);
    if (job->sides[side].binary == NULL)
        job->sides[side].engine = e;
    else
        engine_close(e);
    const char *recorded = provenance_get(dump_provenance(job->dumps[0]), "prompt.tokens");
    if (s == STATUS_OK && recorded != NULL && strtoul(recorded, NULL, 10) != job->n_ids)
        return err_set(err, STATUS_USAGE,
                       "%s: the prompt is %zu tokens here, %s in the dump: another tokenizer", a->paths[0],
                       job->n_ids, recorded);
    return s;
}

static enum status prepare(struct explain_job *job, struct err *err) {
    RETURN_IF_ERROR(open_dumps(job, err));
    int two = job->dumps[1] != NULL;
    RETURN_IF_ERROR(configure(job, 0, job->dumps[0], two, err));
    RETURN_IF_ERROR(configure(job, 1, two ? job->dumps[1] : job->dumps[0], 1, err));
    RETURN_IF_ERROR(refuse_equal_sides(job, err));
    return encode(job, err);
}

static void clean(struct explain_job *job) {
    for (int i = 0; i < 2; i++) {
        explain_side_close(&job->sides[i]);
        dump_close(job->dumps[i]);
    }
    free(job->ids);
    free(job->prompt);
}

/* ---- the end ---------------------------------------------------------------------------------------------------- */

static int geometry_equal(const struct geometry *a, const struct geometry *b) {
    return memcmp(a, b, sizeof *a) == 0;
}

/* The next command is the side's: its binary in its environment, and what was asked of it that is not the default. Of the
 * geometry only who wants it: no gate of one op takes it from a user. */
static void next_of_side(struct explain_job *job, int k, const char *rest, int with_geometry) {
    const struct explain_side *side = &job->sides[k];
    const struct engine_config *c = &side->config;
    struct cli_engine own;
    cli_engine_default(&own);
    const enum route route = own.config.compute.route;
    char geometry[96], text[sizeof job->next] = "";
    int whole = 1;
    if (side->binary != NULL && side->env != NULL && side->env[0] != NULL) {
        whole = shell_word_add(text, sizeof text, "env");
        for (int i = 0; side->env[i] != NULL; i++)
            whole = whole && shell_word_add(text, sizeof text, side->env[i]);
    }
    whole = whole && shell_word_add(text, sizeof text, side->binary != NULL ? side->binary : "forkgate");
    geometry_format(&c->compute.geometry, geometry, sizeof geometry);
    const char *const words[][2] = {
        {"--backend", c->backend != own.config.backend ? "cuda" : NULL},
        {"-m", strcmp(side->model, own.model) != 0 ? side->model : NULL},
        {"--route", with_geometry && c->compute.route != route ? route_name(c->compute.route) : NULL},
        {"--geometry", with_geometry ? geometry : NULL}};
    size_t used = strlen(text);
    whole = whole && snprintf(text + used, sizeof text - used, " %s", rest) < (int)(sizeof text - used);
    whole = whole && shell_word_add_pairs(text, sizeof text, words, (int)(sizeof words / sizeof words[0]));
    (void)snprintf(job->next, sizeof job->next, "%s", whole ? text + 1 : "");
}

/* A regrouping by geometry is a change of class fa: the tier that judges it, for the side that is not the default. */
static void next_for_class_fa(struct explain_job *job) {
    const struct geometry *b = &job->sides[1].config.compute.geometry;
    const struct geometry own = geometry_default(job->sides[1].config.compute.arch);
    next_of_side(job, geometry_equal(b, &own) ? 0 : 1, "run --class fa --cause TEXT", 1);
}

/* A command about the first n dumps; none where it would not fit. */
static int next_with_dumps(struct explain_job *job, const char *command, int n) {
    int whole = 1;
    (void)snprintf(job->next, sizeof job->next, "%s", command);
    for (int i = 0; i < n; i++)
        whole = whole && shell_word_add(job->next, sizeof job->next, job->args->paths[i]);
    if (!whole) job->next[0] = '\0';
    return whole;
}

/* What no dump holds is said again, or named in capitals. */
static void next_with_binaries(struct explain_job *job) {
    const struct explain_args *a = job->args;
    struct cli_engine own;
    cli_engine_default(&own);
    const char *const words[][2] = {{"--binary-a", "PATH"},
                                    {"--binary-b", "PATH"},
                                    {"-m", strcmp(a->engine.model, own.model) != 0 ? a->engine.model : NULL},
                                    {"-f", a->file},
                                    {"-p", a->text}};
    if (!next_with_dumps(job, "forkgate explain", a->n_paths) ||
        !shell_word_add_pairs(job->next, sizeof job->next, words, (int)(sizeof words / sizeof words[0])))
        job->next[0] = '\0';
}

static const char *next_command(struct explain_job *job, const struct explain_result *r) {
    char gate[160];
    job->next[0] = '\0';
    switch (r->verdict) {
    case EXPLAIN_REGROUPING:
        if (!geometry_equal(&job->sides[0].config.compute.geometry, &job->sides[1].config.compute.geometry))
            next_for_class_fa(job);
        else if (job->args->n_paths == 2)
            (void)next_with_dumps(job, "forkgate diff", 2);
        break;
    case EXPLAIN_WRONG_VALUE:
    case EXPLAIN_UNWRITTEN:
    case EXPLAIN_STALE:
        (void)snprintf(gate, sizeof gate, "run --tier parity --only op.%s", r->first.op);
        next_of_side(job, 1, gate, 0);
        break;
    case EXPLAIN_NOT_REPRODUCED:
        next_with_binaries(job);
        break;
    case EXPLAIN_SAMPLING:
        (void)next_with_dumps(job, "forkgate inspect", 1);
        break;
    case EXPLAIN_IDENTICAL:
    case EXPLAIN_ARITHMETIC:
    case EXPLAIN_NOT_REPEATABLE:
        break;
    }
    return job->next[0] != '\0' ? job->next : NULL;
}

static void show_progress(void *ctx, const char *what, uint64_t done, uint64_t total) {
    char label[64];
    (void)ctx;
    (void)snprintf(label, sizeof label, "explain: %s", what);
    cli_progress(label, done, total);
}

static int report(struct explain_job *job, const struct explain_request *r, const struct explain_result *e) {
    const struct explain_args *a = job->args;
    struct err err = {""};
    struct explain_view view = {{a->paths[0], a->n_paths == 2 ? a->paths[1] : "side B"},
                                a->all_ops,
                                isatty(STDOUT_FILENO) ? cli_width(STDOUT_FILENO) : FILE_WIDTH,
                                next_command(job, e)};
    explain_report_text(stdout, r, e, &view);
    printf("forkgate: %s\n", explain_verdict_name(e->verdict));
    if (a->csv != NULL && explain_report_csv(a->csv, a->eol, e, &err) != STATUS_OK)
        return cli_fail("explain", &err);
    if (a->margins != NULL && explain_margins_csv(a->margins, a->eol, e, &err) != STATUS_OK)
        return cli_fail("explain", &err);
    return explain_exit_code(e->verdict);
}

/* Before minutes of work. */
static enum status check_files(const struct explain_args *a, struct err *err) {
    const char *const inputs[] = {a->paths[0],  a->paths[1],  a->file,
                                  a->binary[0], a->binary[1], a->engine.model};
    const char *const outputs[] = {a->csv, a->margins};
    for (int i = 0; i < 2; i++) {
        if (outputs[i] == NULL) continue;
        RETURN_IF_ERROR(file_out_check(outputs[i], 1, err));
        RETURN_IF_ERROR(file_out_spares(outputs[i], inputs, (int)(sizeof inputs / sizeof inputs[0]), err));
    }
    if (a->csv != NULL && a->margins != NULL && file_out_is_one(a->csv, a->margins))
        return err_set(err, STATUS_USAGE, "%s: two reports in one file", a->margins);
    return STATUS_OK;
}

static int run(int argc, char **argv) {
    struct explain_args a;
    struct explain_job job;
    struct explain_result result;
    struct err err = {""};
    memset(&a, 0, sizeof a);
    memset(&job, 0, sizeof job);
    a.timeout = 600;
    cli_engine_default(&a.engine);
    cli_parse(&arguments.argp, argc, argv, &a);
    job.args = &a;
    job.argc = argc;
    job.argv = argv;
    int code = EXIT_TROUBLE;
    if (check_files(&a, &err) == STATUS_OK && prepare(&job, &err) == STATUS_OK) {
        struct explain_request r = {&job.sides[0], &job.sides[1], job.ids,  job.n_ids,     job.dumps[0],
                                    job.dumps[1],  a.n,           a.copies, show_progress, NULL};
        enum status s = explain_run(&r, &result, &err);
        cli_progress_end();
        code = s == STATUS_OK ? report(&job, &r, &result) : cli_fail("explain", &err);
        explain_free(&result);
    } else {
        (void)cli_fail("explain", &err);
    }
    clean(&job);
    return code;
}

const struct command cmd_explain = {"explain", "name the first op whose bits differ between two sides",
                                    &arguments.argp, run};
