/* cases.c - see cases.h. */
#include "gates/cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/ops.h"
#include "engine/rng.h"

static const char *const family_names[FAMILIES] = {"normal", "outlier",  "near-tie", "subnormal",
                                                   "huge",   "constant", "exact"};

static const struct {
    const char *name;
    int64_t value;
} symbols[] = {{"TC_K", TC_K},
               {"TC_PANEL", TC_PANEL},
               {"NORM_LANES", NORM_LANES},
               {"F32_LANES", F32_LANES},
               {"ACT_BLOCK_32", ACT_BLOCK_32},
               {"ACT_BLOCK_256", ACT_BLOCK_256},
               {"ACT_SUM_GROUP", ACT_SUM_GROUP},
               {"FA_TQ", FA_TQ_DEFAULT},
               {"FA_TQ_MAX", FA_TQ_MAX},
               {"FA_TKV", FA_TKV_DEFAULT},
               {"FA_TKV_MAX", FA_TKV_MAX},
               {"FA_CHUNK", FA_CHUNK_DEFAULT},
               {"FA_SPLITS", FA_SPLITS_DEFAULT},
               {"FA_HEAD_DIM_MAX", FA_HEAD_DIM_MAX},
               {"BATCH_MAX", BATCH_MAX},
               {"CHUNK_DEFAULT", CHUNK_DEFAULT},
               {"ROUTE_F16", ROUTE_F16},
               {"ROUTE_Q8", ROUTE_Q8},
               {"ROUTE_F32", ROUTE_F32}};

const char *family_name(enum family f) {
    return family_names[f];
}

int family_from_name(const char *name) {
    for (int i = 0; i < FAMILIES; i++)
        if (strcmp(family_names[i], name) == 0) return i;
    return -1;
}

int64_t case_dim(const struct op_case *c, const char *key, int64_t fallback) {
    for (int i = 0; i < c->n_dims; i++)
        if (strcmp(c->dims[i].key, key) == 0) return c->dims[i].value;
    return fallback;
}

/* A number or a symbol at *p; moves *p behind it. */
static enum status parse_term(const char **p, const char *end, int64_t *value, struct err *err) {
    const char *start = *p;
    while (*p < end && **p != '+' && **p != '-' && **p != '*') (*p)++;
    size_t length = (size_t)(*p - start);
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        if (strlen(symbols[i].name) != length || memcmp(symbols[i].name, start, length) != 0) continue;
        *value = symbols[i].value;
        return STATUS_OK;
    }
    int64_t number = 0;
    for (size_t i = 0; i < length; i++) {
        if (start[i] < '0' || start[i] > '9' || number > 1 << 28) length = 0;
        if (length != 0) number = number * 10 + (start[i] - '0');
    }
    if (length == 0)
        return err_set(err, STATUS_FORMAT, "'%.*s' is no number or symbol", (int)(end - start), start);
    *value = number;
    return STATUS_OK;
}

enum status case_expression(const char *text, size_t length, int64_t *value, struct err *err) {
    const char *p = text, *end = text + length;
    int64_t sum = 0, product;
    int sign = 1;
    for (;;) {
        RETURN_IF_ERROR(parse_term(&p, end, &product, err));
        while (p < end && *p == '*') {
            int64_t factor;
            p++;
            RETURN_IF_ERROR(parse_term(&p, end, &factor, err));
            product *= factor;
            if (product > 1 << 28)
                return err_set(err, STATUS_FORMAT, "'%.*s' is too large", (int)length, text);
        }
        sum += sign * product;
        if (p == end) break;
        sign = *p++ == '-' ? -1 : 1;
    }
    *value = sum;
    return STATUS_OK;
}

static enum status parse_dim(const char *word, size_t length, struct op_case *c, struct err *err) {
    const char *eq = memchr(word, '=', length);
    size_t key_length = eq == NULL ? 0 : (size_t)(eq - word);
    if (key_length == 0 || key_length >= sizeof c->dims[0].key)
        return err_set(err, STATUS_FORMAT, "shape: '%.*s' is not key=value", (int)length, word);
    if (c->n_dims == CASE_DIMS) return err_set(err, STATUS_FORMAT, "shape: more than %d values", CASE_DIMS);
    memcpy(c->dims[c->n_dims].key, word, key_length);
    c->dims[c->n_dims].key[key_length] = '\0';
    enum status s = case_expression(eq + 1, length - key_length - 1, &c->dims[c->n_dims].value, err);
    if (s != STATUS_OK) return err_prefix(err, s, "shape: %s", c->dims[c->n_dims].key);
    c->n_dims++;
    return STATUS_OK;
}

