/* reference.c - see reference.h. */
#include "gates/model/reference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODEL_FILE "fixtures/models/seedling-q8_0.gguf"

static enum status parse_ids(const table *t, size_t row, int column, struct reference_prompt *p,
                             struct err *err) {
    const char *at = table_cell(t, row, column, NULL);
    p->ids = calloc(p->n_ids + 1, sizeof *p->ids);
    if (p->ids == NULL) return err_set(err, STATUS_NOMEM, "%s: out of memory", table_name(t));
    for (size_t i = 0; i < p->n_ids; i++) {
        char *end = NULL;
        p->ids[i] = (int32_t)strtol(at, &end, 10);
        if (end == at) return table_refuse(t, row, err, "ids: %zu of %zu", i, p->n_ids);
        at = end;
    }
    return *at == '\0' ? STATUS_OK : table_refuse(t, row, err, "ids: more than %zu", p->n_ids);
}

static enum status load_prompts(const table *t, struct reference *r, struct err *err) {
    int name, n_prompt, n_steps, ids;
    RETURN_IF_ERROR(table_need(t, "prompt", &name, err));
    RETURN_IF_ERROR(table_need(t, "n_prompt", &n_prompt, err));
    RETURN_IF_ERROR(table_need(t, "n_steps", &n_steps, err));
    RETURN_IF_ERROR(table_need(t, "ids", &ids, err));
    r->prompts = calloc(table_rows(t) + 1, sizeof *r->prompts);
    if (r->prompts == NULL) return err_set(err, STATUS_NOMEM, "%s: out of memory", table_name(t));
    for (size_t i = 0; i < table_rows(t); i++) {
        struct reference_prompt *p = &r->prompts[i];
        int64_t tokens, steps;
        r->n = i + 1;
        RETURN_IF_ERROR(table_integer(t, i, n_prompt, 1, 1 << 20, &tokens, err));
        RETURN_IF_ERROR(table_integer(t, i, n_steps, 1, 1 << 20, &steps, err));
        (void)snprintf(p->name, sizeof p->name, "%s", table_cell(t, i, name, NULL));
        p->n_ids = (size_t)tokens;
        p->n_steps = (size_t)steps;
        RETURN_IF_ERROR(parse_ids(t, i, ids, p, err));
        p->steps = calloc(p->n_steps, sizeof *p->steps);
        if (p->steps == NULL) return err_set(err, STATUS_NOMEM, "%s: out of memory", table_name(t));
    }
    return STATUS_OK;
}

static struct reference_prompt *prompt_named(struct reference *r, const char *name) {
    for (size_t i = 0; i < r->n; i++)
        if (strcmp(r->prompts[i].name, name) == 0) return &r->prompts[i];
    return NULL;
}

static enum status load_step(const table *t, size_t row, const int at[6], struct reference *r, size_t *seen,
                             struct err *err) {
    int64_t step, top1, top2;
    struct reference_prompt *p = prompt_named(r, table_cell(t, row, at[0], NULL));
    if (p == NULL) return table_refuse(t, row, err, "prompt: unknown");
    size_t *next = &seen[p - r->prompts];
    RETURN_IF_ERROR(table_integer(t, row, at[1], 0, (int64_t)p->n_steps - 1, &step, err));
    if ((size_t)step != *next) return table_refuse(t, row, err, "step: %lld out of order", (long long)step);
    (*next)++;
    struct reference_step *s = &p->steps[step];
    RETURN_IF_ERROR(table_integer(t, row, at[2], 0, INT32_MAX, &top1, err));
    RETURN_IF_ERROR(table_integer(t, row, at[3], 0, INT32_MAX, &top2, err));
    s->top1 = (int32_t)top1;
    s->top2 = (int32_t)top2;
    RETURN_IF_ERROR(table_real(t, row, at[4], &s->logit1, err));
    return table_real(t, row, at[5], &s->logit2, err);
}

