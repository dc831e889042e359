/* inspect.c - see inspect.h. */
#include "gates/inspect.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/gguf.h"
#include "gates/dump.h"
#include "gates/file_map.h"
#include "gates/tensor_dump.h"

#define VALUES_AT_ONCE 8192 /* a multiple of every dtype's block */

static enum status write_notes(const struct provenance *p, enum table_eol eol, FILE *out, struct err *err) {
    for (int i = 0; i < p->n; i++) {
        const char *value = p->items[i].value;
        size_t room = 4 * strlen(value) + 1; /* \xNN for every byte */
        char *text = malloc(room);
        if (text == NULL) return err_set(err, STATUS_NOMEM, "inspect: out of memory");
        (void)table_escape(value, strlen(value), 1, 0, text, room);
        fprintf(out, "# %s=%s%s", p->items[i].key, text, eol == TABLE_CRLF ? "\r\n" : "\n");
        free(text);
    }
    return STATUS_OK;
}

/* ---- .fgd ------------------------------------------------------------------------------------------------------- */

static void put_id(table_writer *w, int32_t id, int absent) {
    if (absent)
        table_put_empty(w);
    else
        table_put_i64(w, id);
}

static void put_logit(table_writer *w, float logit, int absent) {
    if (absent)
        table_put_empty(w);
    else
        table_put_f32(w, logit);
}

/* "%.9g" with one spelling of NaN, as table_put_f32. */
static void append_float(FILE *f, float x) {
    if (isnan(x))
        (void)fputs("nan", f);
    else
        fprintf(f, "%.9g", (double)x);
}

static enum status put_lists(table_writer *w, const dump *d, uint64_t i, struct err *err) {
    int k = 0, n = 0;
    const struct dump_top *top = dump_top_k(d, i, &k);
    const float *row = dump_logits(d, i, &n);
    for (int which = 0; which < 2; which++) {
        if (which == 0 ? k == 0 : n == 0) continue;
        char *text = NULL;
        size_t length = 0;
        FILE *f = open_memstream(&text, &length);
        if (f == NULL) return err_set(err, STATUS_NOMEM, "inspect: out of memory");
        for (int v = 0; v < (which == 0 ? k : n); v++) {
            if (v > 0) (void)fputc(' ', f);
            if (which == 0) fprintf(f, "%" PRId32 ":", top[v].id);
            append_float(f, which == 0 ? top[v].logit : row[v]);
        }
        int failed = fclose(f);
        if (failed == 0) table_put_bytes(w, text, length);
        free(text);
        if (failed != 0) return err_set(err, STATUS_NOMEM, "inspect: out of memory");
    }
    return STATUS_OK;
}

static enum status put_record(table_writer *w, const dump *d, uint64_t i, struct err *err) {
    const struct dump_record *r = dump_record_at(d, i);
    uint32_t n = 0;
    const uint8_t *text = dump_text(d, i, &n);
    table_put_u64(w, r->step);
    put_id(w, r->token, (r->flags & DUMP_NO_ID) != 0);
    table_put_hex(w, text, n);
    table_put_escaped(w, text, n);
    put_id(w, r->id1, r->id1 == -1);
    put_logit(w, r->logit1, (r->flags & DUMP_NO_TOP1) != 0);
    put_id(w, r->id2, r->id2 == -1);
    put_logit(w, r->logit2, (r->flags & DUMP_NO_TOP2) != 0);
    table_put_text(w, r->flags & DUMP_LOGPROBS ? "logprob" : "logit");
    if (r->flags & DUMP_NO_LSE)
        table_put_empty(w);
    else
        table_put_f64(w, r->logsumexp);
    table_put_u64(w, r->flags & DUMP_END ? 1 : 0);
    char hash[HASH_TEXT_BYTES];
    hash_format(&r->row, hash);
    if (r->flags & DUMP_NO_HASH)
        table_put_empty(w);
    else
        table_put_text(w, hash);
    RETURN_IF_ERROR(put_lists(w, d, i, err));
    table_end_row(w);
    return STATUS_OK;
}

static enum status inspect_dump(const char *path, int provenance, enum table_eol eol, FILE *out,
                                struct err *err) {
    const char *columns[14] = {"step",
                               "token_id",
                               "token_bytes_hex",
                               "token_text_escaped",
                               "id1",
                               "logit1",
                               "id2",
                               "logit2",
                               "unit",
                               "logsumexp",
                               "end",
                               "row_hash"};
    int n = 12, k = 0;
    dump *d = NULL;
    table_writer *w = NULL;
    RETURN_IF_ERROR(dump_open(path, &d, err));
    if (dump_top_k(d, 0, &k) != NULL) columns[n++] = "top_k";
    if (dump_logits(d, 0, &k) != NULL) columns[n++] = "logits";
    enum status s = provenance ? write_notes(dump_provenance(d), eol, out, err) : STATUS_OK;
    if (s == STATUS_OK) s = table_writer_open(NULL, out, eol, columns, n, &w, err);
    for (uint64_t i = 0; s == STATUS_OK && i < dump_count(d); i++) s = put_record(w, d, i, err);
    dump_close(d);
    if (s == STATUS_OK) return table_writer_finish(w, err);
    table_writer_abandon(w);
    return s;
}

