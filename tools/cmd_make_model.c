/* cmd_make_model.c - `forkgate make-model`: a valid model of real size without a download. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/make_model.h"
#include "gates/file_out.h"
#include "tools/cli_table.h"
#include "tools/commands.h"

static const struct cli_option options[] = {
    {"shape", 0, "NAME",
     "synthetic weights in this shape: tiny, seedling-like, qwen2.5-0.5b, -1.5b, -7b, -14b, llama-8b "
     "(default tiny)",
     1, CLI_AT(struct make_model_request, shape)},
    {"arch", 0, "NAME", "llama, qwen2 or qwen3 (default: the shape's own)", 1,
     CLI_AT(struct make_model_request, arch)},
    {"from", 0, "FILE", "requantise this F32, F16 or BF16 model instead", 1,
     CLI_AT(struct make_model_request, from)},
    {"quant", 0, "TYPE", "q4_k_m (mixed) or one storage type: f16, q8_0, q4_0, q6_k, .. (default q8_0)", 1,
     CLI_AT(struct make_model_request, quant)},
    {"seed", 0, "N", "stream of the weights (default 0)", 1, CLI_AT(struct make_model_request, seed)},
    CLI_LAST};

static void take_out(struct argp_state *state, void *args, char *arg) {
    struct make_model_request *r = args;
    if (r->out != NULL) argp_error(state, "unexpected argument '%s'", arg);
    r->out = arg;
}

static void check(struct argp_state *state, void *args) {
    const struct make_model_request *r = args;
    if (r->out == NULL) argp_error(state, "give the file to write");
    if (r->from != NULL && r->seed != 0) argp_error(state, "--seed is for synthetic weights, not for --from");
}

static const struct cli_table arguments = {
    CLI_ARGP("OUT.gguf",
             "Write a GGUF model with deterministic random weights, or a requantised copy of a real one.\v"
             "Examples:\n"
             "  forkgate make-model --shape qwen2.5-7b --quant q4_k_m --seed 7 7b.gguf\n"
             "  forkgate make-model --quant q4_k_m mixed.gguf \\\n"
             "    --from fixtures/models/seedling-f16.gguf\n"
             "Exit: 0 written; 2 trouble, nothing written.\n",
             NULL),
    options, take_out, check};

static void show_progress(void *ctx, uint64_t done, uint64_t total) {
    (void)ctx;
    cli_progress("make-model: MiB", done >> 20, total >> 20);
}

static int run(int argc, char **argv) {
    struct make_model_request r;
    struct err err = {""};
    memset(&r, 0, sizeof r);
    r.quant = "q8_0";
    r.progress = show_progress;
    cli_parse(&arguments.argp, argc, argv, &r);
    enum status s = file_out_spares(r.out, &r.from, 1, &err);
    if (s == STATUS_OK) s = make_model(&r, &err);
    cli_progress_end();
    if (s != STATUS_OK) return cli_fail("make-model", &err);
    printf("wrote %s\n", r.out);
    return 0;
}

const struct command cmd_make_model = {"make-model", "write a model file: synthetic, or requantised",
                                       &arguments.argp, run};
