/* cmd_replay.c - `forkgate replay`: force the tokens of a dump through this engine and record what it would have said. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gates/battery.h"
#include "gates/file_out.h"
#include "tools/cli_table.h"
#include "tools/commands.h"
#include "tools/dump_inputs.h"

struct replay_args {
    struct cli_engine engine;
    const char *follow, *out, *file, *text, *battery;
    int decode;
};

static const struct cli_option options[] = {
    {"follow", 0, "GOLDEN.fgd", "dump whose tokens are forced", 1, CLI_NEEDED(struct replay_args, follow)},
    {"out", 'o', "OUT.fgd", "write the dump", 1, CLI_AT(struct replay_args, out)},
    {"file", 'f', "FILE", "prompt (default: as the dump names it, from fixtures/)", 1,
     CLI_AT(struct replay_args, file)},
    {"prompt", 'p', "TEXT", "prompt text", 1, CLI_AT(struct replay_args, text)},
    {"battery", 0, "FILE.csv", "replay every dump of the folder --follow into the folder -o", 1,
     CLI_AT(struct replay_args, battery)},
    {"decode", 0, NULL, "one decode step per token instead of a chunked prefill (same bits, slower)", 1,
     CLI_AT(struct replay_args, decode)},
    CLI_LAST};

static void check(struct argp_state *state, void *args) {
    const struct replay_args *a = args;
    if ((a->text != NULL) + (a->file != NULL) + (a->battery != NULL) > 1)
        argp_error(state, "give one of -p, -f and --battery");
    if (a->battery != NULL && a->out == NULL) argp_error(state, "--battery needs -o FOLDER");
}

static const struct cli_table arguments = {
    CLI_ARGP(
        "--follow GOLDEN.fgd",
        "Teacher forcing: feed a dump's tokens to this engine and record its own top-2 and row hashes at "
        "every step, also where it would have chosen otherwise.\v"
        "Examples:\n"
        "  forkgate replay --follow a.fgd --geometry fa_tkv=64 -o control/a64.fgd\n"
        "  forkgate diff a.fgd control/a64.fgd\n"
        "  forkgate replay --battery fixtures/battery.csv --follow base/ -o control/ \\\n"
        "    --geometry fa_tkv=64\n"
        "Exit: 0 replayed, whether or not it agrees (diff judges that); 2 trouble.\n",
        cli_engine_children),
    options, NULL, check};

static void show_token(void *ctx, uint64_t done, uint64_t total) {
    (void)ctx;
    cli_progress("replay: token", done, total);
}

static enum status replay(const struct replay_args *a, const dump *follow, const char *prompt, size_t n,
                          dump **out, struct err *err) {
    const char *name = provenance_get(dump_provenance(follow), "prompt");
    engine *e = NULL;
    struct generate_request r;
    memset(&r, 0, sizeof r);
    r.prompt_name = name != NULL ? name : "-p";
    r.prompt = prompt;
    r.prompt_bytes = n;
    r.n = (int)dump_count(follow);
    r.sampler = sampler_greedy();
    r.follow = follow;
    r.out = a->out;
    RETURN_IF_ERROR(engine_open(a->engine.model, &a->engine.config, &e, err));
    show_token(NULL, 0, dump_count(follow)); /* a chunked prefill has no steps to show */
    enum status s =
        a->decode ? generate_run(e, &r, 1, 1, show_token, NULL, out, err) : generate_score(e, &r, out, err);
    cli_progress_end();
    engine_close(e);
    return s;
}

static int report(const dump *follow, const dump *d, const char *out) {
    uint64_t disagree = 0, first = UINT64_MAX, n = dump_count(d);
    for (uint64_t i = 0; i < n; i++) {
        if (dump_record_at(d, i)->id1 == dump_record_at(follow, i)->token) continue;
        if (disagree++ == 0) first = i;
    }
    struct dump_results a = dump_results(follow), b = dump_results(d);
    printf("%llu tokens forced, %llu where this engine's argmax differs", (unsigned long long)n,
           (unsigned long long)disagree);
    if (disagree > 0) printf(" (first at token %llu)", (unsigned long long)first);
    int unknown = ((dump_flags(follow) | dump_flags(d)) & DUMP_NO_HASH) != 0;
    printf(", logits hashes %s\n", unknown                            ? "unknown: a row of the dump has none"
                                   : hash_equal(&a.logits, &b.logits) ? "equal"
                                                                      : "differ");
    if (out != NULL) fprintf(stderr, "wrote %s\n", out);
    return 0;
}

static void show_progress(void *ctx, uint64_t done, uint64_t total) {
    (void)ctx;
    cli_progress("replay: stream", done, total);
}

static enum status replay_battery(const struct replay_args *a, struct err *err) {
    char prompts[4096];
    struct battery b;
    engine *e = NULL;
    (void)snprintf(prompts, sizeof prompts, "%s/fixtures/prompts", cli_source_dir());
    RETURN_IF_ERROR(battery_open(a->battery, prompts, &b, err));
    enum status s = engine_open(a->engine.model, &a->engine.config, &e, err);
    if (s == STATUS_OK) s = battery_replay(e, &b, a->follow, a->out, show_progress, NULL, err);
    cli_progress_end();
    if (s == STATUS_OK) printf("wrote %d dumps to %s\n", b.n, a->out);
    engine_close(e);
    battery_close(&b);
    return s;
}

static int run(int argc, char **argv) {
    struct replay_args a;
    struct err err = {""};
    memset(&a, 0, sizeof a);
    cli_engine_default(&a.engine);
    cli_parse(&arguments.argp, argc, argv, &a);
    const char *const inputs[] = {a.follow, a.file, a.battery, a.engine.model};
    if (file_out_spares(a.out, inputs, 4, &err) != STATUS_OK) return cli_fail("replay", &err);
    if (a.battery != NULL) return replay_battery(&a, &err) == STATUS_OK ? 0 : cli_fail("replay", &err);
    dump *follow = NULL, *d = NULL;
    char *prompt = NULL;
    size_t n = 0;
    enum status s = dump_open(a.follow, &follow, &err);
    if (s == STATUS_OK) s = dump_inputs_prompt(follow, a.file, a.text, &prompt, &n, &err);
    if (s == STATUS_OK) s = replay(&a, follow, prompt, n, &d, &err);
    int code = s == STATUS_OK ? report(follow, d, a.out) : cli_fail("replay", &err);
    free(prompt);
    dump_close(d);
    dump_close(follow);
    return code;
}

const struct command cmd_replay = {"replay", "force a dump's tokens through this engine", &arguments.argp,
                                   run};