/* ---- .fgt ------------------------------------------------------------------------------------------------------- */

static void put_values(table_writer *w, const tensor_dump *t, uint64_t first, uint64_t n, float *values) {
    struct tensor_shape s = tensor_dump_shape(t);
    tensor_dump_values(t, first, n, values);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t at = first + i;
        for (int d = 0; d < 4; d++) {
            table_put_u64(w, at % s.ne[d]);
            at /= s.ne[d];
        }
        table_put_f32(w, values[i]);
        table_end_row(w);
    }
}

static enum status inspect_tensor(const char *path, int provenance, enum table_eol eol, FILE *out,
                                  struct err *err) {
    static const char *const columns[] = {"i0", "i1", "i2", "i3", "value"};
    tensor_dump *t = NULL;
    table_writer *w = NULL;
    RETURN_IF_ERROR(tensor_dump_open(path, &t, err));
    float *values = malloc(VALUES_AT_ONCE * sizeof *values);
    enum status s = values == NULL ? err_set(err, STATUS_NOMEM, "%s: out of memory", path) : STATUS_OK;
    if (s == STATUS_OK && provenance) s = write_notes(tensor_dump_provenance(t), eol, out, err);
    if (s == STATUS_OK) s = table_writer_open(NULL, out, eol, columns, 5, &w, err);
    uint64_t total = tensor_dump_elements(t);
    for (uint64_t at = 0; s == STATUS_OK && at < total; at += VALUES_AT_ONCE)
        put_values(w, t, at, total - at < VALUES_AT_ONCE ? total - at : VALUES_AT_ONCE, values);
    free(values);
    tensor_dump_close(t);
    return s == STATUS_OK ? table_writer_finish(w, err) : s;
}

/* ---- .gguf ------------------------------------------------------------------------------------------------------ */

static void put_key(table_writer *w, const gguf *g, uint64_t i) {
    char value[512];
    struct gguf_string name = gguf_key_name(g, i);
    (void)gguf_value_text(g, i, value, sizeof value);
    table_put_text(w, "key");
    table_put_escaped(w, name.data, (size_t)name.length);
    table_put_empty(w);
    table_put_empty(w);
    table_put_empty(w);
    table_put_escaped(w, value, strlen(value));
    table_put_empty(w);
    table_end_row(w);
}

static void put_tensor(table_writer *w, const struct gguf_tensor *t) {
    char dims[96], hash[HASH_TEXT_BYTES];
    size_t used = 0;
    for (int i = 0; i < t->n_dims; i++)
        used += (size_t)snprintf(dims + used, sizeof dims - used, "%s%" PRIu64, i > 0 ? "x" : "", t->dims[i]);
    struct hash128 h = hash_bytes(t->data, (size_t)t->bytes);
    hash_format(&h, hash);
    table_put_text(w, "tensor");
    table_put_escaped(w, t->name.data, (size_t)t->name.length);
    table_put_text(w, dtype_info((int)t->dtype)->name);
    table_put_text(w, dims);
    table_put_u64(w, t->bytes);
    table_put_empty(w);
    table_put_text(w, hash);
    table_end_row(w);
}

static enum status inspect_gguf(const char *path, enum table_eol eol, FILE *out, struct err *err) {
    static const char *const columns[] = {"kind", "name", "dtype", "dims", "bytes", "value", "xxh3"};
    gguf *g = NULL;
    table_writer *w = NULL;
    RETURN_IF_ERROR(gguf_open(path, &g, err));
    enum status s = table_writer_open(NULL, out, eol, columns, 7, &w, err);
    for (uint64_t i = 0; s == STATUS_OK && i < gguf_key_count(g); i++) put_key(w, g, i);
    for (uint64_t i = 0; s == STATUS_OK && i < gguf_tensor_count(g); i++) put_tensor(w, gguf_tensor_at(g, i));
    gguf_close(g);
    return s == STATUS_OK ? table_writer_finish(w, err) : s;
}

enum status inspect_file(const char *path, int provenance, enum table_eol eol, FILE *out, struct err *err) {
    char magic[8] = "";
    struct file_map file;
    RETURN_IF_ERROR(file_map_open(path, path, &file, err));
    size_t n = file.size < sizeof magic ? file.size : sizeof magic;
    if (n > 0) memcpy(magic, file.bytes, n);
    file_map_close(&file);
    if (n >= 4 && memcmp(magic, "GGUF", 4) == 0) return inspect_gguf(path, eol, out, err);
    if (n >= 6 && memcmp(magic, "FGTENS", 6) == 0) return inspect_tensor(path, provenance, eol, out, err);
    if (n >= 6 && memcmp(magic, "FGDUMP", 6) == 0) return inspect_dump(path, provenance, eol, out, err);
    return err_set(err, n == 0 ? STATUS_FORMAT : STATUS_UNSUPPORTED,
                   n == 0 ? "%s: 0 bytes: empty file"
                          : "%s: neither a dump (.fgd), a tensor (.fgt) nor a GGUF file",
                   path);
}
