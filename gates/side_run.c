/* side_run.c - see side.h: a side runs a battery, in memory or as a child, and its dumps are verified.
 * Idea: a program that crashes, hangs, refuses or leaves no valid dump is an error with its own last line, never a stream.
 * Source: ours. Exercise: ctest -R unit.side */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gates/child_engine.h"
#include "gates/side.h"

#define COMMAND_BYTES 8192

/* What is asked of a side: `follow` is NULL when it chooses by itself; otherwise its length counts, not n. */
struct wish {
    const struct sampler_config *sampler;
    int n;
    const char *follow;
};

/* ---- children -------------------------------------------------------------------------------------------------- */
static enum status run_child(const struct side *s, const struct side_work *w, struct child_args *args,
                             const char *what, struct err *err) {
    char errors[WORK_PATH], root[WORK_PATH + 16], how[320];
    const char *env[3] = {root, s->fault, NULL};
    struct child_end end;
    (void)snprintf(errors, sizeof errors, "%.400s/errors.txt", w->folder->root);
    (void)snprintf(root, sizeof root, "FORKGATE_ROOT=%s", w->folder->root);
    struct child_request r = {args, env, NULL, errors, s->timeout_s};
    RETURN_IF_ERROR(child_run(&r, &end, err));
    if (end.exit_code == 0) return STATUS_OK;
    child_end_text(&end, how);
    return err_set(err, STATUS_INVALID, "%s: %s", what, how);
}

static void add_sampler(struct child_args *a, const struct sampler_config *c) {
    char text[32];
    if (c->temperature > 0.0f) {
        (void)snprintf(text, sizeof text, "%.9g", (double)c->temperature);
        child_add_pair(a, "--temp", text);
        (void)snprintf(text, sizeof text, "%llu", (unsigned long long)c->seed);
        child_add_pair(a, "--seed", text);
    }
}

static enum status run_binary(const struct side *s, const struct side_work *w, const struct wish *wish,
                              const char *dir, struct err *err) {
    struct child_args args = {{NULL}, 0, 0};
    char csv[WORK_PATH];
    RETURN_IF_ERROR(work_folder_battery(w->folder, w->battery, "battery", csv, err));
    child_add(&args, s->spec);
    child_add(&args, wish->follow != NULL ? "replay" : "generate");
    child_add_pair(&args, "--battery", csv);
    if (wish->follow != NULL)
        child_add_pair(&args, "--follow", wish->follow);
    else
        child_add_number(&args, "-n", wish->n);
    if (wish->follow == NULL) add_sampler(&args, wish->sampler);
    child_add_pair(&args, "-m", s->model);
    child_add_engine(&args, &s->config);
    child_add_pair(&args, "-o", dir);
    enum status status = run_child(s, w, &args, s->spec, err);
    child_args_free(&args);
    return status;
}

/* ---- commands -------------------------------------------------------------------------------------------------- */
struct slot {
    const char *name, *value;
};

/* Replaces every {name} that is known; any other brace stays as it is (shell and JSON use them). */
static enum status expand(const char *template, const struct slot *slots, char out[COMMAND_BYTES],
                          struct err *err) {
    size_t used = 0;
    for (const char *p = template; *p != '\0';) {
        const char *text = p;
        size_t n = 1, step = 1;
        for (const struct slot *k = slots; k->name != NULL; k++) {
            if (strncmp(p, k->name, strlen(k->name)) != 0) continue;
            text = k->value;
            n = strlen(k->value);
            step = strlen(k->name);
        }
        if (used + n >= COMMAND_BYTES)
            return err_set(err, STATUS_LIMIT, "a command of more than %d bytes", COMMAND_BYTES);
        memcpy(out + used, text, n);
        used += n;
        p += step;
    }
    out[used] = '\0';
    return STATUS_OK;
}

/* The paths go into a shell's words as they are. */
static enum status check_plain(const char *path, struct err *err) {
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._-";
    if (strspn(path, allowed) == strlen(path)) return STATUS_OK;
    return err_set(err, STATUS_USAGE, "%s: not a path that a command line can hold (set TMPDIR)", path);
}

/* {n}: the budget, or the length of the stream to follow. */
static enum status budget_of(const struct wish *wish, const char *follow, char out[16], struct err *err) {
    dump *d = NULL;
    unsigned n = (unsigned)wish->n;
    if (wish->follow != NULL) {
        RETURN_IF_ERROR(dump_open(follow, &d, err));
        n = (unsigned)dump_count(d);
        dump_close(d);
    }
    (void)snprintf(out, 16, "%u", n);
    return STATUS_OK;
}

