/* import_npy.c - see import_npy.h. */
#include "gates/import_npy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "gates/file_map.h"
#include "gates/import.h"
#include "gates/metrics.h"

#define MARK_BYTES 6 /* of the magic; then the version's two bytes and the header's length */
#define HEADER_MAX 65536u
#define WORD_BYTES 64
#define AT_ONCE    4096
#define N_KEYS     3

enum key { DESCR, FORTRAN_ORDER, SHAPE };
static const char *const key_names[N_KEYS] = {"descr", "fortran_order", "shape"};

/* Where the header is read; the first thing that does not fit ends it. */
struct reader {
    const uint8_t *bytes;
    size_t at, end;
    const char *name;
    struct err *err;
    char descr[WORD_BYTES];
    int fortran, n_dims;
    uint64_t dims[4]; /* as NumPy has them: slowest first */
};

static enum status refuse(const struct reader *r, const char *what) {
    return err_set(r->err, STATUS_FORMAT, "%s: byte %zu: %s", r->name, r->at, what);
}

static int peek(const struct reader *r) {
    return r->at < r->end ? r->bytes[r->at] : -1;
}

static void skip_blanks(struct reader *r) {
    while (peek(r) == ' ') r->at++;
}

/* Takes c, with blanks before it. */
static int take(struct reader *r, char c) {
    skip_blanks(r);
    if (peek(r) != (unsigned char)c) return 0;
    r->at++;
    return 1;
}

static int take_word(struct reader *r, const char *word) {
    size_t n = strlen(word);
    skip_blanks(r);
    if (r->end - r->at < n || memcmp(r->bytes + r->at, word, n) != 0) return 0;
    r->at += n;
    return 1;
}

/* 'text' or "text", printable and without escapes. */
static enum status read_string(struct reader *r, char out[WORD_BYTES]) {
    size_t n = 0;
    skip_blanks(r);
    int quote = peek(r);
    if (quote != '\'' && quote != '"') return refuse(r, "want a quoted text");
    r->at++;
    for (int c = peek(r); c != quote; c = peek(r)) {
        if (c < 0x20 || c >= 0x7f || c == '\\' || n + 1 == WORD_BYTES)
            return refuse(r, "a text that does not end, is too long or not plain");
        out[n++] = (char)c;
        r->at++;
    }
    out[n] = '\0';
    r->at++;
    return STATUS_OK;
}

static enum status read_number(struct reader *r, uint64_t *out) {
    int digits = 0;
    *out = 0;
    skip_blanks(r);
    for (int c = peek(r); c >= '0' && c <= '9'; c = peek(r)) {
        if (++digits > 15) return refuse(r, "a dimension of more than 15 digits");
        *out = *out * 10 + (uint64_t)(c - '0');
        r->at++;
    }
    return digits > 0 ? STATUS_OK : refuse(r, "want a dimension");
}

/* "()", "(3,)", "(3, 4)" .. */
static enum status read_shape(struct reader *r) {
    if (!take(r, '(')) return refuse(r, "want the shape in parentheses");
    while (!take(r, ')')) {
        uint64_t dim = 0;
        RETURN_IF_ERROR(read_number(r, &dim));
        if (r->n_dims == 4) return refuse(r, "more than 4 dimensions: reshape the array before it is saved");
        r->dims[r->n_dims++] = dim;
        int comma = take(r, ',');
        skip_blanks(r);
        if (!comma && (peek(r) != ')' || r->n_dims == 1)) return refuse(r, "want a comma");
    }
    return STATUS_OK;
}

static enum status read_value(struct reader *r, enum key key) {
    if (key == SHAPE) return read_shape(r);
    if (key == DESCR) {
        skip_blanks(r);
        if (peek(r) == '[') return refuse(r, "a structured dtype: save one field as an array");
        return read_string(r, r->descr);
    }
    r->fortran = take_word(r, "True");
    return r->fortran || take_word(r, "False") ? STATUS_OK : refuse(r, "want True or False");
}

/* {'descr': .., 'fortran_order': .., 'shape': .., } in any order, then blanks and a line end. */
static enum status read_dictionary(struct reader *r) {
    unsigned seen = 0;
    char word[WORD_BYTES];
    if (!take(r, '{')) return refuse(r, "want the header's dictionary");
    while (!take(r, '}')) {
        int key = 0;
        RETURN_IF_ERROR(read_string(r, word));
        while (key < N_KEYS && strcmp(word, key_names[key]) != 0) key++;
        if (key == N_KEYS || (seen & 1u << key) != 0)
            return refuse(r, "a key that is unknown or there twice");
        seen |= 1u << key;
        if (!take(r, ':')) return refuse(r, "want a colon");
        RETURN_IF_ERROR(read_value(r, (enum key)key));
        int comma = take(r, ',');
        skip_blanks(r);
        if (!comma && peek(r) != '}') return refuse(r, "want a comma");
    }
    if (seen != (1u << N_KEYS) - 1) return refuse(r, "descr, fortran_order or shape is missing");
    skip_blanks(r);
    if (r->at + 1 != r->end || r->bytes[r->at] != '\n') return refuse(r, "the header does not end here");
    return STATUS_OK;
}

