/* fresh.c - see fresh.h. */
#include "gates/model/fresh.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define ARGS 32

struct command_line {
    char text[ARGS][512];
    char *argv[ARGS + 1];
    int n;
};

static void add(struct command_line *c, const char *text) {
    if (c->n == ARGS) return;
    (void)snprintf(c->text[c->n], sizeof c->text[0], "%s", text);
    c->argv[c->n] = c->text[c->n];
    c->argv[++c->n] = NULL;
}

static void add_pair(struct command_line *c, const char *option, const char *value) {
    add(c, option);
    add(c, value);
}

static void add_number(struct command_line *c, const char *option, int value) {
    char text[16];
    (void)snprintf(text, sizeof text, "%d", value);
    add_pair(c, option, text);
}

static void add_config(struct command_line *c, const struct engine_config *config) {
    char geometry[96];
    geometry_format(&config->compute.geometry, geometry, sizeof geometry);
    add_pair(c, "--backend", config->backend == BACKEND_CUDA ? "cuda" : "cpu");
    add_pair(c, "--route", route_name(config->compute.route));
    add_pair(c, "--arch", arch_name(config->compute.arch));
    add_pair(c, "--geometry", geometry);
    add_pair(c, "--kv", kv_dtype_name(config->kv));
    add_number(c, "--chunk", config->chunk);
    add_number(c, "--threads", config->compute.n_threads);
    if (!config->compute.graphs) add(c, "--no-graph");
}

static enum status spawn_and_wait(struct command_line *c, struct err *err) {
    pid_t pid;
    int status = 0;
    posix_spawn_file_actions_t actions;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return err_set(err, STATUS_NOMEM, "fresh process: out of memory");
    (void)posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    (void)posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    int failed = posix_spawn(&pid, c->argv[0], &actions, NULL, c->argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    if (failed != 0) return err_set(err, STATUS_IO, "fresh process: %s: %s", c->argv[0], strerror(failed));
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return STATUS_OK;
    return err_set(err, STATUS_DEVICE, "fresh process: %s generate ended with status 0x%x", c->argv[0],
                   (unsigned)status);
}

enum status fresh_stream(const struct gate_context *ctx, const struct engine_config *config,
                         const struct stream_prompt *p, dump **out, struct err *err) {
    const char *tmp = getenv("TMPDIR");
    char folder[200], file[256], prompt[512];
    *out = NULL;
    (void)snprintf(folder, sizeof folder, "%.150s/forkgate-fresh-XXXXXX",
                   tmp != NULL && tmp[0] != '\0' ? tmp : "/tmp");
    if (mkdtemp(folder) == NULL) return err_set(err, STATUS_IO, "%s: %s", folder, strerror(errno));
    struct command_line *c = calloc(1, sizeof *c);
    if (c == NULL) return err_set(err, STATUS_NOMEM, "fresh process: out of memory");
    (void)snprintf(file, sizeof file, "%s/stream.fgd", folder);
    (void)snprintf(prompt, sizeof prompt, "%.400s/fixtures/prompts/%s", ctx->source_dir, p->name);
    add(c, ctx->self);
    add(c, "generate");
    add_pair(c, "-m", ctx->model_path);
    add_pair(c, "-f", prompt);
    add_number(c, "-n", p->tokens);
    add_pair(c, "-o", file);
    add_config(c, config);
    enum status s = spawn_and_wait(c, err);
    if (s == STATUS_OK) s = dump_open(file, out, err);
    free(c);
    (void)unlink(file);
    (void)rmdir(folder);
    return s;
}
