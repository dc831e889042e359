/* cli.h - what every command of forkgate shares: the command table, the engine options, how errors end.
 * Not a parser: argp is; a command is an argp table and a run function.
 * Source: ours. Exercise: ctest -L cli */
#ifndef FORKGATE_CLI_H
#define FORKGATE_CLI_H

#include <argp.h>

#include "engine/engine.h"

#define EXIT_TROUBLE 2

struct command {
    const char *name;
    const char *summary;               /* one line of `forkgate --help` */
    const struct argp *argp;           /* options, doc, examples: man page and completion are made from it */
    int (*run)(int argc, char **argv); /* argv[0] is "forkgate NAME"; returns the exit code */
};

extern const struct command *const commands[]; /* NULL-terminated, in --help order */

/* Parses with argp; a usage error is one line on stderr and exit 2 (cli_usage.c). */
void cli_parse(const struct argp *argp, int argc, char **argv, void *input);
const struct argp *cli_parsing(void); /* what is being parsed */

/* A whole number in [low, high], or a usage error that names the option. */
int cli_number(struct argp_state *state, const char *option, const char *arg, long low, long high);
/* The same for a real number. */
double cli_real(struct argp_state *state, const char *option, const char *arg, double low, double high);

/* The same for a whole number of 64 bits without bounds. */
uint64_t cli_u64(struct argp_state *state, const char *option, const char *arg);

/* "forkgate: COMMAND: message" on stderr; returns EXIT_TROUBLE. */
int cli_fail(const char *command, const struct err *err);
/* What a command ends with: code, or EXIT_TROUBLE and a line when its results did not reach standard output. Of a command
 * that has failed already there is no second line. command: NULL for the binary itself. */
int cli_finish(const char *command, int code);

/* ---- engine options, as a child parser: --backend --route --arch --threads --chunk --no-graph --geometry --kv --simd
 *      -m, and the sampler's --repeat-penalty --temp --seed --ignore-eos ---- */
struct cli_engine {
    int many_backends;      /* run: --backend may be a list */
    unsigned backends;      /* a bit of enum backend_kind for each that --backend names; 0: not given */
    int route_given, given; /* --route; any engine option */
    const char *model;      /* -m FILE; default: fixtures/models/seedling-q8_0.gguf of the source tree */
    struct engine_config config;
    float repeat_penalty, temperature;
    uint64_t seed;
    int ignore_eos;
};
void cli_engine_default(struct cli_engine *e);
extern const struct argp cli_engine_argp;             /* input: struct cli_engine */
extern const struct argp_child cli_engine_children[]; /* that one, for a command with no other children */
extern const struct argp cli_sampling_argp; /* the same input; for the commands that choose tokens */

/* The tree that holds fixtures/ and golden/: $FORKGATE_ROOT, else the source tree the binary was built from. */
const char *cli_source_dir(void);

/* Absolute path of the running binary. */
const char *cli_self(void);

/* ---- terminal ---- */
int cli_use_colour(int fd); /* NO_COLOR, CLICOLOR_FORCE, TERM=dumb, isatty(fd) */
int cli_width(int fd);      /* columns, 80 when not a terminal */
void cli_progress(const char *label, uint64_t done,
                  uint64_t total); /* stderr, a terminal only, at most 10 Hz */
void cli_progress_end(void);

#endif
