/* golden.c - see golden.h: describing, opening and comparing; the manifest itself is golden_manifest.c. */
#include "gates/golden.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gates/diff.h"
#include "gates/table.h"

#define HEAD_BYTES 40 /* of the text, before escaping */

/* ---- describing ---------------------------------------------------------------------------------------------- */
static enum status need(const dump *d, const char *key, char *out, size_t room, struct err *err) {
    const char *value = provenance_get(dump_provenance(d), key);
    if (value == NULL) return err_set(err, STATUS_USAGE, "%s: provenance has no %s", dump_name(d), key);
    if (strlen(value) >= room)
        return err_set(err, STATUS_USAGE, "%s: provenance %s is too long", dump_name(d), key);
    memcpy(out, value, strlen(value) + 1);
    return STATUS_OK;
}

static enum status need_hash(const dump *d, const char *key, struct hash128 *out, struct err *err) {
    char text[HASH_TEXT_BYTES];
    RETURN_IF_ERROR(need(d, key, text, sizeof text, err));
    if (!hash_parse(text, out))
        return err_set(err, STATUS_USAGE, "%s: provenance %s is no hash", dump_name(d), key);
    return STATUS_OK;
}

static enum status describe_sampler(const dump *d, struct golden_key *k, struct err *err) {
    char sampler[40], penalty[16];
    RETURN_IF_ERROR(need(d, "sampler", sampler, sizeof sampler, err));
    RETURN_IF_ERROR(need(d, "repeat_penalty", penalty, sizeof penalty, err));
    (void)snprintf(k->sampler, sizeof k->sampler, "%s%s%s", sampler,
                   strcmp(penalty, "1") == 0 ? "" : " penalty=", strcmp(penalty, "1") == 0 ? "" : penalty);
    return STATUS_OK;
}

static enum status describe_key(const dump *d, struct golden_key *k, struct err *err) {
    char geometry[96];
    struct geometry g = geometry_default(ARCH_SM90);
    memset(k, 0, sizeof *k);
    RETURN_IF_ERROR(need_hash(d, "model.xxh3", &k->model, err));
    RETURN_IF_ERROR(need_hash(d, "prompt.xxh3", &k->prompt, err));
    RETURN_IF_ERROR(need(d, "route", k->route, sizeof k->route, err));
    RETURN_IF_ERROR(need(d, "arch", k->arch, sizeof k->arch, err));
    RETURN_IF_ERROR(need(d, "kv", k->kv, sizeof k->kv, err));
    RETURN_IF_ERROR(need(d, "logits", k->logits, sizeof k->logits, err));
    RETURN_IF_ERROR(need(d, "geometry", geometry, sizeof geometry, err));
    RETURN_IF_ERROR(geometry_parse(geometry, &g, err));
    k->fa_tkv = g.fa_tkv;
    k->fa_chunk = g.fa_chunk;
    return describe_sampler(d, k, err);
}

/* Records must carry ids and row hashes; the smallest gap and the head of the text come from them. */
static enum status describe_records(const dump *d, struct golden_entry *e, struct err *err) {
    uint8_t head[HEAD_BYTES];
    size_t n_head = 0;
    e->smallest_gap = (double)INFINITY;
    for (uint64_t i = 0; i < e->count; i++) {
        const struct dump_record *r = dump_record_at(d, i);
        uint32_t n = 0;
        const uint8_t *text = dump_text(d, i, &n);
        if (r->flags & (DUMP_NO_ID | DUMP_NO_HASH | DUMP_NO_TOP1))
            return err_set(err, STATUS_USAGE, "%s: record %llu lacks id, top-1 or row hash", dump_name(d),
                           (unsigned long long)i);
        double gap = (double)r->logit1 - (double)r->logit2;
        if (!(r->flags & DUMP_NO_TOP2) && gap < e->smallest_gap) e->smallest_gap = gap;
        for (uint32_t k = 0; k < n && n_head < HEAD_BYTES; k++) head[n_head++] = text[k];
    }
    if (isinf(e->smallest_gap)) e->smallest_gap = (double)NAN;
    (void)table_escape(head, n_head, 0, 1, e->text_head, sizeof e->text_head);
    return STATUS_OK;
}

