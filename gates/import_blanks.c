/* import_blanks.c - see import_blanks.h. */
#include "gates/import_blanks.h"

#define FNV_PRIME 1099511628211u

void import_blanks_add(struct import_blanks *b, const void *bytes, size_t n) {
    const uint8_t *p = bytes;
    for (size_t i = 0; i < n; i++) {
        if (p[i] == ' ') {
            b->blanks += b->others > 0;
            continue;
        }
        b->sum = (b->sum ^ p[i]) * FNV_PRIME + 1;
        b->others++;
    }
}

uint64_t import_blanks_lost(const struct import_blanks *text, const struct import_blanks *tokens) {
    if (text->sum != tokens->sum || text->others != tokens->others || tokens->blanks >= text->blanks)
        return 0;
    return text->blanks - tokens->blanks;
}
