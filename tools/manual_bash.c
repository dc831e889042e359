/* manual_bash.c - the bash completion. See manual.h.
 * Idea: one case per command with its options; an argument written as a|b|c completes to its words, one in capitals to
 * files. Source: ours. Exercise: ctest -R cli.manual */
#include <ctype.h>
#include <string.h>

#include "tools/cli_table.h"
#include "tools/commands.h"
#include "tools/manual.h"

typedef void each_option(FILE *out, const struct argp_option *o);

static void walk(FILE *out, const struct argp *a, each_option *fn) {
    struct argp_option room[CLI_OPTIONS_MAX + 1];
    for (const struct argp_option *o = cli_options(a, room); o != NULL && (o->name != NULL || o->doc != NULL);
         o++)
        if (o->name != NULL) fn(out, o);
    for (const struct argp_child *c = a->children; c != NULL && c->argp != NULL; c++) walk(out, c->argp, fn);
}

/* --option, or --option= when it takes an argument. */
static void put_name(FILE *out, const struct argp_option *o) {
    fprintf(out, " --%s%s", o->name, o->arg != NULL ? "=" : "");
}

/* "f16|q8_0|f32": words to choose from. Anything else has capitals, dots or blanks somewhere. */
static int is_choice(const char *arg) {
    int bars = 0;
    for (const char *p = arg; *p != '\0'; p++) {
        if (*p == '|')
            bars++;
        else if (!islower((unsigned char)*p) && !isdigit((unsigned char)*p) && *p != '_' && *p != '-')
            return 0;
    }
    return bars > 0;
}

static void put_choice(FILE *out, const struct argp_option *o) {
    if (o->arg == NULL || !is_choice(o->arg)) return;
    fprintf(out, "    --%s) words='", o->name);
    for (const char *p = o->arg; *p != '\0'; p++) fputc(*p == '|' ? ' ' : *p, out);
    fprintf(out, "' ;;\n");
}

/* Words in small letters that begin a form of the command: golden verify, report html. */
static void put_actions(FILE *out, const char *args) {
    for (const char *p = args; p != NULL && *p != '\0';) {
        size_t n = strspn(p, "abcdefghijklmnopqrstuvwxyz-");
        if (n > 0 && (p[n] == ' ' || p[n] == '\n' || p[n] == '\0')) fprintf(out, " %.*s", (int)n, p);
        p = strchr(p, '\n');
        if (p != NULL) p++;
    }
}

void manual_print_bash(FILE *out) {
    fputs("# bash completion for forkgate, made by `forkgate --completion bash`\n"
          "_forkgate() {\n"
          "  local cur=${COMP_WORDS[COMP_CWORD]} prev='' command=${COMP_WORDS[1]-} words='' options='' "
          "actions=''\n"
          "  ((COMP_CWORD > 0)) && prev=${COMP_WORDS[COMP_CWORD-1]}\n"
          "  if [ \"$cur\" = = ]; then cur=''; elif [ \"$prev\" = = ]; then "
          "prev=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
          "  COMPREPLY=()\n"
          "  if [ \"$COMP_CWORD\" -le 1 ]; then\n"
          "    COMPREPLY=($(compgen -W '",
          out);
    for (int i = 0; commands[i] != NULL; i++) fprintf(out, "%s ", commands[i]->name);
    fputs("--help --version' -- \"$cur\"))\n    return\n  fi\n  case $command in\n", out);
    for (int i = 0; commands[i] != NULL; i++) {
        fprintf(out, "  %s)\n    options='", commands[i]->name);
        walk(out, commands[i]->argp, put_name);
        fprintf(out, " --help --usage'\n    actions='");
        put_actions(out, commands[i]->argp->args_doc);
        fprintf(out, "'\n    case $prev in\n");
        walk(out, commands[i]->argp, put_choice);
        fprintf(out, "    esac\n    ;;\n");
    }
    fputs("  esac\n"
          "  if [ -n \"$words\" ]; then\n"
          "    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
          "  elif [[ $cur == -* ]]; then\n"
          "    COMPREPLY=($(compgen -W \"$options\" -- \"$cur\"))\n"
          "    [[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace 2>/dev/null\n"
          "  else\n"
          "    [ \"$COMP_CWORD\" -eq 2 ] && COMPREPLY=($(compgen -W \"$actions\" -- \"$cur\"))\n"
          "    COMPREPLY+=($(compgen -f -- \"$cur\"))\n"
          "  fi\n"
          "}\n"
          "complete -o filenames -F _forkgate forkgate\n",
          out);
}
