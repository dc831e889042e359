/* cmd_make_model.c - `forkgate make-model`: a valid model of real size without a download. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/make_model.h"
#include "tools/commands.h"

enum { OPT_SHAPE = 0x200, OPT_ARCH, OPT_FROM, OPT_QUANT, OPT_SEED };

static const struct argp_option options[] = {
    {"shape", OPT_SHAPE, "NAME", 0,
     "synthetic weights in this shape: tiny, seedling-like, qwen2.5-0.5b, -1.5b, -7b, -14b, llama-8b "
     "(default tiny)",
     1},
    {"arch", OPT_ARCH, "NAME", 0, "llama, qwen2 or qwen3 (default: the shape's own)", 1},
    {"from", OPT_FROM, "FILE", 0, "requantise this F32, F16 or BF16 model instead", 1},
    {"quant", OPT_QUANT, "TYPE", 0,
     "q4_k_m (mixed) or one storage type: f16, q8_0, q4_0, q6_k, .. (default q8_0)", 1},
    {"seed", OPT_SEED, "N", 0, "stream of the weights (default 0)", 1},
    {NULL, 0, NULL, 0, NULL, 0}};

static error_t parse(int key, char *arg, struct argp_state *state) {
    struct make_model_request *r = state->input;
    char *end = NULL;
    switch (key) {
    case OPT_SHAPE:
        r->shape = arg;
        return 0;
    case OPT_ARCH:
        r->arch = arg;
        return 0;
    case OPT_FROM:
        r->from = arg;
        return 0;
    case OPT_QUANT:
        r->quant = arg;
        return 0;
    case OPT_SEED:
        r->seed = strtoull(arg, &end, 10);
        if (end == arg || *end != '\0' || arg[0] == '-')
            argp_error(state, "--seed %s: not a whole number", arg);
        return 0;
    case ARGP_KEY_ARG:
        if (r->out != NULL) argp_error(state, "unexpected argument '%s'", arg);
        r->out = arg;
        return 0;
    case ARGP_KEY_END:
        if (r->out == NULL) argp_error(state, "give the file to write");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    options,
    parse,
    "OUT.gguf",
    "Write a GGUF model with deterministic random weights, or a requantised copy of a real one.\v"
    "Examples:\n"
    "  forkgate make-model --shape qwen2.5-7b --quant q4_k_m --seed 7 7b.gguf\n"
    "  forkgate make-model --from fixtures/models/seedling-f16.gguf --quant q4_k_m mixed.gguf\n",
    NULL,
    NULL,
    NULL};

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
    cli_parse(&argp, argc, argv, &r);
    enum status s = make_model(&r, &err);
    cli_progress_end();
    if (s != STATUS_OK) return cli_fail("make-model", &err);
    printf("wrote %s\n", r.out);
    return 0;
}

const struct command cmd_make_model = {"make-model", "write a model file: synthetic, or requantised", &argp,
                                       run};