/* The magic, the version and the length; then r stands at the dictionary, and r->end behind it. */
static enum status read_frame(struct reader *r, size_t n) {
    if (n < 10 || memcmp(r->bytes, IMPORT_NPY_MAGIC, MARK_BYTES) != 0) return refuse(r, "not a NumPy array");
    int major = r->bytes[6], minor = r->bytes[7];
    size_t start = major == 1 ? 10 : 12, length = (size_t)r->bytes[8] | (size_t)r->bytes[9] << 8;
    r->at = MARK_BYTES;
    if ((major != 1 && major != 2) || minor != 0) return refuse(r, "a version that is not 1.0 or 2.0");
    r->at = 8;
    if (n < start) return refuse(r, "cut short");
    if (major == 2) length |= (size_t)r->bytes[10] << 16 | (size_t)r->bytes[11] << 24;
    if (length > HEADER_MAX || length > n - start)
        return refuse(r, "a header longer than the file, or 64 KiB");
    r->at = start;
    r->end = start + length;
    return STATUS_OK;
}

static enum status unsupported(const struct reader *r, const char *what) {
    return err_set(r->err, STATUS_UNSUPPORTED, "%s: dtype %s: %s", r->name, r->descr, what);
}

static enum status find_dtype(const struct reader *r, int bf16, enum dtype *out) {
    const char *d = r->descr;
    int words =
        strcmp(d, "<u2") == 0 || strcmp(d, "<i2") == 0 || strcmp(d, "|V2") == 0 || strcmp(d, "<V2") == 0;
    *out = strcmp(d, "<f4") == 0 ? DTYPE_F32 : strcmp(d, "<f2") == 0 ? DTYPE_F16 : DTYPE_BF16;
    if (bf16 && !words) return unsupported(r, "--bf16 is for 16-bit words (u2): save tensor.view(uint16)");
    if (words && !bf16) return unsupported(r, "16-bit words: if they are bf16 say --bf16");
    if (words || *out != DTYPE_BF16) return STATUS_OK;
    return unsupported(r, "only little-endian f4 and f2 (float32, float16), or bf16 as u2, are read");
}

static enum status fit(const struct reader *r, size_t n, const struct import_npy_options *o,
                       struct import_npy *out) {
    struct tensor_shape *s = &out->shape;
    RETURN_IF_ERROR(find_dtype(r, o->bf16, &s->dtype));
    if (r->fortran)
        return err_set(r->err, STATUS_UNSUPPORTED, "%s: Fortran order: save numpy.ascontiguousarray(x)",
                       r->name);
    s->n_dims = r->n_dims == 0 ? 1 : r->n_dims; /* a scalar is one element */
    for (int i = 0; i < 4; i++) s->ne[i] = i < r->n_dims ? r->dims[r->n_dims - 1 - i] : 1;
    enum status status = tensor_shape_check(s, &out->bytes, r->err);
    if (status != STATUS_OK) return err_prefix(r->err, status, "%s", r->name);
    if (n - r->end != out->bytes)
        return err_set(r->err, STATUS_FORMAT,
                       "%s: %zu bytes of data at byte %zu where the shape needs %" PRIu64, r->name,
                       n - r->end, r->end, out->bytes);
    out->data = r->bytes + r->end;
    return STATUS_OK;
}

static enum status check_finite(const struct reader *r, const struct import_npy *a) {
    const uint64_t size = dtype_bytes(a->shape.dtype, 1), n = a->bytes / size;
    float x[AT_ONCE];
    for (uint64_t at = 0; at < n; at += AT_ONCE) {
        size_t some = n - at < AT_ONCE ? (size_t)(n - at) : AT_ONCE;
        dtype_dequantise(a->shape.dtype, a->data + at * size, x, some);
        size_t bad = metrics_census(x, some).first_bad;
        if (bad != METRICS_NONE)
            return err_set(r->err, STATUS_INVALID,
                           "%s: element %" PRIu64 " is NaN or infinite (--keep-nan keeps it)", r->name,
                           at + bad);
    }
    return STATUS_OK;
}

enum status import_npy_parse(const void *bytes, size_t n, const char *name,
                             const struct import_npy_options *o, struct import_npy *out, struct err *err) {
    struct reader r;
    memset(&r, 0, sizeof r);
    memset(out, 0, sizeof *out);
    r.bytes = bytes;
    r.name = name;
    r.err = err;
    RETURN_IF_ERROR(read_frame(&r, n));
    RETURN_IF_ERROR(read_dictionary(&r));
    RETURN_IF_ERROR(fit(&r, n, o, out));
    return o->keep_nan ? STATUS_OK : check_finite(&r, out);
}

enum status import_npy(const char *path, const struct import_npy_options *o, const struct provenance *extra,
                       const char *out, struct err *err) {
    struct file_map file;
    struct import_npy a;
    struct provenance p;
    RETURN_IF_ERROR(file_map_open(path, path, &file, err));
    provenance_init(&p);
    enum status s = import_npy_parse(file.bytes, file.size, path, o, &a, err);
    if (s == STATUS_OK) s = import_add_provenance(&p, extra, err);
    if (s == STATUS_OK) s = provenance_set(&p, "import", "npy", err);
    if (s == STATUS_OK) s = tensor_dump_write(out, &a.shape, a.data, &p, err);
    provenance_free(&p);
    file_map_close(&file);
    return s;
}
