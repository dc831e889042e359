/* gguf.c - parses the header, keys and tensor records of a GGUF v2 or v3 (see gguf.h).
 * Not the typed reads (gguf_read.c) and not the file (gguf_open.c).
 * Idea: one cursor that can only move inside the range; a count is compared with the bytes left before the loop, and
 * arrays grow with the records really read, so memory follows the file and never a claim.
 * Source: the GGUF specification. Exercise: ctest -R unit.gguf ; fuzz_gguf */
#include "gguf_impl.h"

#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT_DEFAULT 32u
#define ALIGNMENT_MAX     (1u << 20)
#define KEY_NAME_MAX      65535u
#define TENSOR_NAME_MAX   64u
#define KEY_BYTES_MIN     14u /* length 8, one byte of name, type 4, a one-byte value */
#define TENSOR_BYTES_MIN  33u /* length 8, one byte of name, n_dims 4, one dim 8, type 4, offset 8 */
#define QUOTED            64  /* bytes of a name quoted in a message */

struct cursor {
    const uint8_t *p;
    uint64_t left;
};

uint64_t gguf_le(const uint8_t *p, int bytes) {
    uint64_t v = 0;
    for (int i = 0; i < bytes; i++) v |= (uint64_t)p[i] << (8 * i);
    return v;
}

int gguf_scalar_bytes(enum gguf_type t) {
    static const uint8_t bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return bytes[t];
}

int gguf_name_compare(struct gguf_string a, struct gguf_string b) {
    uint64_t n = a.length < b.length ? a.length : b.length;
    int c = n == 0 ? 0 : memcmp(a.data, b.data, (size_t)n);
    if (c != 0) return c;
    return (a.length > b.length) - (a.length < b.length);
}

/* NULL when fewer than n bytes are left. */
static const uint8_t *take(struct cursor *c, uint64_t n) {
    if (n > c->left) return NULL;
    const uint8_t *p = c->p;
    c->p += n;
    c->left -= n;
    return p;
}

static int take_le(struct cursor *c, int bytes, uint64_t *out) {
    const uint8_t *p = take(c, (uint64_t)bytes);
    if (p == NULL) return 0;
    *out = gguf_le(p, bytes);
    return 1;
}

static int quoted(struct gguf_string s) {
    return s.length < QUOTED ? (int)s.length : QUOTED;
}

static enum status take_name(struct cursor *c, const char *what, uint64_t index, uint64_t max,
                             struct gguf_string *out, struct err *err) {
    uint64_t n = 0;
    if (!take_le(c, 8, &n))
        return err_set(err, STATUS_FORMAT, "%s %" PRIu64 ": the file ends inside its name length", what,
                       index);
    if (n == 0) return err_set(err, STATUS_FORMAT, "%s %" PRIu64 ": empty name", what, index);
    if (n > c->left || n > max)
        return err_set(err, STATUS_FORMAT,
                       "%s %" PRIu64 ": name length %" PRIu64 " is more than %s (%" PRIu64 ")", what, index,
                       n, n > max ? "the limit" : "the bytes left", n > max ? max : c->left);
    const uint8_t *p = take(c, n);
    if (memchr(p, 0, (size_t)n) != NULL)
        return err_set(err, STATUS_FORMAT, "%s %" PRIu64 ": a NUL byte in its name", what, index);
    out->data = (const char *)p;
    out->length = n;
    return STATUS_OK;
}

/* Makes room for one more record; *room doubles. NULL when memory is short. */
static void *grow(void *array, uint64_t n, uint64_t *room, size_t record) {
    if (n < *room) return array;
    uint64_t want = *room == 0 ? 64 : *room * 2;
    if (want > SIZE_MAX / record) return NULL;
    void *more = realloc(array, (size_t)want * record);
    if (more != NULL) *room = want;
    return more;
}

/* ---- keys -------------------------------------------------------------------------------------------------- */

static enum status bad_key(const struct gguf_key *k, struct err *err, const char *what, uint64_t value) {
    return err_set(err, STATUS_FORMAT, "key '%.*s': %s (%" PRIu64 ")", quoted(k->name), k->name.data, what,
                   value);
}

