/* geometry.c - see geometry.h. */
#include "geometry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(FA_CHUNK_DEFAULT % FA_TKV_MAX == 0, "a chunk must be a multiple of every FA_TKV");
_Static_assert(FA_TKV_DEFAULT % TC_K == 0, "P.V walks a tile in whole tensor-core steps");
_Static_assert(ACT_BLOCK_32 % ACT_SUM_GROUP == 0, "sum groups tile the activation block");

struct geometry geometry_default(enum arch arch) {
    (void)arch; /* both rows are equal today; the call is where a third architecture gets its own */
    struct geometry g = {FA_TQ_DEFAULT, FA_TKV_DEFAULT, FA_CHUNK_DEFAULT, FA_SPLITS_DEFAULT};
    return g;
}

enum status geometry_check(const struct geometry *g, struct err *err) {
    if (g->fa_tq != 64 && g->fa_tq != 128)
        return err_set(err, STATUS_USAGE, "geometry: fa_tq=%d has no instance (64 or 128)", g->fa_tq);
    if (g->fa_tkv != 16 && g->fa_tkv != 32 && g->fa_tkv != 64)
        return err_set(err, STATUS_USAGE, "geometry: fa_tkv=%d has no instance (16, 32 or 64)", g->fa_tkv);
    if (g->fa_chunk < 64 || g->fa_chunk > FA_CHUNK_MAX || g->fa_chunk % g->fa_tkv != 0)
        return err_set(err, STATUS_USAGE,
                       "geometry: fa_chunk=%d must be 64 to %d and a multiple of fa_tkv=%d", g->fa_chunk,
                       FA_CHUNK_MAX, g->fa_tkv);
    if (g->fa_splits < 1 || g->fa_splits > FA_SPLITS_MAX)
        return err_set(err, STATUS_USAGE, "geometry: fa_splits=%d must be 1 to %d", g->fa_splits,
                       FA_SPLITS_MAX);
    return STATUS_OK;
}

static int *geometry_field(struct geometry *g, const char *key, size_t n) {
    static const char *const names[] = {"fa_tq", "fa_tkv", "fa_chunk", "fa_splits"};
    int *const fields[] = {&g->fa_tq, &g->fa_tkv, &g->fa_chunk, &g->fa_splits};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strlen(names[i]) == n && memcmp(names[i], key, n) == 0) return fields[i];
    return NULL;
}

enum status geometry_parse(const char *text, struct geometry *g, struct err *err) {
    struct geometry parsed = *g;
    for (const char *p = text;;) {
        const char *eq = strchr(p, '=');
        int *field = eq == NULL ? NULL : geometry_field(&parsed, p, (size_t)(eq - p));
        if (field == NULL)
            return err_set(err, STATUS_USAGE, "geometry: '%s' (want fa_tq=, fa_tkv=, fa_chunk=, fa_splits=)",
                           text);
        char *end = NULL;
        long value = strtol(eq + 1, &end, 10);
        if (end == eq + 1 || (*end != ',' && *end != '\0') || value < 0 || value > 1 << 20)
            return err_set(err, STATUS_USAGE, "geometry: bad number in '%s'", text);
        *field = (int)value;
        if (*end == '\0') break;
        p = end + 1;
    }
    RETURN_IF_ERROR(geometry_check(&parsed, err));
    *g = parsed;
    return STATUS_OK;
}

void geometry_format(const struct geometry *g, char *out, int out_bytes) {
    (void)snprintf(out, (size_t)out_bytes, "fa_tq=%d,fa_tkv=%d,fa_chunk=%d,fa_splits=%d", g->fa_tq, g->fa_tkv,
                   g->fa_chunk, g->fa_splits);
}
