/* tensor_control.c - how much legal regroupings of one op move a tensor: from a folder of them. See tensor_diff.h.
 * Not measured on the pair under judgement: what holds B's launch or B's bits does not count.
 * Source: DESIGN of forkgate, section 5 "benign". Exercise: ctest -R unit.tensor_diff */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gates/diff_parts.h"
#include "gates/tensor_diff.h"

static int same_value(const struct provenance *p, const struct provenance *q, const char *key) {
    const char *x = provenance_get(p, key), *y = provenance_get(q, key);
    return x == NULL || y == NULL ? x == y : strcmp(x, y) == 0;
}

/* The first key of p, of that kind, that q has otherwise or not at all; NULL: none. */
static const char *first_other(const struct provenance *p, const struct provenance *q,
                               int (*kind)(const char *)) {
    for (int i = 0; i < p->n; i++)
        if (kind(p->items[i].key) && !same_value(p, q, p->items[i].key)) return p->items[i].key;
    return NULL;
}

int tensor_same_launch(const struct provenance *p, const struct provenance *q) {
    if (diff_names_tile(p) && diff_names_tile(q)) return diff_same_tile(p, q);
    return first_other(p, q, tensor_key_launch) == NULL && first_other(q, p, tensor_key_launch) == NULL;
}

/* Is all that B launched otherwise than A so in c as well? Then c is A under B's launch. */
static int launched_as_b(const struct provenance *c, const struct provenance *a, const struct provenance *b) {
    if (tensor_same_launch(a, b)) return 0;
    if (diff_names_tile(c) && diff_names_tile(b)) return diff_same_tile(c, b);
    for (int side = 0; side < 2; side++) {
        const struct provenance *own = side == 0 ? a : b;
        for (int i = 0; i < own->n; i++) {
            const char *key = own->items[i].key;
            if (tensor_key_launch(key) && !same_value(a, b, key) && !same_value(c, b, key)) return 0;
        }
    }
    return 1;
}

/* Why c says nothing about A against B, or NULL. */
static const char *unfit(const tensor_dump *c, const tensor_dump *a, const tensor_dump *b, char room[80]) {
    const struct provenance *p = tensor_dump_provenance(c), *of_a = tensor_dump_provenance(a),
                            *of_b = tensor_dump_provenance(b);
    struct hash128 own = tensor_dump_hash(c), other = tensor_dump_hash(b);
    if (!tensor_same_shape(c, a)) return "another shape or dtype";
    const char *key = first_other(p, of_a, tensor_key_identity);
    if (key == NULL) key = first_other(of_a, p, tensor_key_identity);
    if (key == NULL) key = diff_other_build(p, of_a);
    if (key == NULL && !same_value(p, of_a, "build")) key = "build";
    if (key != NULL) {
        (void)snprintf(room, 80, "%.40s is not A's", key);
        return room;
    }
    if (tensor_same_launch(p, of_a)) return "launched as A was";
    if (launched_as_b(p, of_a, of_b)) return "launched as B was";
    return hash_equal(&own, &other) ? "it holds B's own bits" : NULL;
}

#define WHY 240 /* room for why the first few were left out */

static enum status add(const char *path, const char *name, const tensor_dump *a, const tensor_dump *b,
                       struct tensor_control *out, char why[WHY], struct err *err) {
    tensor_dump *c = NULL;
    struct tensor_distance d;
    char room[80];
    RETURN_IF_ERROR(tensor_dump_open(path, &c, err));
    const char *reason = unfit(c, a, b, room);
    enum status s = STATUS_OK;
    if (reason != NULL) {
        char text[160];
        out->left_out++;
        (void)snprintf(text, sizeof text, "; %.64s: %s", name, reason);
        if (strlen(why) + strlen(text) < WHY) memcpy(why + strlen(why), text, strlen(text) + 1);
    } else {
        tensor_distance(a, c, &d);
        if (d.census[1].first_bad != METRICS_NONE)
            s = err_set(err, STATUS_INVALID, "%s: a control that holds NaN or infinities measures nothing",
                        path);
        out->used++;
        if (d.max_abs > out->max_abs) out->max_abs = d.max_abs;
        if (d.rms > out->rms) out->rms = d.rms;
    }
    tensor_dump_close(c);
    return s;
}

static int is_tensor_name(const struct dirent *e) {
    size_t n = strlen(e->d_name);
    return n > 4 && strcmp(e->d_name + n - 4, ".fgt") == 0;
}

static int by_name(const struct dirent **x, const struct dirent **y) {
    return strcmp((*x)->d_name, (*y)->d_name); /* alphasort follows the locale */
}

enum status tensor_control_for(const char *dir, const tensor_dump *a, const tensor_dump *b,
                               struct tensor_control *out, struct err *err) {
    struct dirent **names = NULL;
    char path[4096], why[WHY] = "";
    int n = scandir(dir, &names, is_tensor_name, by_name);
    memset(out, 0, sizeof *out);
    out->asked = 1;
    if (n < 0) return err_set(err, STATUS_IO, "--control %s: %s", dir, strerror(errno));
    enum status s = STATUS_OK;
    for (int i = 0; i < n; i++) {
        int length = snprintf(path, sizeof path, "%s/%s", dir, names[i]->d_name);
        if (s == STATUS_OK && length >= (int)sizeof path)
            s = err_set(err, STATUS_LIMIT, "--control %.200s: too long a path", dir);
        if (s == STATUS_OK) s = add(path, names[i]->d_name, a, b, out, why, err);
        free(names[i]);
    }
    free(names);
    (void)snprintf(out->source, sizeof out->source, "%.100s: %d used, %d left out%s", dir, out->used,
                   out->left_out, n == 0 ? "; no .fgt file is there" : why);
    return s;
}
