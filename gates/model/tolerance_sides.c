/* tolerance_sides.c - who is compared: the candidate, the base, and the controls that say what a legal regrouping moves.
 * Idea: without --base, the base is this build at the architecture's default geometry; when the candidate is that very
 * thing, only a recorded base can tell a change of code, so the recorded streams are the base.
 * Source: DESIGN of forkgate, sections 5 and 7. Exercise: forkgate run --tier tolerance --class fa --cause TEXT */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "gates/file_hash.h"
#include "gates/golden.h"
#include "gates/model/tolerance_parts.h"

static int is_folder(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* golden/battery/fa_tkv32 (or fa_tkv32-fa_chunk512): where streams of this geometry are committed. */
static int recorded_folder(const struct package *p, const struct geometry *g, char out[WORK_PATH]) {
    char chunk[32] = "";
    if (g->fa_chunk != FA_CHUNK_DEFAULT) (void)snprintf(chunk, sizeof chunk, "-fa_chunk%d", g->fa_chunk);
    (void)snprintf(out, WORK_PATH, "%.400s/golden/battery/fa_tkv%d%s", p->ctx->source_dir, g->fa_tkv, chunk);
    return p->plan->battery == NULL && !p->ctx->small_battery && is_folder(out);
}

/* Do committed streams belong to this side: same model, prompt, route, arithmetic? Only the first is looked at here; the
 * A/A arm looks at all. */
static int recorded_fits(const struct package *p, const struct side *s, const char *dir) {
    struct golden_entry entry;
    struct golden_key key;
    struct hash128 model;
    struct err err;
    dump *d = NULL;
    const struct battery_prompt *prompt = &p->battery.prompts[0];
    if (side_open_dump(s, dir, prompt, &d, &err) != STATUS_OK) return 0;
    int fits = golden_describe(d, &entry, &err) == STATUS_OK &&
               file_hash(s->model, &model, &err) == STATUS_OK &&
               golden_key_of(&s->config, &model, prompt->bytes, prompt->n, &key) == STATUS_OK &&
               golden_key_equal(&key, &entry.key);
    dump_close(d);
    return fits;
}

/* ---- controls ------------------------------------------------------------------------------------------------ */
static void add_control(struct package *p, const struct side *like, const struct geometry *g) {
    if (p->n_control == TOLERANCE_CONTROLS) return;
    struct side *c = &p->control[p->n_control++];
    *c = *like;
    c->engine = NULL;
    c->config.compute.geometry = *g;
}

/* The base, regrouped by every other legal fa_tkv that is not the candidate's. */
static void controls_by_geometry(struct package *p) {
    static const int tiles[] = {64, 16, 32};
    for (size_t i = 0; i < sizeof tiles / sizeof tiles[0]; i++) {
        struct geometry g = p->base.config.compute.geometry;
        if (tiles[i] == g.fa_tkv) continue;
        if (side_takes_options(&p->candidate) && tiles[i] == p->candidate.config.compute.geometry.fa_tkv)
            continue;
        g.fa_tkv = tiles[i];
        if (geometry_check(&g, NULL) == STATUS_OK) add_control(p, &p->base, &g);
    }
}

/* Was this folder forced along the base's streams? Its first dump says whom it follows. */
static int follows_base(const struct package *p, const struct side *control) {
    char hash[HASH_TEXT_BYTES];
    struct err err;
    dump *base = NULL, *d = NULL;
    const char *follow = NULL;
    if (side_open_dump(&p->base, p->base.spec, &p->battery.prompts[0], &base, &err) != STATUS_OK) return 0;
    struct dump_results r = dump_results(base);
    hash_format(&r.stream, hash);
    if (side_open_dump(control, control->spec, &p->battery.prompts[0], &d, &err) == STATUS_OK)
        follow = provenance_get(dump_provenance(d), "follow");
    int follows = follow != NULL && strcmp(follow, hash) == 0;
    dump_close(d);
    dump_close(base);
    return follows;
}

#define CONTROL_PREFIX "control-"

static int is_control(const struct dirent *e) {
    return strncmp(e->d_name, CONTROL_PREFIX, sizeof CONTROL_PREFIX - 1) == 0;
}

static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* One at the candidate's own tile is left out: a candidate must not excuse itself. */
static enum status try_control(struct package *p, const char *parent, const char *name, struct err *err) {
    char path[2 * WORK_PATH], own[48];
    struct side *c = &p->control[p->n_control];
    (void)snprintf(own, sizeof own, CONTROL_PREFIX "fa_tkv%d", p->candidate.config.compute.geometry.fa_tkv);
    if (side_takes_options(&p->candidate) && strcmp(name, own) == 0) return STATUS_OK;
    (void)snprintf(path, sizeof path, "%s/%.255s", parent, name);
    RETURN_IF_ERROR(side_open(path, p->ctx->model_path, &p->base.config, c, err));
    p->n_control += c->kind == SIDE_DUMPS && follows_base(p, c);
    return STATUS_OK;
}

/* Folders named control-* beside a base of dumps hold dumps forced along it by a legal regrouping, recorded with it. The first
 * that serve are taken by name: delta must not depend on the order in which a file system hands them out. */
static enum status controls_by_folder(struct package *p, struct err *err) {
    char parent[WORK_PATH];
    struct dirent **entries = NULL;
    enum status s = STATUS_OK;
    (void)snprintf(parent, sizeof parent, "%.*s", WORK_PATH - 1, p->base.spec);
    char *slash = strrchr(parent, '/');
    if (slash == NULL || slash[1] == '\0') return STATUS_OK;
    *slash = '\0';
    int n = scandir(parent, &entries, is_control, by_name);
    for (int i = 0; i < n; i++) {
        if (s == STATUS_OK && p->n_control < TOLERANCE_CONTROLS)
            s = try_control(p, parent, entries[i]->d_name, err);
        free(entries[i]);
    }
    free(entries);
    return s;
}

/* ---- all ----------------------------------------------------------------------------------------------------- */
/* Without --base: recorded streams of the default geometry save making them (the A/A arm proves that this build makes them).
 * Where the candidate is that very build and geometry, they are the base: only they can tell a change of code. */
static enum status choose_base(struct package *p, struct err *err) {
    struct engine_config config = p->candidate.config;
    char recorded[WORK_PATH];
    int same = 0;
    config.compute.geometry = geometry_default(config.compute.arch);
    RETURN_IF_ERROR(side_open(p->ctx->base, p->ctx->model_path, &config, &p->base, err));
    if (p->ctx->base != NULL || !recorded_folder(p, &config.compute.geometry, recorded)) return STATUS_OK;
    if (!recorded_fits(p, &p->base, recorded)) return STATUS_OK;
    RETURN_IF_ERROR(side_same(&p->base, &p->candidate, p->ctx->self, &same, err));
    if (same) return side_open(recorded, p->ctx->model_path, &config, &p->base, err);
    memcpy(p->base_dir, recorded, sizeof recorded);
    p->base_is_recorded = 1;
    return STATUS_OK;
}

enum status tolerance_sides_open(struct package *p, struct err *err) {
    struct engine_config config = p->ctx->config;
    config.compute.route = p->plan->route;
    RETURN_IF_ERROR(side_open(p->ctx->engine_cmd, p->ctx->model_path, &config, &p->candidate, err));
    RETURN_IF_ERROR(choose_base(p, err));
    if (side_takes_options(&p->base))
        controls_by_geometry(p);
    else if (p->base.kind == SIDE_DUMPS)
        RETURN_IF_ERROR(controls_by_folder(p, err));
    return STATUS_OK;
}

void tolerance_sides_close(struct package *p) {
    side_close(&p->base);
    side_close(&p->candidate);
    for (int i = 0; i < p->n_control; i++) side_close(&p->control[i]);
}