static enum status parse_string_array(struct cursor *c, struct gguf_key *k, struct err *err) {
    if (k->n > c->left / 8) return bad_key(k, err, "array is longer than the bytes left", k->n);
    k->value = c->p;
    struct cursor walk = *c;
    for (uint64_t i = 0; i < k->n; i++) {
        uint64_t n = 0;
        if (!take_le(&walk, 8, &n) || take(&walk, n) == NULL)
            return bad_key(k, err, "a string of the array ends past the end of the file, at index", i);
    }
    /* Every string took at least 8 bytes of the file, so the table is no larger than the file. */
    if (k->n > 0 && (k->string_at = malloc((size_t)k->n * sizeof *k->string_at)) == NULL)
        return err_set(err, STATUS_NOMEM, "key '%.*s': no memory for %" PRIu64 " strings", quoted(k->name),
                       k->name.data, k->n);
    for (uint64_t i = 0; i < k->n; i++) {
        uint64_t n = 0;
        k->string_at[i] = (uint64_t)(c->p - k->value);
        (void)take_le(c, 8, &n);
        (void)take(c, n);
    }
    return STATUS_OK;
}

static enum status check_bools(const struct gguf_key *k, uint64_t n, struct err *err) {
    for (uint64_t i = 0; i < n; i++)
        if (k->value[i] > 1) return bad_key(k, err, "a bool is neither 0 nor 1", k->value[i]);
    return STATUS_OK;
}

static enum status parse_array(struct cursor *c, struct gguf_key *k, struct err *err) {
    uint64_t element = 0;
    if (!take_le(c, 4, &element) || !take_le(c, 8, &k->n))
        return bad_key(k, err, "the file ends inside the array header, bytes left", c->left);
    if (element == GGUF_ARRAY)
        return bad_key(k, err, "arrays of arrays are not handled, element type", element);
    if (element > GGUF_F64) return bad_key(k, err, "unknown array element type", element);
    k->element = (enum gguf_type)element;
    if (k->element == GGUF_STRING) return parse_string_array(c, k, err);
    uint64_t size = (uint64_t)gguf_scalar_bytes(k->element);
    if (k->n > c->left / size) return bad_key(k, err, "array is longer than the bytes left", k->n);
    k->value = take(c, k->n * size);
    return k->element == GGUF_BOOL ? check_bools(k, k->n, err) : STATUS_OK;
}

static enum status parse_value(struct cursor *c, struct gguf_key *k, struct err *err) {
    uint64_t type = 0;
    if (!take_le(c, 4, &type)) return bad_key(k, err, "the file ends inside its type, bytes left", c->left);
    if (type > GGUF_F64) return bad_key(k, err, "unknown value type", type);
    k->type = (enum gguf_type)type;
    if (k->type == GGUF_ARRAY) return parse_array(c, k, err);
    if (k->type == GGUF_STRING) {
        if (!take_le(c, 8, &k->n))
            return bad_key(k, err, "the file ends inside its length, bytes left", c->left);
        if (k->n > c->left) return bad_key(k, err, "string is longer than the bytes left", k->n);
        k->value = take(c, k->n);
        return STATUS_OK;
    }
    k->n = 1;
    k->value = take(c, (uint64_t)gguf_scalar_bytes(k->type));
    if (k->value == NULL) return bad_key(k, err, "the file ends inside its value, bytes left", c->left);
    return k->type == GGUF_BOOL ? check_bools(k, 1, err) : STATUS_OK;
}

static enum status parse_keys(struct cursor *c, gguf *g, uint64_t n, struct err *err) {
    uint64_t room = 0;
    for (uint64_t i = 0; i < n; i++) {
        void *more = grow(g->keys, i, &room, sizeof *g->keys);
        if (more == NULL) return err_set(err, STATUS_NOMEM, "no memory for key %" PRIu64, i);
        g->keys = more;
        struct gguf_key *k = &g->keys[i];
        memset(k, 0, sizeof *k);
        g->n_keys = i + 1; /* so that close frees a half-read key */
        RETURN_IF_ERROR(take_name(c, "key", i, KEY_NAME_MAX, &k->name, err));
        RETURN_IF_ERROR(parse_value(c, k, err));
    }
    return STATUS_OK;
}

