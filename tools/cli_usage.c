/* cli_usage.c - argp with one line per usage error: what, and where help is.
 * Not a parser of its own: argp parses, and exits with EXIT_TROUBLE as it always does.
 * Idea: argp writes its two or three lines to a stream that can be replaced; what is told is its first line. The lines of
 * getopt (an unknown option, a missing value) go to stderr directly and are one each; then only argp's hint is dropped.
 * Source: ours. Exercise: ctest -R cli.usage */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/cli_table.h"

#define HINT "Try `" /* how the last line of argp begins; the rest names --help */

static struct {
    const struct argp *argp;
    const char *program;
    FILE *stream;
    char *text; /* what was written to stream */
    size_t n;
} said;

static error_t parse_and_keep(int key, char *arg, struct argp_state *state) {
    if (key == ARGP_KEY_INIT && said.stream != NULL) state->err_stream = said.stream;
    return said.argp->parser(key, arg, state);
}

static void forget(void) {
    if (said.stream != NULL) (void)fclose(said.stream);
    free(said.text);
    said.stream = NULL;
    said.text = NULL;
}

/* Called by exit out of argp: help that did not reach its reader is trouble. */
static void check_help(void) {
    if (fflush(stdout) == 0 && !ferror(stdout)) return;
    fprintf(stderr, "%s: cannot write to standard output\n", said.program);
    _exit(EXIT_TROUBLE);
}

/* Called by exit. Foreign text may hold line ends: the hint is cut off first, then every control character shows as '?'. */
static void tell(void) {
    if (said.stream == NULL) return;
    check_help();
    if (fflush(said.stream) != 0 || said.text == NULL) return;
    char *hint = NULL;
    for (char *at = said.text; (at = strstr(at, HINT)) != NULL; at++)
        if (at == said.text || at[-1] == '\n') hint = at;
    if (hint != NULL) *hint = '\0';
    size_t n = strlen(said.text);
    while (n > 0 && said.text[n - 1] == '\n') said.text[--n] = '\0';
    for (char *c = said.text; *c != '\0'; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f) *c = '?';
    if (n > 0) fprintf(stderr, "%s (%s --help)\n", said.text, said.program);
    forget();
}

const struct argp *cli_parsing(void) {
    return said.argp;
}

void cli_parse(const struct argp *argp, int argc, char **argv, void *input) {
    struct argp_option room[CLI_OPTIONS_MAX + 1];
    struct argp kept = *argp;
    kept.options = cli_options(argp, room);
    kept.parser = parse_and_keep;
    said.argp = argp;
    said.program = argv[0];
    said.stream = open_memstream(&said.text, &said.n); /* without it argp speaks to stderr */
    (void)atexit(tell);
    argp_err_exit_status = EXIT_TROUBLE;
    error_t e = argp_parse(&kept, argc, argv, 0, NULL, input);
    if (e != 0) {
        fprintf(stderr, "%s: %s\n", argv[0], strerror(e));
        exit(EXIT_TROUBLE);
    }
    forget();
}
