/* import.c - see import.h. */
#include "gates/import.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum column {
    STEP,
    TOKEN_ID,
    BYTES_HEX,
    TEXT_ESCAPED,
    TEXT,
    ID1,
    LOGIT1,
    ID2,
    LOGIT2,
    UNIT,
    LOGSUMEXP,
    END,
    ROW_HASH,
    TOP_K,
    LOGITS,
    N_COLUMNS
};

static const char *const names[N_COLUMNS] = {
    "step",       "token_id", "token_bytes_hex", "token_text_escaped",
    "token_text", "id1",      "logit1",          "id2",
    "logit2",     "unit",     "logsumexp",       "end",
    "row_hash",   "top_k",    "logits"};

struct import {
    const table *t;
    int at[N_COLUMNS];
    dump_writer *w;
    uint8_t *text, *other; /* room for the longest cell */
    int n_top_k, n_logits, keep_nan;
    struct dump_top *top;
    float *logits;
};

static enum status find_columns(struct import *m, struct err *err) {
    for (int c = 0; c < table_columns(m->t); c++) {
        int known = 0;
        for (int k = 0; k < N_COLUMNS; k++) known |= strcmp(names[k], table_column_name(m->t, c)) == 0;
        char shown[64];
        const char *name = table_column_name(m->t, c);
        (void)table_escape(name, strlen(name), 0, 0, shown, sizeof shown);
        if (!known) return err_set(err, STATUS_FORMAT, "%s: unknown column '%s'", table_name(m->t), shown);
    }
    for (int k = 0; k < N_COLUMNS; k++) m->at[k] = table_find(m->t, names[k]);
    if (m->at[STEP] < 0) return table_need(m->t, "step", &m->at[STEP], err);
    if (m->at[TOKEN_ID] < 0 && m->at[BYTES_HEX] < 0 && m->at[TEXT_ESCAPED] < 0 && m->at[TEXT] < 0)
        return err_set(err, STATUS_FORMAT, "%s: neither token_id nor a column with the token's text",
                       table_name(m->t));
    return STATUS_OK;
}

static int is_empty(const struct import *m, size_t row, enum column c) {
    size_t n = 0;
    (void)table_cell(m->t, row, m->at[c], &n);
    return m->at[c] < 0 || n == 0;
}

/* ---- cells --------------------------------------------------------------------------------------------------- */

/* A negative id is kept: it makes the stream INVALID when it is judged, which is the truth about it. */
static enum status read_id(const struct import *m, size_t row, enum column c, int32_t *out, struct err *err) {
    int64_t v = -1;
    *out = -1;
    if (is_empty(m, row, c)) return STATUS_OK;
    RETURN_IF_ERROR(table_integer(m->t, row, m->at[c], INT32_MIN, INT32_MAX, &v, err));
    *out = (int32_t)v;
    return STATUS_OK;
}

static enum status refuse_nan(const struct import *m, size_t row, enum column c, struct err *err) {
    return table_refuse(m->t, row, err,
                        "%s: NaN or infinite: no logit that can be judged (--keep-nan keeps it)", names[c]);
}

/* Absent: the flag is set. A finite number that overflows f32 is refused; an infinity or NaN too, unless it is asked for. */
static enum status read_logit(const struct import *m, size_t row, enum column c, uint32_t flag,
                              struct dump_record *r, float *out, struct err *err) {
    double v = 0.0;
    *out = 0.0f;
    if (is_empty(m, row, c)) {
        r->flags |= flag;
        return STATUS_OK;
    }
    RETURN_IF_ERROR(table_real(m->t, row, m->at[c], &v, err));
    *out = (float)v;
    if (isfinite(v) && !isfinite(*out))
        return table_refuse(m->t, row, err, "%s: too large for f32", names[c]);
    if (!isfinite(v) && !m->keep_nan) return refuse_nan(m, row, c, err);
    return STATUS_OK;
}

static enum status read_word(const struct import *m, size_t row, enum column c, const char *off,
                             const char *on, uint32_t flag, struct dump_record *r, struct err *err) {
    const char *cell = table_cell(m->t, row, m->at[c], NULL);
    if (is_empty(m, row, c) || strcmp(cell, off) == 0) return STATUS_OK;
    if (strcmp(cell, on) != 0)
        return table_refuse(m->t, row, err, "%s: want %s, %s or nothing", names[c], off, on);
    r->flags |= flag;
    return STATUS_OK;
}

