/* manual.c - the man page. See manual.h; the completion is manual_bash.c. */
#include "tools/manual.h"

#include <string.h>

#include "tools/cli_table.h"
#include "tools/commands.h"

/* Text for roff: backslashes and hyphens as themselves, no line that starts a request. */
static void put_text(FILE *out, const char *text, size_t n) {
    for (size_t i = 0; i < n; i++) {
        int starts_line = i == 0 || text[i - 1] == '\n';
        if (starts_line && (text[i] == '.' || text[i] == '\'')) fputs("\\&", out);
        if (text[i] == '\\')
            fputs("\\e", out);
        else if (text[i] == '-')
            fputs("\\-", out);
        else
            fputc(text[i], out);
    }
}

static void put(FILE *out, const char *text) {
    put_text(out, text, strlen(text));
}

/* Lines that are indented are examples and stay lines; the others are paragraphs. */
static void put_doc(FILE *out, const char *doc, size_t n) {
    int kept = 0;
    for (size_t at = 0; at < n;) {
        const char *end = memchr(doc + at, '\n', n - at);
        size_t length = end == NULL ? n - at : (size_t)(end - (doc + at));
        int indented = length > 0 && doc[at] == ' ';
        if (indented != kept) fputs(indented ? ".nf\n" : ".fi\n", out);
        kept = indented;
        if (length == 0)
            fputs(".PP\n", out);
        else if (!indented)
            fputs(".PP\n", out);
        put_text(out, doc + at, length);
        if (length > 0) fputc('\n', out);
        at += length + 1;
    }
    if (kept) fputs(".fi\n", out);
}

static void put_option(FILE *out, const struct argp_option *o) {
    if (o->name == NULL) {
        if (o->doc != NULL) {
            fputs(".PP\n.I ", out);
            put(out, o->doc);
            fputc('\n', out);
        }
        return;
    }
    fputs(".TP\n", out);
    if (o->key > ' ' && o->key < 127) fprintf(out, "\\fB\\-%c\\fR, ", o->key);
    fputs("\\fB\\-\\-", out);
    put(out, o->name);
    fputs("\\fR", out);
    if (o->arg != NULL) {
        fputs("=\\fI", out);
        put(out, o->arg);
        fputs("\\fR", out);
    }
    fputc('\n', out);
    put(out, o->doc == NULL ? "" : o->doc);
    fputc('\n', out);
}

static void put_options(FILE *out, const struct argp *a) {
    struct argp_option room[CLI_OPTIONS_MAX + 1];
    for (const struct argp_option *o = cli_options(a, room); o != NULL && (o->name != NULL || o->doc != NULL);
         o++)
        put_option(out, o);
    for (const struct argp_child *c = a->children; c != NULL && c->argp != NULL; c++) {
        if (c->header != NULL) {
            fputs(".PP\n.I ", out);
            put(out, c->header);
            fputc('\n', out);
        }
        put_options(out, c->argp);
    }
}

/* Each line of args_doc is a form of the command. */
static void put_usage(FILE *out, const struct command *c) {
    const char *args = c->argp->args_doc == NULL ? "" : c->argp->args_doc;
    do {
        size_t n = strcspn(args, "\n");
        fprintf(out, ".br\n\\fBforkgate %s\\fR [\\fIOPTION\\fR...] ", c->name);
        put_text(out, args, n);
        fputc('\n', out);
        args += n + (args[n] == '\n');
    } while (*args != '\0');
}

static void put_command(FILE *out, const struct command *c) {
    const char *doc = c->argp->doc == NULL ? "" : c->argp->doc, *behind = strchr(doc, '\v');
    size_t before = behind == NULL ? strlen(doc) : (size_t)(behind - doc);
    fprintf(out, ".SS %s: ", c->name);
    put(out, c->summary);
    fputc('\n', out);
    put_usage(out, c);
    fputs(".PP\n", out);
    put_doc(out, doc, before);
    put_options(out, c->argp);
    if (behind != NULL) {
        fputs(".PP\n", out);
        put_doc(out, behind + 1, strlen(behind + 1));
    }
}

void manual_print_man(FILE *out) {
    fputs(".TH FORKGATE 1 \"\" \"forkgate 0.1.0\" \"User Commands\"\n.SH NAME\n"
          "forkgate \\- may this kernel change land?\n.SH SYNOPSIS\n.B forkgate\n\\fICOMMAND\\fR "
          "[\\fIOPTION\\fR...]\n"
          ".SH DESCRIPTION\nGates, goldens and fork reports for an LLM inference engine. Results go to "
          "standard output,\n"
          "progress and trouble to standard error. Every command takes\n.BR \\-\\-help .\n.SH COMMANDS\n",
          out);
    for (int i = 0; commands[i] != NULL; i++) put_command(out, commands[i]);
    fputs(".SH EXIT STATUS\n.TP\n.B 0\nmay land; identical\n.TP\n.B 1\na gate failed or is blind; "
          "forked\n.TP\n.B 2\n"
          "trouble: nothing was judged, damaged input, bad usage. 1 outranks 2.\n.SH ENVIRONMENT\n"
          ".TP\n.B FORKGATE_ROOT\ntree with fixtures/ and golden/ (default: the tree the binary was built "
          "from)\n"
          ".TP\n.B NO_COLOR\nno colours, whatever else is set\n"
          ".TP\n.BR CLICOLOR_FORCE \", \" FORCE_COLOR\ncolours even when standard output is no terminal\n"
          ".TP\n.B GITHUB_ACTIONS\ntrue: run prints annotation lines too\n"
          ".TP\n.B CI\nset: no progress line; goldens are not refreshed\n",
          out);
}