static int compare_keys(const void *a, const void *b) {
    const struct gguf_key *const *ka = a, *const *kb = b;
    return gguf_name_compare((*ka)->name, (*kb)->name);
}

static enum status index_keys(gguf *g, struct err *err) {
    if (g->n_keys == 0) return STATUS_OK;
    g->keys_by_name = malloc((size_t)g->n_keys * sizeof *g->keys_by_name);
    if (g->keys_by_name == NULL) return err_set(err, STATUS_NOMEM, "no memory for the key index");
    for (uint64_t i = 0; i < g->n_keys; i++) g->keys_by_name[i] = &g->keys[i];
    qsort(g->keys_by_name, (size_t)g->n_keys, sizeof *g->keys_by_name, compare_keys);
    for (uint64_t i = 1; i < g->n_keys; i++) {
        struct gguf_string name = g->keys_by_name[i]->name;
        if (gguf_name_compare(g->keys_by_name[i - 1]->name, name) == 0)
            return err_set(err, STATUS_FORMAT, "duplicate key '%.*s'", quoted(name), name.data);
    }
    return STATUS_OK;
}

static enum status read_alignment(gguf *g, struct err *err) {
    g->alignment = ALIGNMENT_DEFAULT;
    int64_t i = gguf_key_find(g, "general.alignment");
    if (i < 0) return STATUS_OK;
    const struct gguf_key *k = &g->keys[i];
    if (k->type != GGUF_U32) return bad_key(k, err, "must be a uint32, is of type", k->type);
    uint64_t a = gguf_le(k->value, 4);
    if (a < 8 || a > ALIGNMENT_MAX || (a & (a - 1)) != 0)
        return bad_key(k, err, "must be a power of two from 8 to 1048576", a);
    g->alignment = a;
    return STATUS_OK;
}

/* ---- tensors ----------------------------------------------------------------------------------------------- */

static enum status bad_tensor(const struct gguf_tensor *t, struct err *err, const char *what,
                              uint64_t value) {
    return err_set(err, STATUS_FORMAT, "tensor '%.*s': %s (%" PRIu64 ")", quoted(t->name), t->name.data, what,
                   value);
}

static enum status read_dtype(struct gguf_tensor *t, uint64_t code, struct err *err) {
    if (code > INT_MAX) return bad_tensor(t, err, "unknown tensor type", code);
    if (dtype_info((int)code) == NULL) {
        const char *name = dtype_foreign_name((int)code);
        return err_set(err, STATUS_UNSUPPORTED, "tensor '%.*s': type %s (%" PRIu64 ") is not handled",
                       quoted(t->name), t->name.data, name == NULL ? "unknown" : name, code);
    }
    t->dtype = (enum dtype)code;
    return STATUS_OK;
}

/* Size in bytes, refused when it exceeds limit; every product is checked by division before it is made. */
static enum status size_tensor(struct gguf_tensor *t, uint64_t limit, struct err *err) {
    const struct dtype_info *info = dtype_info((int)t->dtype);
    uint64_t block = (uint64_t)info->block, bytes = (uint64_t)info->bytes;
    if (t->dims[0] % block != 0)
        return err_set(err, STATUS_FORMAT,
                       "tensor '%.*s': row length %" PRIu64 " is not a multiple of %s's block of %d",
                       quoted(t->name), t->name.data, t->dims[0], info->name, info->block);
    uint64_t blocks = t->dims[0] / block, most = limit / bytes;
    int fits = blocks <= most;
    for (int i = 1; i < t->n_dims && fits; i++) {
        fits = blocks <= most / t->dims[i];
        if (fits) blocks *= t->dims[i];
    }
    if (!fits)
        return err_set(err, STATUS_FORMAT,
                       "tensor '%.*s': dims [%" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRIu64
                       "] of %s are larger than the file (%" PRIu64 " bytes)",
                       quoted(t->name), t->name.data, t->dims[0], t->dims[1], t->dims[2], t->dims[3],
                       info->name, limit);
    t->bytes = blocks * bytes;
    return STATUS_OK;
}

