/* forced.c - see forced.h. */
#include "gates/model/forced.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum status forced_open(engine *e, const struct stream_prompt *p, const dump *follow, struct forced *out,
                        struct err *err) {
    struct engine_info info;
    memset(out, 0, sizeof *out);
    engine_describe(e, &info);
    out->engine = e;
    out->prompt = p;
    out->follow = follow;
    out->n_vocab = info.n_vocab;
    RETURN_IF_ERROR(engine_encode(e, p->bytes, p->n, 1, &out->ids, &out->n_ids, err));
    enum status s = session_create(e, &out->session, err);
    if (s != STATUS_OK) forced_close(out);
    return s;
}

void forced_close(struct forced *f) {
    session_close(f->session);
    free(f->ids);
    f->session = NULL;
    f->ids = NULL;
}

void forced_check(struct forced *f, const char *how) {
    const float *logits = session_logits(f->session);
    struct hash128 got = {{0}};
    if (logits != NULL) got = hash_logits(logits, (size_t)f->n_vocab);
    f->rows++;
    if (logits != NULL && hash_equal(&got, &dump_record_at(f->follow, f->at)->row)) return;
    if (f->wrong++ == 0)
        (void)snprintf(f->first, sizeof f->first, "first wrong row: token %" PRIu64 ", %s", f->at, how);
}

enum status forced_prefill(struct forced *f, const char *how, struct err *err) {
    RETURN_IF_ERROR(session_prefill(f->session, f->ids, f->n_ids, err));
    f->at = 0;
    forced_check(f, how);
    return STATUS_OK;
}

int forced_more(const struct forced *f) {
    return f->at + 1 < dump_count(f->follow);
}

int32_t forced_token(const struct forced *f) {
    return dump_record_at(f->follow, f->at)->token;
}

void forced_fed(struct forced *f, const char *how) {
    f->at++;
    forced_check(f, how);
}

enum status forced_step(struct forced *f, const char *how, struct err *err) {
    RETURN_IF_ERROR(session_decode(f->session, forced_token(f), err));
    forced_fed(f, how);
    return STATUS_OK;
}

enum status forced_rewind(struct forced *f, uint64_t at, struct err *err) {
    f->at = at;
    return session_rewind(f->session, (int)(f->n_ids + at), err);
}

void forced_row(const struct stream_arm *a, const char *arm, const struct forced *f) {
    char note[320];
    uint64_t wrong = f->rows == 0 ? 1 : f->wrong;
    if (f->rows == 0)
        (void)snprintf(note, sizeof note, "no row was checked");
    else if (wrong == 0)
        (void)snprintf(note, sizeof note, "%" PRIu64 " rows equal", f->rows);
    else
        (void)snprintf(note, sizeof note, "%" PRIu64 " of %" PRIu64 " rows differ; %s", wrong, f->rows,
                       f->first);
    streams_count_row(a, arm, f->prompt->name, wrong, note);
}
