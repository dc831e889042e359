/* cli.c - see cli.h. */
#include "tools/cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

/* ---- numbers and failing ----------------------------------------------------------------------------------------- */

int cli_number(struct argp_state *state, const char *option, const char *arg, long low, long high) {
    char *end = NULL;
    long v = strtol(arg, &end, 10);
    if (end == arg || *end != '\0' || v < low || v > high)
        argp_error(state, "%s %s: want a whole number from %ld to %ld", option, arg, low, high);
    return (int)v;
}

double cli_real(struct argp_state *state, const char *option, const char *arg, double low, double high) {
    char *end = NULL;
    double v = strtod(arg, &end);
    if (end == arg || *end != '\0' || !(v >= low && v <= high))
        argp_error(state, "%s %s: want a number from %g to %g", option, arg, low, high);
    return v;
}

uint64_t cli_u64(struct argp_state *state, const char *option, const char *arg) {
    char *end = NULL;
    errno = 0;
    uint64_t v = strtoull(arg, &end, 10);
    if (end == arg || *end != '\0' || arg[0] == '-' || errno != 0)
        argp_error(state, "%s %s: not a whole number of 64 bits", option, arg);
    return v;
}

static int has_failed;

int cli_fail(const char *command, const struct err *err) {
    cli_progress_end();
    fprintf(stderr, "forkgate: %s: %s\n", command, err->message);
    has_failed = 1;
    return EXIT_TROUBLE;
}

int cli_finish(const char *command, int code) {
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout)) return code;
    if (!has_failed)
        fprintf(stderr, "forkgate: %s%scannot write to standard output%s%s\n", command != NULL ? command : "",
                command != NULL ? ": " : "", errno != 0 ? ": " : "", errno != 0 ? strerror(errno) : "");
    return EXIT_TROUBLE;
}

/* ---- where things are ---------------------------------------------------------------------------------------------- */

const char *cli_source_dir(void) {
    const char *root = getenv("FORKGATE_ROOT");
    return root != NULL && root[0] != '\0' ? root : FORKGATE_SOURCE_DIR;
}

const char *cli_self(void) {
    static char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n <= 0) return "forkgate";
    path[n] = '\0';
    return path;
}

/* ---- engine options ------------------------------------------------------------------------------------------------ */

enum {
    OPT_BACKEND = 0x100,
    OPT_ROUTE,
    OPT_ARCH,
    OPT_CHUNK,
    OPT_NO_GRAPH,
    OPT_GEOMETRY,
    OPT_KV,
    OPT_SIMD,
    OPT_PENALTY,
    OPT_TEMP,
    OPT_SEED,
    OPT_IGNORE_EOS
};

static const struct argp_option engine_options[] = {
    {NULL, 0, NULL, 0, "Engine options:", 2},
    {"model", 'm', "FILE", 0, "GGUF model (default: the embedded seedling-q8_0)", 2},
    {"backend", OPT_BACKEND, "cpu|cuda", 0,
     "where the ops run (default cpu; run: those present, or a list cpu,cuda)", 2},
    {"route", OPT_ROUTE, "f16|q8|f32", 0, "arithmetic of the matrix products (default f16)", 2},
    {"arch", OPT_ARCH, "sm_90|sm_80", 0,
     "tensor-core model the bits follow (default sm_90; sm_80 is not verified on hardware)", 2},
    {"threads", 't', "N", 0, "CPU threads, 1 to 64 (default: online cores); never changes bits", 2},
    {"simd", OPT_SIMD, "auto|scalar|avx2", 0, "CPU code path (default auto); never changes bits", 2},
    {"chunk", OPT_CHUNK, "N", 0, "prompt tokens per prefill step (default 512); never changes bits", 2},
    {"no-graph", OPT_NO_GRAPH, NULL, 0, "CUDA: launch decode steps one by one; never changes bits", 2},
    {"geometry", OPT_GEOMETRY, "KEY=N,..", 0,
     "fa_tq (64), fa_tkv (32), fa_chunk (256), fa_splits (8); fa_tkv and fa_chunk change bits", 2},
    {"kv", OPT_KV, "f16|q8_0|f32", 0, "type of the KV cache (default f16; f32 with --route f32)", 2},
    {NULL, 0, NULL, 0, NULL, 0}};

static float parse_real(struct argp_state *state, const char *option, const char *arg) {
    char *end = NULL;
    float v = strtof(arg, &end);
    if (end == arg || *end != '\0') argp_error(state, "%s %s: not a number", option, arg);
    return v;
}

static int parse_word(struct argp_state *state, const char *option, const char *arg, int value,
                      const char *want) {
    if (value < 0) argp_error(state, "%s %s: want %s", option, arg, want);
    return value;
}

static const struct argp_option sampling_options[] = {
    {NULL, 0, NULL, 0, "Sampling:", 3},
    {"repeat-penalty", OPT_PENALTY, "X", 0, "once per distinct id of prompt and output (default 1: off)", 3},
    {"temp", OPT_TEMP, "X", 0, "temperature (default 0: greedy, lowest id wins a tie)", 3},
    {"seed", OPT_SEED, "N", 0, "stream of the counter-based generator (default 0)", 3},
    {"ignore-eos", OPT_IGNORE_EOS, NULL, 0, "go on after an end token (declared in the dump)", 3},
    {NULL, 0, NULL, 0, NULL, 0}};

static int simd_from_name(const char *s) {
    if (strcmp(s, "auto") == 0) return SIMD_AUTO;
    if (strcmp(s, "scalar") == 0) return SIMD_SCALAR;
    return strcmp(s, "avx2") == 0 ? SIMD_AVX2 : -1;
}

