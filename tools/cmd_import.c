/* cmd_import.c - `forkgate import`: another engine's tokens, as CSV or as a server answered, become a dump; its array a tensor. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gates/file_out.h"
#include "gates/import.h"
#include "gates/import_json.h"
#include "gates/import_npy.h"
#include "gates/file_map.h"
#include "gates/tensor_diff.h"
#include "tools/cli_table.h"
#include "tools/commands.h"

enum format { FORMAT_AUTO, FORMAT_CSV, FORMAT_JSON, FORMAT_NPY };

struct import_args {
    const char *path, *out, *tokenizer;
    int format, dtype;                   /* places in the lists of words; dtype -1: not given */
    int keep_nan, bf16, partial, choice; /* choice -1: there must be one */
    struct provenance extra;
};

static void add_provenance(struct argp_state *state, void *args, char *arg) {
    struct provenance *p = &((struct import_args *)args)->extra;
    struct err err = {""};
    const char *equals = strchr(arg, '=');
    char key[128];
    size_t n = equals == NULL ? 0 : (size_t)(equals - arg);
    if (equals == NULL || n >= sizeof key) {
        argp_error(state, "--provenance %s: want KEY=VALUE", arg);
        return;
    }
    memcpy(key, arg, n);
    key[n] = '\0';
    if (provenance_get(p, key) != NULL) argp_error(state, "--provenance: %s is given twice", key);
    if (provenance_set(p, key, equals + 1, &err) != STATUS_OK)
        argp_error(state, "--provenance: %s", err.message);
}

static const struct cli_option options[] = {
    {"out", 'o', "OUT", "the dump (.fgd) or tensor (.fgt) to write (required)", 1,
     CLI_AT(struct import_args, out)},
    {"provenance", 'P', "KEY=VALUE",
     "who made it: model.xxh3, sampler, repeat_penalty, logits, ..; of a tensor op, layer, input.xxh3, ..; "
     "repeat as needed",
     1, CLI_BY(add_provenance)},
    {"format", 0, "auto|csv|json|npy", "what FILE is (default: what it starts like; else CSV)", 1,
     CLI_AT(struct import_args, format)},
    {"keep-nan", 0, NULL,
     "accept NaN and infinite values in a CSV or an array: it is INVALID when it is judged", 1,
     CLI_AT(struct import_args, keep_nan)},
    {"bf16", 0, NULL, "the array's 16-bit words (u2) are bf16, which NumPy does not have", 1,
     CLI_AT(struct import_args, bf16)},
    CLI_HEADER("Answers of a server:", 2),
    {"tokenizer", 0, "GGUF", "resolve token ids from bytes, and check those that are given", 2,
     CLI_AT(struct import_args, tokenizer)},
    {"logits-dtype", 0, "f32|bf16|f16",
     "dtype of the logits behind the logprobs: gaps then count in ULPs too", 2,
     CLI_AT(struct import_args, dtype)},
    {"choice", 0, "N", "which of several choices (default: there must be one)", 2,
     CLI_WITHIN(struct import_args, choice, 0, 1 << 20)},
    {"partial", 0, NULL,
     "accept tokens without top-2, fewer than the server counted, and an answer that it gave up", 2,
     CLI_AT(struct import_args, partial)},
    CLI_LAST};

static void take_path(struct argp_state *state, void *args, char *arg) {
    struct import_args *a = args;
    if (a->path != NULL) argp_error(state, "unexpected argument '%s': one file at a time", arg);
    a->path = arg;
}

static void check(struct argp_state *state, void *args) {
    const struct import_args *a = args;
    if (a->path == NULL || a->out == NULL) argp_error(state, "give FILE and -o OUT.fgd");
}