static enum status read_hash(const struct import *m, size_t row, struct dump_record *r, struct err *err) {
    size_t n = 0;
    const char *cell = table_cell(m->t, row, m->at[ROW_HASH], &n);
    if (is_empty(m, row, ROW_HASH)) {
        r->flags |= DUMP_NO_HASH;
        return STATUS_OK;
    }
    if (strlen(cell) == n && hash_parse(cell, &r->row)) return STATUS_OK;
    return table_refuse(m->t, row, err, "row_hash: want 32 lower-case hex digits");
}

/* Top-1 and top-2 are two tokens, in this order. */
static enum status check_top2(const struct import *m, size_t row, const struct dump_record *r,
                              struct err *err) {
    if (r->id1 >= 0 && r->id1 == r->id2)
        return table_refuse(m->t, row, err, "id1 and id2 are both %d", (int)r->id1);
    if ((r->flags & (DUMP_NO_TOP1 | DUMP_NO_TOP2)) == 0 && r->logit2 > r->logit1)
        return table_refuse(m->t, row, err, "logit2 is larger than logit1");
    if ((r->flags & DUMP_NO_LSE) == 0 && !isfinite(r->logsumexp) && !m->keep_nan)
        return refuse_nan(m, row, LOGSUMEXP, err);
    return STATUS_OK;
}

static enum status read_record(const struct import *m, size_t row, struct dump_record *r, struct err *err) {
    int64_t step = 0;
    memset(r, 0, sizeof *r);
    RETURN_IF_ERROR(table_integer(m->t, row, m->at[STEP], 0, UINT32_MAX, &step, err));
    if ((uint64_t)step != row)
        return table_refuse(m->t, row, err, "step %lld where %zu is next", (long long)step, row);
    RETURN_IF_ERROR(read_id(m, row, TOKEN_ID, &r->token, err));
    if (is_empty(m, row, TOKEN_ID)) r->flags |= DUMP_NO_ID;
    RETURN_IF_ERROR(read_id(m, row, ID1, &r->id1, err));
    RETURN_IF_ERROR(read_id(m, row, ID2, &r->id2, err));
    RETURN_IF_ERROR(read_logit(m, row, LOGIT1, DUMP_NO_TOP1, r, &r->logit1, err));
    RETURN_IF_ERROR(read_logit(m, row, LOGIT2, DUMP_NO_TOP2, r, &r->logit2, err));
    RETURN_IF_ERROR(read_word(m, row, UNIT, "logit", "logprob", DUMP_LOGPROBS, r, err));
    RETURN_IF_ERROR(read_word(m, row, END, "0", "1", DUMP_END, r, err));
    if (is_empty(m, row, LOGSUMEXP))
        r->flags |= DUMP_NO_LSE;
    else
        RETURN_IF_ERROR(table_real(m->t, row, m->at[LOGSUMEXP], &r->logsumexp, err));
    RETURN_IF_ERROR(check_top2(m, row, r, err));
    return read_hash(m, row, r, err);
}

static int decode(const struct import *m, size_t row, enum column c, uint8_t *out, size_t *n) {
    size_t length = 0;
    const char *cell = table_cell(m->t, row, m->at[c], &length);
    *n = c == BYTES_HEX ? length / 2 : length;
    if (c == BYTES_HEX) return table_parse_hex(cell, length, out);
    if (c == TEXT_ESCAPED) return table_unescape(cell, length, out, n);
    memcpy(out, cell, length);
    return 1;
}

/* The token's bytes from whichever text columns there are; they must agree. */
static enum status read_text(const struct import *m, size_t row, size_t *n, struct err *err) {
    static const enum column forms[] = {BYTES_HEX, TEXT_ESCAPED, TEXT};
    int have = 0;
    *n = 0;
    for (size_t k = 0; k < sizeof forms / sizeof forms[0]; k++) {
        enum column c = forms[k];
        size_t length = 0;
        if (m->at[c] < 0) continue;
        if (!decode(m, row, c, have ? m->other : m->text, &length))
            return table_refuse(m->t, row, err, "%s: malformed %s", names[c],
                                c == BYTES_HEX ? "hex" : "escape");
        if (have && (length != *n || memcmp(m->text, m->other, length) != 0))
            return table_refuse(m->t, row, err, "%s disagrees with another text column", names[c]);
        *n = length;
        have = 1;
    }
    if (*n > UINT32_MAX) return table_refuse(m->t, row, err, "a token of more than 2^32 bytes");
    return STATUS_OK;
}

