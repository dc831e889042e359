/* cmd_bisect.c - `forkgate bisect`: a list of builds in, the first whose stream left the golden out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gates/bisect.h"
#include "gates/explain_side.h"
#include "gates/shell_word.h"
#include "tools/cli_table.h"
#include "tools/commands.h"
#include "tools/dump_inputs.h"

struct bisect_args {
    struct cli_engine engine;
    const char *golden, *file, *text, *state;
    int n, runs, stream_only, timeout;
    const char **binaries; /* [n_binaries] */
    int n_binaries;
};

static const struct cli_option options[] = {
    {"golden", 0, "G.fgd", "the stream that a good build makes", 1, CLI_NEEDED(struct bisect_args, golden)},
    {"file", 'f', "FILE", "prompt (default: fixtures/prompts/NAME as the golden names it)", 1,
     CLI_AT(struct bisect_args, file)},
    {"prompt", 'p', "TEXT", "prompt text", 1, CLI_AT(struct bisect_args, text)},
    {"n", 'n', "N", "compare the first N tokens only (default: all the golden asked for)", 1,
     CLI_WITHIN(struct bisect_args, n, 1, 1 << 30)},
    {"stream", 0, NULL, "tokens count, hashes of the rows of logits do not", 1,
     CLI_AT(struct bisect_args, stream_only)},
    {"runs", 0, "N", "a build is good when N runs in a row are (default 1; more for races)", 1,
     CLI_WITHIN(struct bisect_args, runs, 1, 10000)},
    {"timeout", 0, "S", "seconds a run may take before the build counts as untestable (default 600)", 1,
     CLI_WITHIN(struct bisect_args, timeout, 1, 1 << 30)},
    {"state", 0, "FILE.csv", "remember every answer here, and go on from it", 1,
     CLI_AT(struct bisect_args, state)},
    CLI_LAST};

static void take_binary(struct argp_state *state, void *args, char *arg) {
    struct bisect_args *a = args;
    (void)state;
    if (a->binaries != NULL) a->binaries[a->n_binaries] = arg;
    a->n_binaries++;
}

static void check(struct argp_state *state, void *args) {
    const struct bisect_args *a = args;
    if (a->n_binaries < 2) argp_error(state, "give two binaries or more, oldest first");
    if (a->file != NULL && a->text != NULL) argp_error(state, "give one of -p TEXT and -f FILE");
}

static const struct cli_table arguments = {
    CLI_ARGP(
        "BINARY... --golden G.fgd",
        "Find the first build, in a list from old to new, whose stream or logits differ from the golden. "
        "Options and sampler are the golden's; engine options given here are put over them. Both ends are "
        "tested first; a build that crashes, hangs, refuses or is not there is "
        "untestable and stepped round, as git bisect does after exit 125.\v"
        "Exit: 0 no build differs, and the last could be tested; 1 the first one that does was found; 2 "
        "trouble, the "
        "first build differs already, or the answer hides among untestable builds.\n\n"
        "Examples:\n"
        "  forkgate bisect builds/*/forkgate --golden base.fgd --state bisect.csv\n"
        "  forkgate explain base.fgd --binary-a b41/forkgate --binary-b b42/forkgate\n\n"
        "Over commits, `git bisect run` does the search; 125 is its word for untestable:\n"
        "  git bisect start HEAD v1.0\n"
        "  git bisect run sh -c 'cmake --build build >/dev/null || exit 125\n"
        "    build/forkgate generate -f prompt.txt -n 64 -o ../new.fgd || exit 125\n"
        "    forkgate diff --bits base.fgd ../new.fgd; code=$?\n"
        "    test $code -ne 2 || exit 125; exit $code'\n"
        "where forkgate and base.fgd are copies from outside the tree that is being checked out.\n",
        cli_engine_children),
    options, take_binary, check};

/* ---- the run ----------------------------------------------------------------------------------------------------- */

