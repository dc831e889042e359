/* cmd_trace.c - `forkgate trace`: token ids in, one checksum per step and op out: what `explain` asks of another build. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gates/explain_tape.h"
#include "gates/file_out.h"
#include "gates/generate.h"
#include "gates/hash.h"
#include "gates/table.h"
#include "tools/cli_table.h"
#include "tools/commands.h"

struct trace_args {
    struct cli_engine engine;
    const char *tokens, *values;
    int prompt_tokens;
    struct tape_plan plan; /* what is kept; the tokens come later */
};

static void take_capture(struct argp_state *state, void *args, char *arg) {
    struct tape_plan *p = &((struct trace_args *)args)->plan;
    if (p->n_captures == TAPE_CAPTURES) argp_error(state, "--capture: at most %d positions", TAPE_CAPTURES);
    p->captures[p->n_captures++] = cli_number(state, "--capture", arg, 0, 1 << 30);
}

static const struct cli_option options[] = {
    {"tokens", 0, "FILE.csv", "token ids, column id: the prompt, then what is forced", 1,
     CLI_NEEDED(struct trace_args, tokens)},
    {"prompt-tokens", 0, "N", "how many of them are the prompt", 1,
     CLI_WITHIN(struct trace_args, prompt_tokens, 1, 1 << 30)},
    {"ops", 0, "STEP", "list the ops of this step with their checksums (0 is the prompt)", 1,
     CLI_WITHIN(struct trace_args, plan.ops_step, 0, 1 << 30)},
    {"rows", 0, "LAYER/OP/TENSOR", "keep every row of this op in that step", 1,
     CLI_AT(struct trace_args, plan.rows_of)},
    {"capture", 0, "POS", "keep every op's row at this position; at most 4 times", 1, CLI_BY(take_capture)},
    {"values", 0, "OUT.fgt", "where the values of the rows go", 1, CLI_AT(struct trace_args, values)},
    {"copy-all", 0, NULL, "copy every tensor to the host and sum it there: slow, the same sums", 1,
     CLI_AT(struct trace_args, plan.copies)},
    CLI_LAST};

static void check(struct argp_state *state, void *args) {
    const struct trace_args *a = args;
    if (a->prompt_tokens == 0) argp_error(state, "give --prompt-tokens N");
    if (a->plan.rows_of != NULL && a->plan.ops_step < 0) argp_error(state, "--rows needs --ops STEP");
    if ((a->plan.n_captures > 0 || a->plan.rows_of != NULL) && a->values == NULL)
        argp_error(state, "--capture and --rows need --values OUT.fgt");
}

static const struct cli_table arguments = {
    CLI_ARGP(
        "--tokens FILE.csv --prompt-tokens N",
        "Force token ids through this engine and print checksums of what every op left, as CSV. `forkgate "
        "explain` runs this in each of two binaries; the format belongs to one version of the tool.\v"
        "Examples:\n"
        "  printf 'id\\n1\\n2\\n3\\n' > ids.csv\n"
        "  forkgate trace --tokens ids.csv --prompt-tokens 2 --ops 0\n"
        "  forkgate trace --tokens ids.csv --prompt-tokens 2 --capture 1 \\\n"
        "    --values row1.fgt\n"
        "  forkgate trace --tokens ids.csv --prompt-tokens 2 --ops 0 \\\n"
        "    --rows 0/attention/attn --values attn.fgt --geometry fa_tkv=16\n"
        "Exit: 0 traced; 2 trouble.\n",
        cli_engine_children),
    options, NULL, check};

static enum status read_tokens(const char *path, int32_t **ids, int *n, struct err *err) {
    table *t = NULL;
    int column = -1;
    *ids = NULL;
    RETURN_IF_ERROR(table_read(path, &t, err));
    enum status s = table_need(t, "id", &column, err);
    *n = (int)table_rows(t);
    *ids = malloc((table_rows(t) + 1) * sizeof **ids);
    if (s == STATUS_OK && *ids == NULL) s = err_set(err, STATUS_NOMEM, "out of memory");
    for (size_t i = 0; s == STATUS_OK && i < table_rows(t); i++) {
        int64_t id = 0;
        s = table_integer(t, i, column, 0, INT32_MAX, &id, err);
        (*ids)[i] = (int32_t)id;
    }
    table_close(t);
    return s;
}

static void show_progress(void *ctx, uint64_t done, uint64_t total) {
    (void)ctx;
    cli_progress("trace: step", done, total);
}