/* ---- lists: "id:logit id:logit" and "logit logit" ----------------------------------------------------------------- */

static int count_words(const char *cell) {
    int n = 0;
    for (const char *p = cell; *p != '\0'; p++) n += *p != ' ' && (p == cell || p[-1] == ' ');
    return n;
}

static const char *next_float(const char *p, float *out) {
    char *end = NULL;
    *out = strtof(p, &end);
    return end == p || !(*end == '\0' || *end == ' ') ? NULL : end + (*end == ' ');
}

/* No token twice, no NaN, and the first two are id1 and id2 where those are told. */
static enum status check_top_k(const struct import *m, size_t row, const struct dump_record *r,
                               struct err *err) {
    const int32_t told[2] = {r->id1, r->id2};
    for (int k = 0; k < m->n_top_k; k++) {
        const struct dump_top *x = &m->top[k];
        if (!isfinite(x->logit) && !m->keep_nan) return refuse_nan(m, row, TOP_K, err);
        for (int i = 0; i < k && x->id >= 0; i++)
            if (m->top[i].id == x->id) return table_refuse(m->t, row, err, "top_k: id %d twice", (int)x->id);
        if (k < 2 && told[k] >= 0 && x->id >= 0 && x->id != told[k] &&
            x->logit > m->top[m->n_top_k - 1].logit)
            return table_refuse(m->t, row, err, "top_k: id %d where %s is %d", (int)x->id,
                                names[k == 0 ? ID1 : ID2], (int)told[k]);
    }
    return STATUS_OK;
}

static enum status read_top(struct import *m, size_t row, const struct dump_record *r, struct err *err) {
    const char *p = table_cell(m->t, row, m->at[TOP_K], NULL);
    if (m->n_top_k == 0) return STATUS_OK;
    for (int k = 0; k < m->n_top_k && p != NULL; k++) {
        char *end = NULL;
        long id = strtol(p, &end, 10);
        if (end == p || *end != ':' || id < -1 || id > INT32_MAX)
            p = NULL;
        else
            p = next_float(end + 1, &m->top[k].logit);
        m->top[k].id = (int32_t)id;
    }
    if (p != NULL && *p == '\0') return check_top_k(m, row, r, err);
    return table_refuse(m->t, row, err, "top_k: want %d pairs id:logit", m->n_top_k);
}

static enum status read_logits(struct import *m, size_t row, struct err *err) {
    const char *p = table_cell(m->t, row, m->at[LOGITS], NULL);
    if (m->n_logits == 0) return STATUS_OK;
    for (int v = 0; v < m->n_logits && p != NULL; v++) {
        p = next_float(p, &m->logits[v]);
        /* -inf is a masked logit */
        if (p != NULL && !m->keep_nan &&
            (isnan(m->logits[v]) || (isinf(m->logits[v]) && m->logits[v] > 0.0f)))
            return refuse_nan(m, row, LOGITS, err);
    }
    if (p != NULL && *p == '\0') return STATUS_OK;
    return table_refuse(m->t, row, err, "logits: want %d numbers", m->n_logits);
}

static enum status prepare(struct import *m, struct err *err) {
    size_t longest = 0;
    for (size_t row = 0; row < table_rows(m->t); row++) {
        for (int k = BYTES_HEX; k <= TEXT; k++) {
            size_t n = 0;
            (void)table_cell(m->t, row, m->at[k], &n);
            if (n > longest) longest = n;
        }
    }
    if (table_rows(m->t) > 0) { /* the first row says how long every row's lists are */
        m->n_top_k = count_words(table_cell(m->t, 0, m->at[TOP_K], NULL));
        m->n_logits = count_words(table_cell(m->t, 0, m->at[LOGITS], NULL));
    }
    m->text = malloc(longest + 1);
    m->other = malloc(longest + 1);
    m->top = malloc(((size_t)m->n_top_k + 1) * sizeof *m->top);
    m->logits = malloc(((size_t)m->n_logits + 1) * sizeof *m->logits);
    if (m->text == NULL || m->other == NULL || m->top == NULL || m->logits == NULL)
        return err_set(err, STATUS_NOMEM, "%s: out of memory", table_name(m->t));
    return STATUS_OK;
}