struct bisect_job {
    struct bisect_args *args;
    dump *golden;
    struct bisect_item *items; /* [n_binaries] */
    struct engine_config config;
    const char *prompt_file, *prompt_text; /* one of them */
    char prompt_path[4096];
    char *prompt;
    size_t prompt_bytes;
};

static void show(void *ctx, int i, const struct bisect_item *item) {
    (void)ctx;
    printf("%4d  %-10s  %s  %s%s\n", i + 1, bisect_outcome_name(item->outcome), item->binary, item->reason,
           item->reused ? " (known)" : "");
    (void)fflush(stdout);
}

/* What a build is given: a slice of a battery is no file, so it goes as text. */
static enum status choose_prompt(struct bisect_job *job, struct err *err) {
    const struct bisect_args *a = job->args;
    job->prompt_file = a->file;
    job->prompt_text = a->text;
    if (a->file != NULL || a->text != NULL) return STATUS_OK;
    (void)snprintf(job->prompt_path, sizeof job->prompt_path, "%s/fixtures/prompts/%s", cli_source_dir(),
                   provenance_get(dump_provenance(job->golden), "prompt"));
    if (access(job->prompt_path, F_OK) == 0)
        job->prompt_file = job->prompt_path;
    else
        job->prompt_text = job->prompt;
    if (job->prompt_text == NULL || strlen(job->prompt) == job->prompt_bytes) return STATUS_OK;
    return err_set(err, STATUS_USAGE, "%s: its prompt holds a NUL: give -f FILE", a->golden);
}

/* More tokens than the golden asked for are not known to be good or bad. */
static enum status check_tokens(const struct bisect_args *a, const dump *golden, struct err *err) {
    const char *asked = provenance_get(dump_provenance(golden), "n_requested");
    uint64_t held = asked != NULL ? strtoull(asked, NULL, 10) : dump_count(golden);
    if (a->n <= 0 || (uint64_t)a->n <= held) return STATUS_OK;
    return err_set(err, STATUS_USAGE, "-n %d: %s was asked for %llu tokens", a->n, a->golden,
                   (unsigned long long)held);
}

/* Checks that prompt and model are the golden's before any build is blamed for it. */
static enum status prepare(struct bisect_job *job, int argc, char **argv, struct err *err) {
    struct bisect_args *a = job->args, scratch;
    const char *reason = NULL;
    RETURN_IF_ERROR(dump_open(a->golden, &job->golden, err));
    if (dump_first_invalid(job->golden, &reason) != UINT64_MAX)
        return err_set(err, STATUS_USAGE, "%s cannot be a golden: %s", a->golden, reason);
    RETURN_IF_ERROR(check_tokens(a, job->golden, err));
    RETURN_IF_ERROR(dump_inputs_model(job->golden, a->engine.model, err));
    RETURN_IF_ERROR(dump_inputs_prompt(job->golden, a->file, a->text, &job->prompt, &job->prompt_bytes, err));
    RETURN_IF_ERROR(choose_prompt(job, err));
    memset(&scratch, 0, sizeof scratch);
    cli_engine_default(&scratch.engine);
    RETURN_IF_ERROR(explain_config_from(dump_provenance(job->golden), &scratch.engine.config, err));
    cli_parse(&arguments.argp, argc, argv, &scratch); /* options given here, over the golden's */
    job->config = scratch.engine.config;
    job->items = calloc((size_t)a->n_binaries, sizeof *job->items);
    if (job->items == NULL) return err_set(err, STATUS_NOMEM, "out of memory");
    for (int i = 0; i < a->n_binaries; i++) job->items[i].binary = a->binaries[i];
    return STATUS_OK;
}

/* The golden names neither a model file nor the text of -p. */
static void print_next(const struct bisect_job *job, const char *good, const char *bad) {
    const struct bisect_args *a = job->args;
    struct cli_engine own;
    cli_engine_default(&own);
    const char *const words[][2] = {{"--binary-a", good},
                                    {"--binary-b", bad},
                                    {"-m", strcmp(a->engine.model, own.model) != 0 ? a->engine.model : NULL},
                                    {"-f", a->file},
                                    {"-p", a->text}};
    char command[16384] = "forkgate explain";
    int whole = shell_word_add(command, sizeof command, a->golden);
    whole =
        whole && shell_word_add_pairs(command, sizeof command, words, (int)(sizeof words / sizeof words[0]));
    if (whole) printf("next        %s\n", command);
}

