/* diff_print.c - see diff_print.h. */
#include "gates/diff_print.h"

#include <string.h>

const char *diff_ink(const struct diff_view *v, enum diff_colour c) {
    static const char *const codes[] = {"\033[0m", "\033[1m", "\033[31m", "\033[32m", "\033[36m"};
    return v->colour ? codes[c] : "";
}

const char *diff_escaped(const void *bytes, size_t n, const struct diff_view *v, char out[DIFF_CELL]) {
    (void)table_escape(bytes, n, v->utf8, 0, out, DIFF_CELL);
    return out;
}

static void print_difference(FILE *out, const char *key, const char *x, const char *y, diff_note *note,
                             const struct diff_view *v) {
    char vx[DIFF_CELL], vy[DIFF_CELL];
    int room = (v->width - 24) / 2;
    if (room < 24) room = 24;
    const char *tx = x == NULL ? "(absent)" : diff_escaped(x, strlen(x), v, vx);
    const char *ty = y == NULL ? "(absent)" : diff_escaped(y, strlen(y), v, vy);
    fprintf(out, "  %-14s %s%.*s%s%s | %s%.*s%s%s", key, diff_ink(v, DIFF_RED), room, tx,
            strlen(tx) > (size_t)room ? ".." : "", diff_ink(v, DIFF_PLAIN), diff_ink(v, DIFF_GREEN), room, ty,
            strlen(ty) > (size_t)room ? ".." : "", diff_ink(v, DIFF_PLAIN));
    const char *means = note(key, x, y);
    fprintf(out, *means == '\0' ? "\n" : "  (%s)\n", means);
}

void diff_print_provenance(FILE *out, const struct provenance *a, const struct provenance *b, diff_note *note,
                           const struct diff_view *v) {
    int differ = 0;
    for (int pass = 0; pass < 2; pass++) { /* count first, so that "nothing differs" can be said */
        if (pass == 1)
            fprintf(out, differ == 0 ? "provenance: nothing differs\n" : "provenance that differs (A | B)\n");
        for (int i = 0; i < a->n; i++) {
            const char *other = provenance_get(b, a->items[i].key);
            if (other != NULL && strcmp(other, a->items[i].value) == 0) continue;
            differ++;
            if (pass == 1) print_difference(out, a->items[i].key, a->items[i].value, other, note, v);
        }
        for (int i = 0; i < b->n; i++) {
            if (provenance_get(a, b->items[i].key) != NULL) continue;
            differ++;
            if (pass == 1) print_difference(out, b->items[i].key, NULL, b->items[i].value, note, v);
        }
    }
}
