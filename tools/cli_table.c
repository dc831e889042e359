/* cli_table.c - see cli_table.h. */
#include "tools/cli_table.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY 0x1000 /* keys of options without a letter: this and up, in table order */

static_assert(sizeof(enum table_eol) == sizeof(int), "an enumeration is written as an int");

static const struct cli_table *table_of(const struct argp *argp) {
    const void *carrier = argp; /* it is the first member */
    return argp->parser == cli_table_parse ? carrier : NULL;
}

static int key_of(const struct cli_table *t, const struct cli_option *o) {
    return o->key != 0 || o->kind == CLI_HEAD ? o->key : KEY + (int)(o - t->options);
}

const struct argp_option *cli_options(const struct argp *argp, struct argp_option room[CLI_OPTIONS_MAX + 1]) {
    const struct cli_table *t = table_of(argp);
    if (t == NULL) return argp->options;
    int n = 0;
    for (const struct cli_option *o = t->options; o->kind != CLI_END; o++) {
        assert(n < CLI_OPTIONS_MAX);
        room[n++] = (struct argp_option){o->name, key_of(t, o), o->arg, 0, o->doc, o->group};
    }
    memset(&room[n], 0, sizeof room[n]);
    return room;
}

/* "a|b|c" as "a, b or c" */
static void list_words(const char *words, char out[128]) {
    size_t used = 0;
    for (const char *p = words; *p != '\0' && used + 8 < 128; p++) {
        const char *put = *p != '|' ? NULL : strchr(p + 1, '|') != NULL ? ", " : " or ";
        if (put == NULL)
            out[used++] = *p;
        else
            used += (size_t)snprintf(out + used, 8, "%s", put);
    }
    out[used] = '\0';
}

static int word_index(struct argp_state *state, const char *option, const char *words, const char *arg) {
    char want[128];
    size_t n = strlen(arg);
    int index = 0;
    for (const char *p = words; p != NULL; index++) {
        size_t length = strcspn(p, "|");
        if (length == n && memcmp(p, arg, n) == 0) return index;
        p = p[length] == '|' ? p + length + 1 : NULL;
    }
    list_words(words, want);
    argp_error(state, "%s %s: want %s", option, arg, want);
    return 0;
}

static void store(struct argp_state *state, const struct cli_option *o, void *args, char *arg) {
    char option[40];
    void *at = (char *)args + o->at;
    (void)snprintf(option, sizeof option, "%s%s", o->key == o->name[0] && o->name[1] == '\0' ? "-" : "--",
                   o->name);
    switch (o->kind) {
    case CLI_TEXT:
        if (o->rule == CLI_ONE && *(const char **)at != NULL) argp_error(state, "%s is given twice", option);
        *(const char **)at = arg;
        break;
    case CLI_INT:
        *(int *)at = o->arg == NULL ? 1
                     : strchr(o->arg, '|') != NULL
                         ? word_index(state, option, o->arg, arg)
                         : cli_number(state, option, arg, (long)o->low, (long)o->high);
        break;
    case CLI_U64:
        *(uint64_t *)at = cli_u64(state, option, arg);
        break;
    case CLI_REAL:
        *(double *)at = cli_real(state, option, arg, o->low, o->high);
        break;
    case CLI_CALL:
        o->call(state, args, arg);
        break;
    case CLI_HEAD:
    case CLI_END:
        break;
    }
}

static void check(struct argp_state *state, const struct cli_table *t, void *args) {
    for (const struct cli_option *o = t->options; o->kind != CLI_END; o++) {
        void *at = (char *)args + o->at;
        if (o->rule == CLI_MUST && *(const char **)at == NULL)
            argp_error(state, "give --%s %s", o->name, o->arg);
    }
    if (t->check != NULL) t->check(state, args);
}

error_t cli_table_parse(int key, char *arg, struct argp_state *state) {
    const struct cli_table *t = table_of(cli_parsing());
    switch (key) {
    case ARGP_KEY_INIT:
        for (int i = 0; t->argp.children != NULL && t->argp.children[i].argp != NULL; i++)
            state->child_inputs[i] = state->input;
        return 0;
    case ARGP_KEY_ARG:
        if (t->operand == NULL)
            argp_error(state, "unexpected argument '%s'", arg);
        else
            t->operand(state, state->input, arg);
        return 0;
    case ARGP_KEY_END:
        check(state, t, state->input);
        return 0;
    default:
        for (const struct cli_option *o = t->options; o->kind != CLI_END; o++) {
            if (key_of(t, o) != key) continue;
            store(state, o, state->input, arg);
            return 0;
        }
        return ARGP_ERR_UNKNOWN;
    }
}
