/* fresh.c - see fresh.h. */
#include "gates/model/fresh.h"

#include <stdio.h>

#include "gates/child_engine.h"

static enum status generate(const struct gate_context *ctx, const struct engine_config *config,
                            const struct stream_prompt *p, const char *folder, const char *file,
                            struct err *err) {
    struct child_args args = {{NULL}, 0, 0};
    struct child_end end;
    char prompt[512], errors[300], how[320];
    (void)snprintf(prompt, sizeof prompt, "%.400s/fixtures/prompts/%s", ctx->source_dir, p->name);
    (void)snprintf(errors, sizeof errors, "%s/errors.txt", folder);
    child_add(&args, ctx->self);
    child_add_pair(&args, "generate", "-m");
    child_add(&args, ctx->model_path);
    child_add_pair(&args, "-f", prompt);
    child_add_number(&args, "-n", p->tokens);
    child_add_pair(&args, "-o", file);
    child_add_engine(&args, config);
    struct child_request r = {&args, NULL, NULL, errors, 0};
    enum status s = child_run(&r, &end, err);
    child_args_free(&args);
    RETURN_IF_ERROR(s);
    child_end_text(&end, how);
    return end.exit_code == 0 ? STATUS_OK
                              : err_set(err, STATUS_DEVICE, "fresh process: %s generate: %s", ctx->self, how);
}

enum status fresh_stream(const struct gate_context *ctx, const struct engine_config *config,
                         const struct stream_prompt *p, dump **out, struct err *err) {
    char folder[256], file[300];
    *out = NULL;
    RETURN_IF_ERROR(child_folder_make("forkgate-fresh", folder, err));
    (void)snprintf(file, sizeof file, "%s/stream.fgd", folder);
    enum status s = generate(ctx, config, p, folder, file, err);
    if (s == STATUS_OK) s = dump_open(file, out, err);
    child_folder_remove(folder);
    return s;
}