/* ---- provenance and rows ------------------------------------------------------------------------------------------- */

static enum status read_note(const table *t, int i, struct provenance *p, struct err *err) {
    const char *note = table_note(t, i), *equals = strchr(note, '=');
    if (equals == NULL)
        return err_set(err, STATUS_FORMAT, "%s: line %d: want '# key=value'", table_name(t), i + 1);
    size_t n = strlen(equals + 1), used = 0;
    char *copy = malloc(strlen(note) + 1);
    if (copy == NULL) return err_set(err, STATUS_NOMEM, "%s: out of memory", table_name(t));
    memcpy(copy, note, strlen(note) + 1);
    copy[equals - note] = '\0';
    void *value = copy + (equals - note) + 1;
    enum status s = STATUS_OK;
    if (!table_unescape(equals + 1, n, value, &used) || memchr(value, '\0', used) != NULL)
        s = err_set(err, STATUS_FORMAT, "%s: line %d: malformed escape", table_name(t), i + 1);
    if (s == STATUS_OK) {
        copy[(size_t)(equals - note) + 1 + used] = '\0';
        s = provenance_get(p, copy) != NULL ? err_set(err, STATUS_FORMAT, "provenance: %s twice", copy)
                                            : provenance_set(p, copy, value, err);
        if (s != STATUS_OK) s = err_prefix(err, s, "%s: line %d", table_name(t), i + 1);
    }
    free(copy);
    return s;
}

enum status import_add_provenance(struct provenance *p, const struct provenance *extra, struct err *err) {
    for (int i = 0; extra != NULL && i < extra->n; i++) {
        const char *key = extra->items[i].key, *value = extra->items[i].value,
                   *known = provenance_get(p, key);
        if (known != NULL && strcmp(known, value) != 0)
            return err_set(err, STATUS_USAGE, "provenance: the file says %s=%s, and -P says %s", key, known,
                           value);
        RETURN_IF_ERROR(provenance_set(p, key, value, err));
    }
    return STATUS_OK;
}

static enum status collect(const table *t, const struct provenance *extra, struct provenance *p,
                           struct err *err) {
    provenance_init(p);
    enum status s = STATUS_OK;
    for (int i = 0; i < table_notes(t) && s == STATUS_OK; i++) s = read_note(t, i, p, err);
    if (s == STATUS_OK) s = import_add_provenance(p, extra, err);
    if (s == STATUS_OK) s = provenance_set(p, "import", "csv", err);
    if (s != STATUS_OK) provenance_free(p);
    return s;
}

static enum status add_rows(struct import *m, struct err *err) {
    for (size_t row = 0; row < table_rows(m->t); row++) {
        struct dump_record r;
        size_t n = 0;
        RETURN_IF_ERROR(read_record(m, row, &r, err));
        RETURN_IF_ERROR(read_text(m, row, &n, err));
        RETURN_IF_ERROR(read_top(m, row, &r, err));
        RETURN_IF_ERROR(read_logits(m, row, err));
        RETURN_IF_ERROR(dump_writer_add(m->w, &r, m->text, (uint32_t)n, m->top, m->logits, err));
    }
    return STATUS_OK;
}

static enum status write_dump(struct import *m, const struct provenance *p, const char *out, dump **d,
                              struct err *err) {
    RETURN_IF_ERROR(find_columns(m, err));
    RETURN_IF_ERROR(prepare(m, err));
    RETURN_IF_ERROR(dump_writer_open(out, p, m->n_top_k, m->n_logits, &m->w, err));
    enum status s = add_rows(m, err);
    if (s != STATUS_OK) {
        dump_writer_abandon(m->w);
        return s;
    }
    return dump_writer_finish(m->w, p, d, err);
}

enum status import_csv(const table *t, const struct provenance *extra, int keep_nan, const char *out,
                       dump **d, struct err *err) {
    struct import m;
    struct provenance p;
    memset(&m, 0, sizeof m);
    m.t = t;
    m.keep_nan = keep_nan;
    if (d != NULL) *d = NULL;
    RETURN_IF_ERROR(collect(t, extra, &p, err));
    enum status s = write_dump(&m, &p, out, d, err);
    free(m.text);
    free(m.other);
    free(m.top);
    free(m.logits);
    provenance_free(&p);
    return s;
}