void golden_stem(const char *prompt, char *out, size_t room) {
    (void)snprintf(out, room, "%s", prompt);
    char *dot = strrchr(out, '.');
    if (dot != NULL && dot != out) *dot = '\0';
}

enum status golden_name(const struct golden_key *key, const char *prompt, char out[GOLDEN_NAME],
                        struct err *err) {
    char stem[64], suffix[48] = "", tiles[48] = "";
    const struct geometry g = geometry_default(ARCH_SM90);
    golden_stem(prompt, stem, sizeof stem);
    if (strcmp(key->kv, "f16") != 0) (void)snprintf(suffix, sizeof suffix, "+kv=%.8s", key->kv);
    if (key->fa_tkv != g.fa_tkv || key->fa_chunk != g.fa_chunk)
        (void)snprintf(tiles, sizeof tiles, "+tkv=%d+chunk=%d", key->fa_tkv, key->fa_chunk);
    int n = snprintf(out, GOLDEN_NAME, "%s-%s/%s%s%s", key->arch, key->route, stem, suffix, tiles);
    if (strchr(stem, '/') == NULL && n < GOLDEN_NAME) return STATUS_OK;
    return err_set(err, STATUS_USAGE, "prompt name '%.100s' cannot name a golden", prompt);
}

static enum status describe_names(const dump *d, struct golden_entry *e, struct err *err) {
    char content[HASH_TEXT_BYTES];
    struct hash128 h = dump_content_hash(d);
    hash_format(&h, content);
    enum status s = golden_name(&e->key, e->prompt, e->name, err);
    if (s != STATUS_OK) return err_prefix(err, s, "%s", dump_name(d));
    int n = snprintf(e->file, sizeof e->file, "%s-%s/%s.fgd", e->key.arch, e->key.route, content);
    return n < (int)sizeof e->file ? STATUS_OK : err_set(err, STATUS_USAGE, "%s: no file", dump_name(d));
}

static enum status describe_provenance(const dump *d, struct golden_entry *e, struct err *err) {
    char requested[24], *text = NULL;
    size_t n = 0;
    RETURN_IF_ERROR(need(d, "model", e->model, sizeof e->model, err));
    RETURN_IF_ERROR(need(d, "prompt", e->prompt, sizeof e->prompt, err));
    RETURN_IF_ERROR(need(d, "stop", e->stop, sizeof e->stop, err));
    RETURN_IF_ERROR(need(d, "commit", e->commit, sizeof e->commit, err));
    const char *dirty = provenance_get(dump_provenance(d), "dirty");
    e->modified = dirty != NULL && strcmp(dirty, "0") != 0;
    RETURN_IF_ERROR(need(d, "n_requested", requested, sizeof requested, err));
    e->n_requested = strtoull(requested, NULL, 10);
    if (provenance_get(dump_provenance(d), "follow") != NULL)
        return err_set(err, STATUS_USAGE, "%s: a forced stream cannot be a golden", dump_name(d));
    RETURN_IF_ERROR(provenance_format(dump_provenance(d), &text, &n, err));
    struct hash128 id = hash_bytes(text, n);
    free(text);
    hash_format(&id, e->provenance);
    return STATUS_OK;
}

enum status golden_describe(const dump *d, struct golden_entry *out, struct err *err) {
    const char *why = NULL;
    memset(out, 0, sizeof *out);
    uint64_t bad = dump_first_invalid(d, &why);
    if (bad != UINT64_MAX)
        return err_set(err, STATUS_INVALID, "%s: INVALID from record %llu: %s", dump_name(d),
                       (unsigned long long)bad, why);
    out->count = dump_count(d);
    if (out->count == 0) return err_set(err, STATUS_USAGE, "%s: no record", dump_name(d));
    struct dump_results results = dump_results(d);
    out->stream_hash = results.stream;
    out->logits_hash = results.logits;
    RETURN_IF_ERROR(describe_key(d, &out->key, err));
    RETURN_IF_ERROR(describe_provenance(d, out, err));
    RETURN_IF_ERROR(describe_records(d, out, err));
    return describe_names(d, out, err);
}