/* Leaves the relative offset in *offset; data is set when the start of the data section is known. */
static enum status parse_tensor(struct cursor *c, uint64_t index, uint64_t limit, struct gguf_tensor *t,
                                uint64_t *offset, struct err *err) {
    RETURN_IF_ERROR(take_name(c, "tensor", index, TENSOR_NAME_MAX, &t->name, err));
    uint64_t n_dims = 0, code = 0;
    if (!take_le(c, 4, &n_dims))
        return bad_tensor(t, err, "the file ends inside n_dims, bytes left", c->left);
    if (n_dims < 1 || n_dims > GGUF_MAX_DIMS) return bad_tensor(t, err, "n_dims must be 1 to 4", n_dims);
    t->n_dims = (int)n_dims;
    for (int i = 0; i < GGUF_MAX_DIMS; i++) {
        t->dims[i] = 1;
        if (i >= t->n_dims) continue;
        if (!take_le(c, 8, &t->dims[i]))
            return bad_tensor(t, err, "the file ends inside its dims, bytes left", c->left);
        if (t->dims[i] == 0) return bad_tensor(t, err, "a dimension is 0, index", (uint64_t)i);
    }
    if (!take_le(c, 4, &code) || !take_le(c, 8, offset))
        return bad_tensor(t, err, "the file ends inside its record, bytes left", c->left);
    RETURN_IF_ERROR(read_dtype(t, code, err));
    return size_tensor(t, limit, err);
}

static enum status parse_tensors(struct cursor *c, gguf *g, uint64_t n, struct err *err) {
    uint64_t room = 0;
    for (uint64_t i = 0; i < n; i++) {
        void *more = grow(g->tensors, i, &room, sizeof *g->tensors);
        if (more == NULL) return err_set(err, STATUS_NOMEM, "no memory for tensor %" PRIu64, i);
        g->tensors = more;
        struct gguf_tensor *t = &g->tensors[i];
        memset(t, 0, sizeof *t);
        uint64_t offset = 0;
        RETURN_IF_ERROR(parse_tensor(c, i, g->length, t, &offset, err));
        if (offset % g->alignment != 0)
            return bad_tensor(t, err, "offset is not a multiple of the alignment", offset);
        if (offset > g->length) return bad_tensor(t, err, "offset is past the end of the file", offset);
        t->data = g->base + offset; /* relative to the file until place_tensors knows the data section */
        g->n_tensors = i + 1;
    }
    return STATUS_OK;
}

static enum status place_tensors(gguf *g, uint64_t records_end, struct err *err) {
    if (g->n_tensors == 0) return STATUS_OK;
    uint64_t pad = (g->alignment - records_end % g->alignment) % g->alignment;
    if (pad > g->length - records_end)
        return err_set(err, STATUS_FORMAT, "the file ends before its data section (%" PRIu64 " bytes)",
                       g->length);
    uint64_t start = records_end + pad, room = g->length - start;
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        struct gguf_tensor *t = &g->tensors[i];
        uint64_t offset = (uint64_t)((const uint8_t *)t->data - g->base);
        if (offset > room || t->bytes > room - offset)
            return err_set(err, STATUS_FORMAT,
                           "tensor '%.*s': offset %" PRIu64 " and %" PRIu64
                           " bytes end past the end of the data section (%" PRIu64 " bytes)",
                           quoted(t->name), t->name.data, offset, t->bytes, room);
        t->data = g->base + start + offset;
    }
    return STATUS_OK;
}

static int compare_tensor_names(const void *a, const void *b) {
    const struct gguf_tensor *const *ta = a, *const *tb = b;
    return gguf_name_compare((*ta)->name, (*tb)->name);
}

static int compare_tensor_places(const void *a, const void *b) {
    const struct gguf_tensor *const *ta = a, *const *tb = b;
    const uint8_t *pa = (*ta)->data, *pb = (*tb)->data;
    return (pa > pb) - (pa < pb);
}

