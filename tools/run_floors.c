/* run_floors.c - see run_floors.h. */
#include "tools/run_floors.h"

#include <string.h>

#define MARK    "detection floor: "
#define COLUMNS 100 /* of a line, before names go on the next */

/* What a row says of the floor, or NULL. */
static const char *floor_of(const struct gate_result *g, const struct evidence *e) {
    if (g->gate->tier == TIER_TOLERANCE || strcmp(e->arm, "negative") != 0 || e->verdict != VERDICT_PASS)
        return NULL;
    const char *text = strstr(e->note, MARK);
    return text == NULL ? NULL : text + strlen(MARK);
}

/* Has a row of this gate, of its first n_rows, this floor? */
static int has_floor(const struct gate_result *g, size_t n_rows, const char *text) {
    for (size_t i = 0; i < n_rows; i++) {
        const char *other = floor_of(g, &g->rows[i]);
        if (other != NULL && strcmp(other, text) == 0) return 1;
    }
    return 0;
}

static int was_said(const struct run_result *r, size_t gate, size_t row, const char *text) {
    for (size_t g = 0; g < gate; g++)
        if (has_floor(&r->gates[g], r->gates[g].n_rows, text)) return 1;
    return has_floor(&r->gates[gate], row, text);
}

/* One floor with the gates that have it, from the first of them on. */
static void print_floor(FILE *out, const struct run_result *r, size_t first, const char *text) {
    int column = fprintf(out, "  %s:", text);
    for (size_t g = first; g < r->n; g++) {
        if (!has_floor(&r->gates[g], r->gates[g].n_rows, text)) continue;
        if (column + (int)strlen(r->gates[g].gate->id) >= COLUMNS) column = fprintf(out, "\n   ") - 1;
        column += fprintf(out, " %s", r->gates[g].gate->id);
    }
    fprintf(out, "\n");
}

void run_floors_print(FILE *out, const struct run_result *r) {
    int any = 0;
    for (size_t g = 0; g < r->n; g++)
        for (size_t i = 0; i < r->gates[g].n_rows; i++) {
            const char *text = floor_of(&r->gates[g], &r->gates[g].rows[i]);
            if (text == NULL || was_said(r, g, i, text)) continue;
            if (any++ == 0) fprintf(out, "floors: the smallest damage that each gate was seen to call red\n");
            print_floor(out, r, g, text);
        }
}