/* Calls for each blank-separated word; returns the word's end or NULL at the end of the text. */
static const char *next_word(const char *p, const char **start) {
    while (*p == ' ') p++;
    *start = p;
    while (*p != ' ' && *p != '\0') p++;
    return p == *start ? NULL : p;
}

static enum status parse_families(const char *text, int wanted[FAMILIES], struct err *err) {
    const char *start, *end;
    for (const char *p = text; (end = next_word(p, &start)) != NULL; p = end) {
        char name[16];
        size_t length = (size_t)(end - start);
        (void)snprintf(name, sizeof name, "%.*s", (int)(length < 15 ? length : 15), start);
        int f = family_from_name(name);
        int all = strcmp(name, "all") == 0;
        if (f < 0 && !all) return err_set(err, STATUS_FORMAT, "families: '%s' is none", name);
        for (int i = 0; i < FAMILIES; i++) wanted[i] |= all || i == f;
    }
    return STATUS_OK;
}

static void describe(struct op_case *c) {
    size_t used = 0;
    for (int i = 0; i < c->n_dims && used < sizeof c->text; i++)
        used += (size_t)snprintf(c->text + used, sizeof c->text - used, "%s=%lld ", c->dims[i].key,
                                 (long long)c->dims[i].value);
    if (used < sizeof c->text)
        (void)snprintf(c->text + used, sizeof c->text - used, "%s family=%s seed=%llu", c->dtype,
                       family_name(c->family), (unsigned long long)c->seed);
}

enum status case_parse(const char *const fields[6], struct op_case out[FAMILIES], int *n, struct err *err) {
    struct op_case c;
    memset(&c, 0, sizeof c);
    *n = 0;
    if (fields[0][0] == '\0' || strlen(fields[0]) >= sizeof c.op || strlen(fields[1]) >= sizeof c.dtype)
        return err_set(err, STATUS_FORMAT, "op '%s', dtype '%s'", fields[0], fields[1]);
    (void)snprintf(c.op, sizeof c.op, "%s", fields[0]);
    (void)snprintf(c.dtype, sizeof c.dtype, "%s", fields[1]);
    const char *start, *end;
    for (const char *p = fields[2]; (end = next_word(p, &start)) != NULL; p = end)
        RETURN_IF_ERROR(parse_dim(start, (size_t)(end - start), &c, err));
    int wanted[FAMILIES] = {0};
    RETURN_IF_ERROR(parse_families(fields[3], wanted, err));
    int64_t seed;
    enum status s = case_expression(fields[4], strlen(fields[4]), &seed, err);
    if (s != STATUS_OK) return err_prefix(err, s, "seed");
    c.seed = (uint64_t)seed;
    c.quick = strcmp(fields[5], "quick") == 0;
    if (!c.quick && strcmp(fields[5], "full") != 0)
        return err_set(err, STATUS_FORMAT, "battery: '%s' (quick or full)", fields[5]);
    for (int f = 0; f < FAMILIES; f++) {
        if (!wanted[f]) continue;
        c.family = (enum family)f;
        describe(&c);
        out[(*n)++] = c;
    }
    return *n > 0 ? STATUS_OK : err_set(err, STATUS_FORMAT, "families: none named");
}

static float fill_one(const struct op_case *c, uint64_t seed, const struct fill_range *range, size_t i) {
    float normal = rng_normal(seed, i), uniform = rng_uniform(seed ^ 0x5bd1e995u, i);
    switch (c->family) {
    case FAMILY_NORMAL:
        return normal;
    case FAMILY_OUTLIER:
        return rng_u64(seed ^ 0x68e31da4u, i) % 32 == 0 ? normal * 60.0f : normal;
    case FAMILY_NEAR_TIE: /* 1.75 plus 0 to 3 steps of f16 */
        return 1.75f + 0x1p-10f * (float)(rng_u64(seed, i) & 3);
    case FAMILY_SUBNORMAL:
        return uniform * 2.0f * range->smallest;
    case FAMILY_HUGE:
        return (normal < 0 ? -1.0f : 1.0f) * range->huge * (0.75f + 0.25f * uniform);
    case FAMILY_CONSTANT:
        return 0.8125f;
    case FAMILY_EXACT:
        return (float)((int)(rng_u64(seed, i) % 17) - 8);
    }
    return 0.0f;
}

void case_fill(const struct op_case *c, int stream, const struct fill_range *range, float *x, size_t n) {
    uint64_t seed = c->seed * 64 + (uint64_t)stream;
    for (size_t i = 0; i < n; i++) x[i] = fill_one(c, seed, range, i);
}