static int backend_from_name(const char *s) {
    if (strcmp(s, "cpu") == 0) return BACKEND_CPU;
    return strcmp(s, "cuda") == 0 ? BACKEND_CUDA : -1;
}

/* One backend, or a list where the command takes one. */
static void parse_backends(struct argp_state *state, const char *arg, struct cli_engine *e) {
    e->backends = 0;
    for (const char *p = arg;; p++) {
        char name[16];
        size_t n = strcspn(p, ",");
        (void)snprintf(name, sizeof name, "%.*s", (int)(n < 15 ? n : 15), p);
        int kind = backend_from_name(name);
        if (kind < 0 || (e->backends != 0 && !e->many_backends)) {
            argp_error(state, "--backend %s: want %s", arg,
                       e->many_backends ? "cpu, cuda or cpu,cuda" : "cpu or cuda");
            return;
        }
        if (e->backends == 0) e->config.backend = (enum backend_kind)kind;
        e->backends |= 1u << (unsigned)kind;
        p += n;
        if (*p == '\0') return;
    }
}

static void parse_geometry(struct argp_state *state, const char *arg, struct geometry *g) {
    struct err err;
    if (geometry_parse(arg, g, &err) != STATUS_OK) argp_error(state, "--geometry: %s", err.message);
}

static error_t parse_sampling(int key, char *arg, struct argp_state *state) {
    struct cli_engine *e = state->input;
    switch (key) {
    case OPT_PENALTY:
        e->repeat_penalty = parse_real(state, "--repeat-penalty", arg);
        return 0;
    case OPT_TEMP:
        e->temperature = parse_real(state, "--temp", arg);
        return 0;
    case OPT_SEED:
        e->seed = cli_u64(state, "--seed", arg);
        return 0;
    case OPT_IGNORE_EOS:
        e->ignore_eos = 1;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_engine(int key, char *arg, struct argp_state *state) {
    struct cli_engine *e = state->input;
    struct backend_config *c = &e->config.compute;
    if (key == 'm' || key == 't' || (key >= OPT_BACKEND && key <= OPT_SIMD)) e->given = 1;
    switch (key) {
    case 'm':
        e->model = arg;
        return 0;
    case 't':
        c->n_threads = cli_number(state, "--threads", arg, 1, 64);
        return 0;
    case OPT_CHUNK:
        e->config.chunk = cli_number(state, "--chunk", arg, 1, CHUNK_MAX);
        return 0;
    case OPT_NO_GRAPH:
        c->graphs = 0;
        return 0;
    case OPT_GEOMETRY:
        parse_geometry(state, arg, &c->geometry);
        return 0;
    case OPT_BACKEND:
        parse_backends(state, arg, e);
        return 0;
    case OPT_ROUTE:
        e->route_given = 1;
        c->route = (enum route)parse_word(state, "--route", arg, route_from_name(arg), "f16, q8 or f32");
        return 0;
    case OPT_ARCH:
        c->arch = (enum arch)parse_word(state, "--arch", arg, arch_from_name(arg), "sm_90 or sm_80");
        return 0;
    case OPT_KV:
        e->config.kv =
            (enum kv_dtype)parse_word(state, "--kv", arg, kv_dtype_from_name(arg), "f16, q8_0 or f32");
        return 0;
    case OPT_SIMD:
        c->simd = (enum simd)parse_word(state, "--simd", arg, simd_from_name(arg), "auto, scalar or avx2");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp cli_sampling_argp = {sampling_options, parse_sampling, NULL, NULL, NULL, NULL, NULL};
const struct argp cli_engine_argp = {engine_options, parse_engine, NULL, NULL, NULL, NULL, NULL};
const struct argp_child cli_engine_children[] = {{&cli_engine_argp, 0, NULL, 0}, {NULL, 0, NULL, 0}};

void cli_engine_default(struct cli_engine *e) {
    static char model[4096];
    (void)snprintf(model, sizeof model, "%s/fixtures/models/seedling-q8_0.gguf", cli_source_dir());
    memset(e, 0, sizeof *e);
    e->model = model;
    e->config = engine_config_default();
    e->repeat_penalty = 1.0f;
}

/* ---- terminal ------------------------------------------------------------------------------------------------------ */

static int env_set(const char *name) {
    const char *v = getenv(name);
    return v != NULL && v[0] != '\0';
}

int cli_use_colour(int fd) {
    if (env_set("NO_COLOR")) return 0;
    if (env_set("CLICOLOR_FORCE") || env_set("FORCE_COLOR")) return 1;
    const char *term = getenv("TERM");
    return isatty(fd) && term != NULL && strcmp(term, "dumb") != 0;
}

int cli_width(int fd) {
    struct winsize w;
    if (!isatty(fd) || ioctl(fd, TIOCGWINSZ, &w) != 0 || w.ws_col < 20) return 80;
    return w.ws_col;
}

static int progress_shown;

void cli_progress(const char *label, uint64_t done, uint64_t total) {
    static struct timespec last;
    struct timespec now;
    if (!isatty(STDERR_FILENO) || env_set("CI")) return;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double since = (double)(now.tv_sec - last.tv_sec) + 1e-9 * (double)(now.tv_nsec - last.tv_nsec);
    if (progress_shown && since < 0.1 && done < total) return;
    last = now;
    progress_shown = 1;
    fprintf(stderr, "\r\033[K%s %llu/%llu", label, (unsigned long long)done, (unsigned long long)total);
    fflush(stderr);
}

void cli_progress_end(void) {
    if (progress_shown) fprintf(stderr, "\r\033[K");
    progress_shown = 0;
}