static const struct cli_table arguments = {
    CLI_ARGP(
        "FILE -o OUT.fgd\nARRAY.npy -o OUT.fgt",
        "Make a dump from what another engine generated, so that diff can judge its stream. FILE: a CSV, or "
        "the "
        "answer "
        "of a server with logprobs: llama.cpp /completion (n_probs), OpenAI-style /v1/completions and "
        "/v1/chat/completions (vLLM, SGLang, TensorRT-LLM, llama.cpp), streamed (curl -N) or not. ARRAY.npy: "
        "what a kernel left, as NumPy saves it (float32, float16, or bf16 as 16-bit words); it becomes a "
        "tensor "
        "for diff.\v"
        "Answers: ask for at least the top 2 of every token. Logprobs are not logits: gaps between them mean "
        "the "
        "same, "
        "ULPs mean nothing unless --logits-dtype says what the logits were. Without ids streams are compared "
        "by "
        "bytes; "
        "--tokenizer gives them ids. Broken JSON, a duplicate key, NaN, a missing top-2, two tokenizers in "
        "one "
        "stream, or a "
        "stream that was cut: refused with line and byte. An OpenAI-style answer does not say how it was "
        "sampled: "
        "say it with -P.\n\n"
        "CSV columns (step and one of the token columns are required; an empty cell is unknown): step, "
        "token_id, "
        "token_bytes_hex, token_text_escaped, token_text, id1, logit1, id2, logit2, unit (logit or logprob), "
        "logsumexp, "
        "end (1 on the token that ends the stream), row_hash, top_k, logits: what forkgate inspect prints. "
        "Lines "
        "'# key=value' before the header are provenance. Any row that does not fit is an error with its "
        "record "
        "and line.\n\n"
        "Examples:\n"
        "  curl -N localhost:8080/completion >a.sse -d \\\n"
        "    '{\"prompt\":\"..\",\"temperature\":0,\"n_probs\":2,\"stream\":true}'\n"
        "  forkgate import a.sse -o a.fgd --tokenizer model.gguf\n"
        "  forkgate import vllm.json -o v.fgd --logits-dtype bf16 \\\n"
        "    -P sampler=greedy -P repeat_penalty=1\n"
        "  forkgate import stream.csv -o s.fgd \\\n"
        "    -P sampler=greedy -P repeat_penalty=1 -P logits=bf16\n"
        "  forkgate inspect --provenance a.fgd > a.csv\n"
        "  forkgate import a.csv -o copy.fgd && forkgate diff a.fgd copy.fgd\n"
        "  forkgate import graph.npy -o graph.fgt --bf16 -P tool=flashinfer \\\n"
        "    -P op=attention -P layer=3 -P input.xxh3=8a1f -P bound=32768\n"
        "Exit: 0 written; 2 refused, nothing written.\n",
        NULL),
    options, take_path, check};

static uint64_t count_of(const dump *d, const char *key) {
    const char *value = provenance_get(dump_provenance(d), key);
    return value == NULL ? 0 : strtoull(value, NULL, 10);
}

/* What a comparison will not be able to know. */
static void print_notes(const dump *d) {
    const struct dump_record *first = dump_count(d) > 0 ? dump_record_at(d, 0) : NULL;
    const char *reason = NULL;
    uint64_t bad = dump_first_invalid(d, &reason);
    if (first == NULL) fprintf(stderr, "note: no record: there is nothing that diff could compare\n");
    if (bad != UINT64_MAX)
        fprintf(stderr, "note: diff will call it INVALID from record %llu on: %s\n", (unsigned long long)bad,
                reason);
    if (dump_first_without_id(d) != UINT64_MAX)
        fprintf(stderr, "note: from record %llu on there are no ids: compared by bytes (--tokenizer GGUF)\n",
                (unsigned long long)dump_first_without_id(d));
    if (first != NULL && (first->flags & DUMP_LOGPROBS))
        fprintf(stderr, "note: logprobs: gaps count, ULPs %s\n",
                provenance_get(dump_provenance(d), "logits") != NULL ? "in the dtype that was declared"
                                                                     : "do not (--logits-dtype)");
    if (provenance_get(dump_provenance(d), "sampler") == NULL ||
        provenance_get(dump_provenance(d), "repeat_penalty") == NULL)
        fprintf(stderr,
                "note: how it was sampled is not told: diff refuses it against a stream that tells it "
                "(-P sampler=greedy -P repeat_penalty=1)\n");
    static const char *const counted[][2] = {
        {"import.lossy", "tokens whose bytes the server did not give"},
        {"import.ambiguous", "texts that more than one token has: the last plain one was taken"},
        {"import.without_top2", "tokens without top-2"},
        {"import.blanks_lost",
         "blanks of the text are in no token: its bytes are like those of the same server only"}};
    for (size_t i = 0; i < sizeof counted / sizeof counted[0]; i++)
        if (count_of(d, counted[i][0]) > 0)
            fprintf(stderr, "note: %llu %s\n", (unsigned long long)count_of(d, counted[i][0]), counted[i][1]);
}

