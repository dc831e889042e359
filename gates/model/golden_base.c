/* golden_base.c - see golden_base.h. */
#include "gates/model/golden_base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum status name_prompts(const struct streams *s, struct battery *b, struct err *err) {
    b->prompts = calloc((size_t)s->n + 1, sizeof *b->prompts);
    if (b->prompts == NULL) return err_set(err, STATUS_NOMEM, "base: %d prompts", s->n);
    for (b->n = 0; b->n < s->n; b->n++) {
        struct battery_prompt *p = &b->prompts[b->n];
        golden_stem(s->prompts[b->n].name, p->name, sizeof p->name);
        p->bytes = s->prompts[b->n].bytes;
        p->n = s->prompts[b->n].n;
    }
    return STATUS_OK;
}

static enum status refuse_itself(const struct gate_context *ctx, const struct engine_config *candidate,
                                 const struct side *base, struct err *err) {
    struct side self;
    int same = 0;
    RETURN_IF_ERROR(side_open(NULL, ctx->model_path, candidate, &self, err));
    RETURN_IF_ERROR(side_same(base, &self, ctx->self, &same, err));
    if (!same) return STATUS_OK;
    return err_set(
        err, STATUS_USAGE,
        "base and candidate are one program with one set of options: self-comparison proves nothing");
}

static enum status run_base(const struct streams *s, struct golden_base *b, struct err *err) {
    const struct sampler_config greedy = sampler_greedy();
    const struct side_work work = {&b->folder, &b->battery, NULL, NULL};
    int most = 0;
    for (int i = 0; i < s->n; i++) most = s->prompts[i].tokens > most ? s->prompts[i].tokens : most;
    if (b->side.kind != SIDE_DUMPS) return side_generate(&b->side, &work, &greedy, most, "base", b->dir, err);
    (void)snprintf(b->dir, sizeof b->dir, "%.*s", WORK_PATH - 1, b->side.spec);
    return STATUS_OK; /* a dump that is missing is said where it is looked for */
}

enum status golden_base_open(const struct gate_context *ctx, const struct engine_config *candidate,
                             const struct streams *s, struct golden_base *out, struct err *err) {
    struct engine_config config = *candidate;
    memset(out, 0, sizeof *out);
    config.compute.geometry = geometry_default(config.compute.arch);
    RETURN_IF_ERROR(side_open(ctx->base, ctx->model_path, &config, &out->side, err));
    side_describe(&out->side, out->what, sizeof out->what);
    RETURN_IF_ERROR(refuse_itself(ctx, candidate, &out->side, err));
    RETURN_IF_ERROR(work_folder_make("forkgate-base", &out->folder, err));
    enum status status = name_prompts(s, &out->battery, err);
    if (status == STATUS_OK) status = run_base(s, out, err);
    if (status != STATUS_OK) golden_base_close(out);
    return status;
}

enum status golden_base_stream(const struct golden_base *b, int i, dump **out, struct err *err) {
    return side_open_dump(&b->side, b->dir, &b->battery.prompts[i], out, err);
}

void golden_base_close(struct golden_base *b) {
    side_close(&b->side);
    free(b->battery.prompts);
    if (b->folder.root[0] != '\0') work_folder_remove(&b->folder);
    memset(b, 0, sizeof *b);
}
