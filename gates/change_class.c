/* change_class.c - see change_class.h. */
#include "gates/change_class.h"

#include <stdio.h>
#include <string.h>

static int asks_for_golden_bits(const struct gate_result *r, const struct evidence *row) {
    static const char prefix[] = "stream.golden.";
    return r->gate->tier == TIER_IDENTITY && strncmp(r->gate->id, prefix, sizeof prefix - 1) == 0 &&
           (strcmp(row->arm, "golden") == 0 || strcmp(row->arm, "first-step") == 0 ||
            strcmp(row->arm, "base") == 0) &&
           strncmp(row->note, "INVALID", 7) != 0;
}

#define MOVED "class fa, judged by tier 4: "

int change_class_moved(const struct evidence *row) {
    return row->verdict == VERDICT_SKIP && strncmp(row->note, MOVED, sizeof MOVED - 1) == 0;
}

size_t change_class_apply(struct gate_result *r) {
    size_t moved = 0;
    for (size_t i = 0; i < r->n_rows; i++) {
        struct evidence *row = &r->rows[i];
        char note[sizeof row->note];
        if (row->verdict != VERDICT_FAIL || !asks_for_golden_bits(r, row)) continue;
        (void)snprintf(note, sizeof note, MOVED "%.290s", row->note);
        memcpy(row->note, note, sizeof note);
        row->verdict = VERDICT_SKIP;
        moved++;
    }
    return moved;
}