static enum status load_steps(const table *t, struct reference *r, struct err *err) {
    static const char *const names[6] = {"prompt", "step", "top1", "top2", "logit1", "logit2"};
    int at[6];
    for (int i = 0; i < 6; i++) RETURN_IF_ERROR(table_need(t, names[i], &at[i], err));
    size_t *seen = calloc(r->n + 1, sizeof *seen);
    if (seen == NULL) return err_set(err, STATUS_NOMEM, "%s: out of memory", table_name(t));
    enum status s = STATUS_OK;
    for (size_t row = 0; row < table_rows(t) && s == STATUS_OK; row++)
        s = load_step(t, row, at, r, seen, err);
    for (size_t i = 0; i < r->n && s == STATUS_OK; i++)
        if (seen[i] != r->prompts[i].n_steps)
            s = err_set(err, STATUS_FORMAT, "%s: %s has %zu of %zu steps", table_name(t), r->prompts[i].name,
                        seen[i], r->prompts[i].n_steps);
    free(seen);
    return s;
}

static enum status load_first(const table *t, struct reference *r, struct err *err) {
    int name, id, logit;
    RETURN_IF_ERROR(table_need(t, "prompt", &name, err));
    RETURN_IF_ERROR(table_need(t, "id", &id, err));
    RETURN_IF_ERROR(table_need(t, "logit", &logit, err));
    for (size_t row = 0; row < table_rows(t); row++) {
        int64_t token;
        struct reference_prompt *p = prompt_named(r, table_cell(t, row, name, NULL));
        if (p == NULL || p->n_first == REFERENCE_TOP)
            return table_refuse(t, row, err, "prompt: unknown or too many");
        RETURN_IF_ERROR(table_integer(t, row, id, 0, INT32_MAX, &token, err));
        RETURN_IF_ERROR(table_real(t, row, logit, &p->first_logit[p->n_first], err));
        p->first_id[p->n_first++] = (int32_t)token;
    }
    return STATUS_OK;
}

static enum status load_model_hash(const table *t, struct reference *r, struct err *err) {
    int file, hash;
    RETURN_IF_ERROR(table_need(t, "file", &file, err));
    RETURN_IF_ERROR(table_need(t, "xxh3", &hash, err));
    for (size_t row = 0; row < table_rows(t); row++)
        if (strcmp(table_cell(t, row, file, NULL), MODEL_FILE) == 0 &&
            hash_parse(table_cell(t, row, hash, NULL), &r->model))
            return STATUS_OK;
    return err_set(err, STATUS_FORMAT, "%s: no hash of %s", table_name(t), MODEL_FILE);
}

static enum status load_part(const char *dir, const char *file,
                             enum status (*load)(const table *, struct reference *, struct err *),
                             struct reference *r, struct err *err) {
    char path[4096];
    table *t = NULL;
    (void)snprintf(path, sizeof path, "%s/fixtures/%s", dir, file);
    RETURN_IF_ERROR(table_read(path, &t, err));
    enum status s = load(t, r, err);
    table_close(t);
    return s;
}

enum status reference_load(const char *source_dir, struct reference *out, struct err *err) {
    memset(out, 0, sizeof *out);
    enum status s = load_part(source_dir, "reference/seedling_q8_0_prompts.csv", load_prompts, out, err);
    if (s == STATUS_OK) s = load_part(source_dir, "reference/seedling_q8_0_steps.csv", load_steps, out, err);
    if (s == STATUS_OK)
        s = load_part(source_dir, "reference/seedling_q8_0_first20.csv", load_first, out, err);
    if (s == STATUS_OK) s = load_part(source_dir, "MANIFEST.csv", load_model_hash, out, err);
    if (s != STATUS_OK) reference_free(out);
    return s;
}

void reference_free(struct reference *r) {
    for (size_t i = 0; i < r->n; i++) {
        free(r->prompts[i].ids);
        free(r->prompts[i].steps);
    }
    free(r->prompts);
    r->prompts = NULL;
    r->n = 0;
}