static int conclude(const struct bisect_job *job, const struct bisect_result *r) {
    const struct bisect_item *items = job->items;
    int n = job->args->n_binaries;
    if (r->end == BISECT_FOUND) {
        printf("first bad   %s (%d of %d), after %s\n", items[r->first_bad].binary, r->first_bad + 1, n,
               items[r->last_good].binary);
        printf("why         %s\n", items[r->first_bad].reason);
        print_next(job, items[r->last_good].binary, items[r->first_bad].binary);
        printf("forkgate: FIRST BAD %s\n", items[r->first_bad].binary);
        return 1;
    }
    if (r->end == BISECT_AMONG) {
        printf("forkgate: FIRST BAD is one of %d to %d (%s .. %s); those between cannot be tested\n",
               r->last_good + 2, r->first_bad + 1, items[r->last_good + 1].binary,
               items[r->first_bad].binary);
        return EXIT_TROUBLE;
    }
    if (r->end == BISECT_NONE_BAD && r->last_good < n - 1) {
        printf("forkgate: NONE BAD up to %s (%d of %d); what comes after it cannot be tested\n",
               items[r->last_good].binary, r->last_good + 1, n);
        return EXIT_TROUBLE;
    }
    if (r->end == BISECT_NONE_BAD) {
        printf("forkgate: NONE BAD, up to %s\n", items[r->last_good].binary);
        return 0;
    }
    if (r->end == BISECT_ALL_BAD && r->first_bad > 0)
        printf(
            "forkgate: NO GOOD BUILD, %s (%d of %d) differs already; what comes before it cannot be tested\n",
            items[r->first_bad].binary, r->first_bad + 1, n);
    else if (r->end == BISECT_ALL_BAD)
        printf("forkgate: ALL BAD, %s differs already\n", items[r->first_bad].binary);
    else
        printf("forkgate: NONE TESTED\n");
    return EXIT_TROUBLE;
}

static int run_job(struct bisect_job *job, struct err *err) {
    const struct bisect_args *a = job->args;
    struct bisect_result result;
    struct bisect_request r;
    memset(&r, 0, sizeof r);
    r.items = job->items;
    r.n = a->n_binaries;
    r.golden = job->golden;
    r.model = a->engine.model;
    r.prompt_file = job->prompt_file;
    r.prompt_text = job->prompt_text;
    r.n_tokens = a->n;
    r.config = &job->config;
    r.stream_only = a->stream_only;
    r.runs = a->runs;
    r.timeout_s = (double)a->timeout;
    r.state = a->state;
    r.tested = show;
    if (bisect_run(&r, &result, err) != STATUS_OK) return cli_fail("bisect", err);
    return conclude(job, &result);
}

static int run(int argc, char **argv) {
    struct bisect_args a;
    struct bisect_job job;
    struct err err = {""};
    memset(&a, 0, sizeof a);
    memset(&job, 0, sizeof job);
    cli_engine_default(&a.engine);
    a.runs = 1;
    a.timeout = 600;
    a.binaries = calloc((size_t)argc + 1, sizeof *a.binaries);
    if (a.binaries == NULL) {
        (void)err_set(&err, STATUS_NOMEM, "out of memory");
        return cli_fail("bisect", &err);
    }
    cli_parse(&arguments.argp, argc, argv, &a);
    job.args = &a;
    int code = prepare(&job, argc, argv, &err) == STATUS_OK ? run_job(&job, &err) : cli_fail("bisect", &err);
    dump_close(job.golden);
    free(job.prompt);
    free(job.items);
    free(a.binaries);
    return code;
}

const struct command cmd_bisect = {"bisect", "find the first build whose stream left the golden",
                                   &arguments.argp, run};