void golden_commit_text(const struct golden_entry *e, char out[GOLDEN_COMMIT]) {
    (void)snprintf(out, GOLDEN_COMMIT, "%s%s", e->commit, e->modified ? "+" : "");
}

/* ---- keys ---------------------------------------------------------------------------------------------------- */
enum status golden_key_of(const struct engine_config *config, const struct hash128 *model, const void *prompt,
                          size_t prompt_bytes, struct golden_key *out) {
    memset(out, 0, sizeof *out);
    out->model = *model;
    out->prompt = hash_bytes(prompt, prompt_bytes);
    (void)snprintf(out->route, sizeof out->route, "%s", route_name(config->compute.route));
    (void)snprintf(out->arch, sizeof out->arch, "%s", arch_name(config->compute.arch));
    (void)snprintf(out->kv, sizeof out->kv, "%s", kv_dtype_name(config->kv));
    (void)snprintf(out->logits, sizeof out->logits, "f32");
    (void)snprintf(out->sampler, sizeof out->sampler, "greedy");
    out->fa_tkv = config->compute.geometry.fa_tkv;
    out->fa_chunk = config->compute.geometry.fa_chunk;
    return STATUS_OK;
}

int golden_key_equal(const struct golden_key *a, const struct golden_key *b) {
    return hash_equal(&a->model, &b->model) && hash_equal(&a->prompt, &b->prompt) &&
           strcmp(a->route, b->route) == 0 && strcmp(a->arch, b->arch) == 0 && strcmp(a->kv, b->kv) == 0 &&
           strcmp(a->logits, b->logits) == 0 && a->fa_tkv == b->fa_tkv && a->fa_chunk == b->fa_chunk &&
           strcmp(a->sampler, b->sampler) == 0;
}

const struct golden_entry *golden_find(const struct golden_set *s, const struct golden_key *key) {
    for (size_t i = 0; i < s->n; i++)
        if (golden_key_equal(&s->entries[i].key, key)) return &s->entries[i];
    return NULL;
}

const struct golden_entry *golden_by_name(const struct golden_set *s, const char *name) {
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->entries[i].name, name) == 0) return &s->entries[i];
    return NULL;
}