static void report(const dump *d, const char *out) {
    char stream[HASH_TEXT_BYTES];
    struct dump_results r = dump_results(d);
    hash_format(&r.stream, stream);
    fprintf(stderr, "%llu records, stream %s\nwrote %s\n", (unsigned long long)dump_count(d), stream, out);
    print_notes(d);
}

static enum status check_options(const struct import_args *a, enum format f, struct err *err) {
    if (f != FORMAT_JSON && (a->tokenizer != NULL || a->dtype >= 0 || a->choice >= 0 || a->partial))
        return err_set(
            err, STATUS_USAGE,
            "%s is %s: --tokenizer, --logits-dtype, --choice and --partial are for answers of a server",
            a->path, f == FORMAT_NPY ? "an array" : "a CSV");
    if (f != FORMAT_NPY && a->bf16)
        return err_set(err, STATUS_USAGE, "%s is %s: --bf16 is for arrays (.npy)", a->path,
                       f == FORMAT_JSON ? "an answer of a server" : "a CSV");
    return STATUS_OK;
}

static enum status import_tensor(const struct import_args *a, struct err *err) {
    const struct import_npy_options o = {a->bf16, a->keep_nan};
    tensor_dump *t = NULL;
    char shape[96], hash[HASH_TEXT_BYTES];
    RETURN_IF_ERROR(import_npy(a->path, &o, &a->extra, a->out, err));
    RETURN_IF_ERROR(tensor_dump_open(a->out, &t, err));
    struct hash128 h = tensor_dump_hash(t);
    hash_format(&h, hash);
    tensor_shape_text(t, shape, sizeof shape);
    fprintf(stderr, "%s, tensor %s\nwrote %s\n", shape, hash, a->out);
    if (provenance_get(&a->extra, "op") == NULL && provenance_get(&a->extra, "tensor") == NULL)
        fprintf(stderr,
                "note: what it is is not told: diff will know its shape only (-P op=attention -P layer=3 "
                "-P input.xxh3=..)\n");
    tensor_dump_close(t);
    return STATUS_OK;
}

static enum format format_of(const struct import_args *a) {
    if (a->format != FORMAT_AUTO) return (enum format)a->format;
    if (file_map_starts(a->path, IMPORT_NPY_MAGIC)) return FORMAT_NPY;
    return import_json_looks(a->path) ? FORMAT_JSON : FORMAT_CSV;
}

/* *d stays NULL when it was a tensor, which is told already. */
static enum status import_any(const struct import_args *a, dump **d, struct err *err) {
    static const char *const dtypes[] = {"f32", "bf16", "f16"};
    const char *const inputs[] = {a->path, a->tokenizer};
    const struct import_json_options o = {a->tokenizer, a->dtype < 0 ? NULL : dtypes[a->dtype], a->choice,
                                          a->partial};
    const enum format f = format_of(a);
    RETURN_IF_ERROR(file_out_spares(a->out, inputs, 2, err));
    RETURN_IF_ERROR(check_options(a, f, err));
    if (f == FORMAT_NPY) return import_tensor(a, err);
    if (f == FORMAT_JSON) return import_json(a->path, &o, &a->extra, a->out, d, err);
    table *t = NULL;
    RETURN_IF_ERROR(table_read(a->path, &t, err));
    enum status s = import_csv(t, &a->extra, a->keep_nan, a->out, d, err);
    table_close(t);
    return s;
}

static int run_import(int argc, char **argv) {
    struct import_args args;
    struct err err = {""};
    dump *d = NULL;
    memset(&args, 0, sizeof args);
    args.choice = args.dtype = -1;
    provenance_init(&args.extra);
    cli_parse(&arguments.argp, argc, argv, &args);
    enum status s = import_any(&args, &d, &err);
    provenance_free(&args.extra);
    if (s != STATUS_OK) return cli_fail("import", &err);
    if (d == NULL) return 0;
    report(d, args.out);
    dump_close(d);
    return 0;
}

const struct command cmd_import = {"import", "another engine's tokens become a dump, its array a tensor",
                                   &arguments.argp, run_import};
