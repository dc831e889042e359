/* report_print.c - see report_print.h. */
#include "tools/report_print.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/cli.h"

#define SHOWN 3 /* checks under a gate's line */

static const struct evidence *either(const struct report_change *x) {
    return x->after != NULL ? x->after : x->before;
}

/* Cut to the terminal; whole in a file. */
static void put_line(const char *text) {
    int width = isatty(STDOUT_FILENO) ? cli_width(STDOUT_FILENO) : 0;
    if (width > 0 && strlen(text) > (size_t)width)
        printf("%.*s..\n", width - 2, text);
    else
        printf("%s\n", text);
}

/* What moved, in a few words. */
static void describe(const struct report_change *x, char *out, size_t room) {
    switch (x->move) {
    case REPORT_WORSE:
    case REPORT_BETTER:
        (void)snprintf(out, room, "%s -> %s", x->before == NULL ? "new" : verdict_name(x->before->verdict),
                       verdict_name(x->after->verdict));
        return;
    case REPORT_LOOSENED:
    case REPORT_TIGHTENED:
        (void)snprintf(out, room, "bound %.6g -> %.6g", x->from, x->to);
        return;
    case REPORT_SHRANK:
    case REPORT_GREW:
        (void)snprintf(out, room, "uses %.2f -> %.2f of its bound", x->from, x->to);
        return;
    case REPORT_SLOWER:
    case REPORT_FASTER:
        (void)snprintf(out, room, "%.0f -> %.0f ms, not judged (forkgate ab)", x->from, x->to);
        return;
    case REPORT_BARE:
        (void)snprintf(out, room, "its evidence is gone (kernels, ref, got)");
        return;
    case REPORT_VANISHED:
    case REPORT_APPEARED:
    case REPORT_MOVES:
        break;
    }
    (void)snprintf(out, room, "%s%s", x->whole_gate ? "the whole gate, " : "",
                   x->after == NULL ? "not checked any more" : "new");
}

/* The change of a gate that shows most, for its line: the first, but the largest step of a number. */
static const struct report_change *telling(const struct report_change *x, size_t n) {
    const struct report_change *best = x;
    for (size_t i = 1; i < n; i++) {
        double step = x[i].to - x[i].from, most = best->to - best->from;
        if (x[i].move == REPORT_SHRANK && step > most) best = &x[i];
    }
    return best;
}

static void put_gate(const struct report_change *x, size_t n) {
    char what[96], line[512];
    const struct report_change *first = telling(x, n);
    int speed = x->move == REPORT_SLOWER || x->move == REPORT_FASTER;
    describe(first, what, sizeof what);
    (void)snprintf(line, sizeof line, "%-9s  %-22s %s", report_move_name(x->move), either(x)->gate, what);
    if (!speed)
        (void)snprintf(line + strlen(line), sizeof line - strlen(line), ", %zu check%s", n,
                       n == 1 ? "" : "s");
    put_line(line);
    if (speed || x->whole_gate || x->move == REPORT_APPEARED || x->move == REPORT_GREW) return;
    for (size_t i = 0; i < n && i < SHOWN; i++) {
        const struct report_change *c = i == 0 ? first : &x[i] == first ? &x[0] : &x[i];
        const struct evidence *e = either(c);
        describe(c, what, sizeof what);
        (void)snprintf(line, sizeof line, "             %s%s%s %s: %s", e->test_case,
                       e->test_case[0] != '\0' ? " " : "", e->arm, e->metric, what);
        put_line(line);
    }
    if (n > SHOWN) printf("             and %zu more (-o keeps all)\n", n - SHOWN);
}

static int together(const struct report_change *a, const struct report_change *b) {
    return a->move == b->move && strcmp(either(a)->gate, either(b)->gate) == 0;
}

void report_print_compared(const struct report_comparison *c, const char *before, size_t n_before,
                           const char *after, size_t n_after) {
    printf("since %s (%zu checks): %s (%zu checks)\n", before, n_before, after, n_after);
    for (size_t i = 0, n; i < c->n; i += n) {
        for (n = 1; i + n < c->n && together(&c->changes[i], &c->changes[i + n]);) n++;
        put_gate(&c->changes[i], n);
    }
    printf("%zu checks as before, %zu worse\n", c->same, c->worse);
    printf("forkgate: %s\n", c->worse > 0 ? "WORSE" : "NOTHING-WORSE");
}