static enum status check_places(const struct trace_args *a, int n, struct err *err) {
    if (a->prompt_tokens < 1 || a->prompt_tokens > n)
        return err_set(err, STATUS_USAGE, "--prompt-tokens %d: %s holds %d tokens", a->prompt_tokens,
                       a->tokens, n);
    if (a->plan.ops_step > n - a->prompt_tokens)
        return err_set(err, STATUS_USAGE, "--ops %d: the last step is %d", a->plan.ops_step,
                       n - a->prompt_tokens);
    for (int i = 0; i < a->plan.n_captures; i++)
        if (a->plan.captures[i] >= n)
            return err_set(err, STATUS_USAGE, "--capture %d: the last position is %d", a->plan.captures[i],
                           n - 1);
    return STATUS_OK;
}

/* "3/attention/attn" is layer 3, op attention, tensor attn; ops outside the layers have no number. */
static enum status describe_rows(const char *rows_of, struct provenance *p, struct err *err) {
    char key[TAPE_KEY];
    (void)snprintf(key, sizeof key, "%s", rows_of);
    char *op = strchr(key, '/'), *tensor = op == NULL ? NULL : strchr(op + 1, '/');
    if (tensor == NULL) return provenance_set(p, "tensor", key, err);
    *op++ = *tensor++ = '\0';
    RETURN_IF_ERROR(provenance_set(p, "layer", key, err));
    RETURN_IF_ERROR(provenance_set(p, "op", op, err));
    return provenance_set(p, "tensor", tensor, err);
}

/* Who made the values, and what they are: so that two files of them can be compared. */
static enum status describe_values(engine *e, const struct tape_plan *plan, struct provenance *p,
                                   struct err *err) {
    struct {
        const int32_t *ids;
        size_t n;
    } parts[] = {{plan->prompt, plan->n_prompt}, {plan->forced, (size_t)plan->n_steps - 1}};
    char text[HASH_TEXT_BYTES], pos[16 * TAPE_CAPTURES] = "";
    hash_stream *h = hash_open();
    if (h == NULL) return err_set(err, STATUS_NOMEM, "trace: out of memory");
    for (size_t i = 0; i < 2; i++) hash_update(h, parts[i].ids, parts[i].n * sizeof *parts[i].ids);
    struct hash128 tokens = hash_peek(h);
    hash_close(h);
    hash_format(&tokens, text);
    for (int i = 0; i < plan->n_captures; i++) {
        size_t used = strlen(pos);
        (void)snprintf(pos + used, sizeof pos - used, "%s%d", i == 0 ? "" : " ", plan->captures[i]);
    }
    RETURN_IF_ERROR(generate_provenance(e, p, err));
    RETURN_IF_ERROR(provenance_set(p, "tokens.xxh3", text, err));
    RETURN_IF_ERROR(provenance_setf(p, err, "prompt.tokens", "%zu", plan->n_prompt));
    if (pos[0] != '\0') RETURN_IF_ERROR(provenance_set(p, "pos", pos, err));
    if (plan->rows_of == NULL) return STATUS_OK;
    RETURN_IF_ERROR(provenance_setf(p, err, "step", "%d", plan->ops_step));
    return describe_rows(plan->rows_of, p, err);
}

static enum status trace(const struct trace_args *a, const int32_t *ids, int n, struct err *err) {
    struct tape_plan plan = a->plan;
    struct tape tape;
    struct provenance who;
    engine *e = NULL;
    RETURN_IF_ERROR(check_places(a, n, err));
    plan.prompt = ids;
    plan.n_prompt = (size_t)a->prompt_tokens;
    plan.forced = ids + a->prompt_tokens;
    plan.n_steps = n - a->prompt_tokens + 1;
    plan.progress = show_progress;
    RETURN_IF_ERROR(engine_open(a->engine.model, &a->engine.config, &e, err));
    enum status s = tape_record(e, &plan, &tape, err);
    cli_progress_end();
    provenance_init(&who);
    if (s == STATUS_OK && a->values != NULL) s = describe_values(e, &plan, &who, err);
    if (s == STATUS_OK) s = tape_write(&tape, stdout, a->values, &who, err);
    provenance_free(&who);
    tape_free(&tape);
    engine_close(e);
    return s;
}

static int run(int argc, char **argv) {
    struct trace_args a;
    struct err err = {""};
    int32_t *ids = NULL;
    int n = 0;
    memset(&a, 0, sizeof a);
    a.plan.ops_step = -1;
    cli_engine_default(&a.engine);
    cli_parse(&arguments.argp, argc, argv, &a);
    const char *const inputs[] = {a.tokens, a.engine.model};
    enum status s = file_out_spares(a.values, inputs, 2, &err);
    if (s == STATUS_OK) s = read_tokens(a.tokens, &ids, &n, &err);
    if (s == STATUS_OK) s = trace(&a, ids, n, &err);
    free(ids);
    return s == STATUS_OK ? 0 : cli_fail("trace", &err);
}

const struct command cmd_trace = {"trace", "checksums of every op along forced tokens", &arguments.argp, run};