static enum status run_command(const struct side *s, const struct side_work *w, const struct wish *wish,
                               const struct battery_prompt *p, const char *dir, struct err *err) {
    char prompt[WORK_PATH], out[2 * WORK_PATH], follow[2 * WORK_PATH] = "", n[16], command[COMMAND_BYTES];
    work_folder_prompt(w->folder, p, prompt);
    (void)snprintf(out, sizeof out, "%.480s/%s.fgd", dir, p->name);
    if (wish->follow != NULL) (void)snprintf(follow, sizeof follow, "%.480s/%s.fgd", wish->follow, p->name);
    RETURN_IF_ERROR(budget_of(wish, follow, n, err));
    RETURN_IF_ERROR(check_plain(out, err));
    RETURN_IF_ERROR(check_plain(follow, err));
    const struct slot slots[] = {
        {"{prompt}", prompt}, {"{n}", n}, {"{out}", out}, {"{follow}", follow}, {NULL, NULL}};
    RETURN_IF_ERROR(expand(s->spec, slots, command, err));
    struct child_args args = {{NULL}, 0, 0};
    child_add(&args, "/bin/sh");
    child_add_pair(&args, "-c", command);
    (void)unlink(out);
    enum status status = run_child(s, w, &args, "the engine command", err);
    child_args_free(&args);
    if (status == STATUS_OK && access(out, R_OK) != 0)
        status = err_set(err, STATUS_INVALID, "the engine command ended well but left no dump at {out}");
    return status == STATUS_OK ? status : err_prefix(err, status, "prompt %s", p->name);
}

static enum status run_commands(const struct side *s, const struct side_work *w, const struct wish *wish,
                                const char *dir, struct err *err) {
    char csv[WORK_PATH];
    RETURN_IF_ERROR(work_folder_battery(w->folder, w->battery, "battery", csv, err));
    for (int i = 0; i < w->battery->n; i++) {
        RETURN_IF_ERROR(run_command(s, w, wish, &w->battery->prompts[i], dir, err));
        if (w->progress != NULL) w->progress(w->ctx, (uint64_t)i + 1, (uint64_t)w->battery->n);
    }
    return STATUS_OK;
}

/* ---- all kinds ------------------------------------------------------------------------------------------------- */
static enum status run_engine(struct side *s, const struct side_work *w, const struct wish *wish,
                              const char *dir, struct err *err) {
    engine *e = NULL;
    RETURN_IF_ERROR(side_engine(s, &e, err));
    if (wish->follow != NULL)
        return battery_replay(e, w->battery, wish->follow, dir, w->progress, w->ctx, err);
    return battery_generate(e, w->battery, wish->sampler, wish->n, dir, w->progress, w->ctx, err);
}

/* A damaged, missing or foreign dump is found here, before anything is compared. */
static enum status verify_all(const struct side *s, const struct side_work *w, const char *dir,
                              struct err *err) {
    for (int i = 0; i < w->battery->n; i++) {
        dump *d = NULL;
        RETURN_IF_ERROR(side_open_dump(s, dir, &w->battery->prompts[i], &d, err));
        dump_close(d);
    }
    return STATUS_OK;
}

static enum status run(struct side *s, const struct side_work *w, const struct wish *wish, const char *name,
                       char dir[WORK_PATH], struct err *err) {
    enum status status = STATUS_OK;
    if (s->kind == SIDE_DUMPS)
        (void)snprintf(dir, WORK_PATH, "%.*s", WORK_PATH - 1, s->spec);
    else
        RETURN_IF_ERROR(work_folder_sub(w->folder, name, dir, err));
    if (s->kind == SIDE_ENGINE) status = run_engine(s, w, wish, dir, err);
    if (s->kind == SIDE_BINARY) status = run_binary(s, w, wish, dir, err);
    if (s->kind == SIDE_COMMAND) status = run_commands(s, w, wish, dir, err);
    return status == STATUS_OK ? verify_all(s, w, dir, err) : status;
}

enum status side_generate(struct side *s, const struct side_work *w, const struct sampler_config *sampler,
                          int n, const char *name, char dir[WORK_PATH], struct err *err) {
    struct wish wish = {sampler, n, NULL};
    if (!side_takes_options(s) && sampler->temperature > 0.0f)
        return err_set(err, STATUS_UNSUPPORTED, "%s cannot be given a temperature",
                       s->kind == SIDE_DUMPS ? "a folder of dumps" : "a command");
    return run(s, w, &wish, name, dir, err);
}

enum status side_replay(struct side *s, const struct side_work *w, const char *follow_dir, const char *name,
                        char dir[WORK_PATH], struct err *err) {
    struct sampler_config greedy = sampler_greedy();
    struct wish wish = {&greedy, 0, follow_dir};
    if (!side_can_follow(s))
        return err_set(err, STATUS_UNSUPPORTED, "%s",
                       s->kind == SIDE_DUMPS ? "a folder of dumps cannot be forced along other tokens"
                                             : "the command has no {follow}: it cannot be forced");
    return run(s, w, &wish, name, dir, err);
}