static enum status index_tensors(gguf *g, struct err *err) {
    uint64_t n = g->n_tensors;
    if (n == 0) return STATUS_OK;
    const struct gguf_tensor **order = malloc((size_t)n * sizeof *order);
    if (order == NULL) return err_set(err, STATUS_NOMEM, "no memory for the tensor index");
    g->tensors_by_name = order;
    for (uint64_t i = 0; i < n; i++) order[i] = &g->tensors[i];
    qsort(order, (size_t)n, sizeof *order, compare_tensor_places);
    for (uint64_t i = 1; i < n; i++)
        if ((const uint8_t *)order[i - 1]->data + order[i - 1]->bytes > (const uint8_t *)order[i]->data)
            return err_set(err, STATUS_FORMAT, "tensors '%.*s' and '%.*s' overlap",
                           quoted(order[i - 1]->name), order[i - 1]->name.data, quoted(order[i]->name),
                           order[i]->name.data);
    qsort(order, (size_t)n, sizeof *order, compare_tensor_names);
    for (uint64_t i = 1; i < n; i++)
        if (gguf_name_compare(order[i - 1]->name, order[i]->name) == 0)
            return bad_tensor(order[i], err, "duplicate name, record", (uint64_t)(order[i] - g->tensors));
    return STATUS_OK;
}

/* ---- the whole --------------------------------------------------------------------------------------------- */

static enum status parse_header(struct cursor *c, gguf *g, uint64_t *n_tensors, uint64_t *n_keys,
                                struct err *err) {
    const uint8_t *magic = take(c, 4);
    if (magic == NULL)
        return err_set(err, STATUS_FORMAT, "not a GGUF file: only %" PRIu64 " bytes", g->length);
    if (memcmp(magic, "GGUF", 4) != 0)
        return err_set(err, STATUS_FORMAT, "not a GGUF file: magic is %02x %02x %02x %02x", magic[0],
                       magic[1], magic[2], magic[3]);
    uint64_t version = 0;
    if (!take_le(c, 4, &version) || !take_le(c, 8, n_tensors) || !take_le(c, 8, n_keys))
        return err_set(err, STATUS_FORMAT, "the file ends inside its header (%" PRIu64 " bytes)", g->length);
    if (version == 0x02000000 || version == 0x03000000)
        return err_set(err, STATUS_UNSUPPORTED, "big-endian GGUF files are not handled");
    if (version != 2 && version != 3)
        return err_set(err, STATUS_UNSUPPORTED, "GGUF version %" PRIu64 " is not handled (2 and 3 are)",
                       version);
    if (*n_tensors > c->left / TENSOR_BYTES_MIN)
        return err_set(err, STATUS_FORMAT,
                       "tensor count %" PRIu64 " does not fit in the %" PRIu64 " bytes left", *n_tensors,
                       c->left);
    if (*n_keys > c->left / KEY_BYTES_MIN)
        return err_set(err, STATUS_FORMAT, "key count %" PRIu64 " does not fit in the %" PRIu64 " bytes left",
                       *n_keys, c->left);
    return STATUS_OK;
}

static enum status parse(gguf *g, struct err *err) {
    struct cursor c = {g->base, g->length};
    uint64_t n_tensors = 0, n_keys = 0;
    RETURN_IF_ERROR(parse_header(&c, g, &n_tensors, &n_keys, err));
    RETURN_IF_ERROR(parse_keys(&c, g, n_keys, err));
    RETURN_IF_ERROR(index_keys(g, err));
    RETURN_IF_ERROR(read_alignment(g, err));
    RETURN_IF_ERROR(parse_tensors(&c, g, n_tensors, err));
    RETURN_IF_ERROR(place_tensors(g, g->length - c.left, err));
    return index_tensors(g, err);
}

enum status gguf_parse(const void *bytes, uint64_t length, gguf **out, struct err *err) {
    assert(bytes != NULL || length == 0);
    *out = NULL;
    gguf *g = calloc(1, sizeof *g);
    if (g == NULL) return err_set(err, STATUS_NOMEM, "no memory for a GGUF handle");
    g->base = bytes;
    g->length = length;
    enum status s = parse(g, err);
    if (s != STATUS_OK) {
        gguf_close(g);
        return s;
    }
    *out = g;
    return STATUS_OK;
}
