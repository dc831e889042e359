/* cli_table.h - options as a table: what is shown, and where, as what and within which bounds the value goes.
 * Not another parser: argp parses; this is the parse function that a table needs, and the argp options made from it.
 * Idea: the type of the field says how the value is read, so that the two cannot differ. What no row can say is a function.
 * Source: ours. Exercise: ctest -R 'cli.(usage|errors|manual)' */
#ifndef FORKGATE_CLI_TABLE_H
#define FORKGATE_CLI_TABLE_H

#include <stddef.h>

#include "gates/table.h"
#include "tools/cli.h"

#define CLI_OPTIONS_MAX 32

enum cli_kind { CLI_END, CLI_HEAD, CLI_TEXT, CLI_INT, CLI_U64, CLI_REAL, CLI_CALL };
enum cli_rule {
    CLI_FREE,
    CLI_MUST,
    CLI_ONE
}; /* the last one counts; must be given; given twice is an error */

typedef void cli_take(struct argp_state *state, void *args, char *arg);

/* A row. arg NULL: a flag, which sets an int to 1; "a|b|c": one of these words, which sets its index. */
struct cli_option {
    const char *name;
    int key; /* the short option's letter, or 0 */
    const char *arg, *doc;
    int group;
    size_t at; /* of the field in the command's arguments; this and the rest: CLI_AT, CLI_NEEDED, .. */
    enum cli_kind kind;
    double low, high;
    enum cli_rule rule; /* of text */
    cli_take *call;
};

#define CLI_KIND(T, field)                                                                                   \
    _Generic(((T *)0)->field, const char *: CLI_TEXT, int: CLI_INT, enum table_eol: CLI_INT, uint64_t: CLI_U64, double: CLI_REAL)
#define CLI_AT(T, field)                offsetof(T, field), CLI_KIND(T, field), 0, 0, CLI_FREE, NULL
#define CLI_NEEDED(T, field)            offsetof(T, field), CLI_KIND(T, field), 0, 0, CLI_MUST, NULL
#define CLI_ONCE(T, field)              offsetof(T, field), CLI_KIND(T, field), 0, 0, CLI_ONE, NULL
#define CLI_WITHIN(T, field, low, high) offsetof(T, field), CLI_KIND(T, field), low, high, CLI_FREE, NULL
#define CLI_BY(function)                0, CLI_CALL, 0, 0, CLI_FREE, function
/* A line above the options of a group. */
#define CLI_HEADER(doc, group)                                                                               \
    { NULL, 0, NULL, doc, group, 0, CLI_HEAD, 0, 0, CLI_FREE, NULL }
#define CLI_LAST                                                                                             \
    { NULL, 0, NULL, NULL, 0, 0, CLI_END, 0, 0, CLI_FREE, NULL }

/* A command's argp that carries its table: &arguments.argp goes wherever an argp goes. Where it has children, they are given the
 * command's arguments, which then begin with the children's struct (cli_engine). */
struct cli_table {
    struct argp argp; /* CLI_ARGP */
    const struct cli_option *options;
    cli_take *operand;                                   /* NULL: there are none */
    void (*check)(struct argp_state *state, void *args); /* at the end: what goes together; NULL */
};
#define CLI_ARGP(args_doc, doc, children)                                                                    \
    { NULL, cli_table_parse, args_doc, doc, children, NULL, NULL }

error_t cli_table_parse(int key, char *arg, struct argp_state *state);

/* The options of any argp: of one with a table they are made in room. */
const struct argp_option *cli_options(const struct argp *argp, struct argp_option room[CLI_OPTIONS_MAX + 1]);

#endif