/* ---- opening ------------------------------------------------------------------------------------------------- */
static int same_number(double a, double b) {
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

/* The first manifest field that does not follow from the dump, or NULL. */
static const char *first_difference(const struct golden_entry *line, const struct golden_entry *real) {
    if (strcmp(line->file, real->file) != 0) return "file (the content hash)";
    if (!golden_key_equal(&line->key, &real->key)) return "a key field";
    if (strcmp(line->name, real->name) != 0) return "name";
    if (strcmp(line->model, real->model) != 0) return "model";
    if (strcmp(line->prompt, real->prompt) != 0) return "prompt";
    if (line->n_requested != real->n_requested) return "n_requested";
    if (line->count != real->count) return "count";
    if (strcmp(line->stop, real->stop) != 0) return "stop";
    if (!hash_equal(&line->stream_hash, &real->stream_hash)) return "stream";
    if (!hash_equal(&line->logits_hash, &real->logits_hash)) return "logits";
    if (!same_number(line->smallest_gap, real->smallest_gap)) return "smallest_gap";
    if (strcmp(line->text_head, real->text_head) != 0) return "text_head";
    if (strcmp(line->provenance, real->provenance) != 0) return "provenance";
    return strcmp(line->commit, real->commit) != 0 || line->modified != real->modified ? "commit" : NULL;
}

enum status golden_open(const struct golden_set *s, const struct golden_entry *e, dump **out,
                        struct err *err) {
    char path[2304];
    struct golden_entry real;
    *out = NULL;
    (void)snprintf(path, sizeof path, "%s/%s", s->dir, e->file);
    enum status status = dump_open(path, out, err);
    if (status == STATUS_OK) status = golden_describe(*out, &real, err);
    const char *field = status == STATUS_OK ? first_difference(e, &real) : NULL;
    if (field != NULL) status = err_set(err, STATUS_FORMAT, "manifest and dump disagree on %s", field);
    if (status == STATUS_OK) return status;
    dump_close(*out);
    *out = NULL;
    return err_prefix(err, status, "golden %s", e->name);
}

/* ---- comparing ----------------------------------------------------------------------------------------------- */
static void absorb(hash_stream *h, const dump *d, uint64_t i) {
    uint32_t n = 0;
    const struct dump_record *r = dump_record_at(d, i);
    const uint8_t *text = dump_text(d, i, &n);
    hash_update(h, &r->token, sizeof r->token);
    hash_update(h, &n, sizeof n);
    hash_update(h, text, n);
    hash_update(h, r->row.bytes, sizeof r->row.bytes);
}

static int tokens_equal(const dump *a, const dump *b, uint64_t i) {
    uint32_t na = 0, nb = 0;
    const uint8_t *ta = dump_text(a, i, &na), *tb = dump_text(b, i, &nb);
    return dump_record_at(a, i)->token == dump_record_at(b, i)->token && na == nb && memcmp(ta, tb, na) == 0;
}

static struct hash128 digest(const dump *d, uint64_t n) {
    struct hash128 out = {{0}};
    hash_stream *h = hash_open();
    if (h == NULL) return out;
    for (uint64_t i = 0; i < n && i < dump_count(d); i++) absorb(h, d, i);
    out = hash_peek(h);
    hash_close(h);
    return out;
}

struct golden_match golden_compare(const dump *golden, const dump *candidate, uint64_t n) {
    uint64_t a = dump_count(golden) < n ? dump_count(golden) : n;
    uint64_t b = dump_count(candidate) < n ? dump_count(candidate) : n;
    struct golden_match m = {a < b ? a : b, UINT64_MAX,        UINT64_MAX,          0,
                             a != b,        digest(golden, n), digest(candidate, n)};
    for (uint64_t i = 0; i < m.compared; i++) {
        const struct dump_record *x = dump_record_at(golden, i), *y = dump_record_at(candidate, i);
        if (m.first_token == UINT64_MAX && !tokens_equal(golden, candidate, i)) m.first_token = i;
        if (!((x->flags | y->flags) & DUMP_NO_HASH) && hash_equal(&x->row, &y->row)) continue;
        if (m.n_rows++ == 0) m.first_row = i;
    }
    return m;
}

int golden_matches(const struct golden_match *m) {
    return m->compared > 0 && m->first_token == UINT64_MAX && m->n_rows == 0 && !m->lengths_differ &&
           hash_equal(&m->want, &m->got);
}

void golden_explain(const dump *golden, const dump *candidate, const struct golden_match *m, char *out,
                    size_t room) {
    int used = 0;
    if (golden_matches(m)) {
        (void)snprintf(out, room, "%llu records equal", (unsigned long long)m->compared);
        return;
    }
    if (m->first_row != UINT64_MAX)
        used = snprintf(out, room, "logits differ from token %llu (%llu of %llu rows); ",
                        (unsigned long long)m->first_row, (unsigned long long)m->n_rows,
                        (unsigned long long)m->compared);
    if (used < 0 || (size_t)used >= room) return;
    struct diff_result r;
    struct err err;
    if (m->first_token != UINT64_MAX && diff_streams(golden, candidate, NULL, &r, &err) == STATUS_OK)
        (void)snprintf(out + used, room - (size_t)used, "fork at token %llu, gap %.3g / %.3g, drift %.3g: %s",
                       (unsigned long long)m->first_token, r.gap_a, r.gap_b, r.drift,
                       diff_verdict_name(r.verdict));
    else if (m->lengths_differ)
        (void)snprintf(out + used, room - (size_t)used, "one stream ends at %llu",
                       (unsigned long long)m->compared);
    else
        (void)snprintf(out + used, room - (size_t)used, "the %llu tokens are the same",
                       (unsigned long long)m->compared);
}
