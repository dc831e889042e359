/* test_rope_gate.c - model.rope over a small model whose file scales its rotation in each of the ways that one may: the gate
 * reads the file by itself, and must find what the engine does. Not the rotation by a given table (op.rope).
 * Source: ours. Exercise: ctest -R unit.rope_gate */
#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/gguf_write.h"
#include "engine/make_model.h"
#include "gates/model/model_gates.h"

TestSuite(rope_gate, .timeout = 60);

static struct evidence rows[8];
static int n_rows;
static void keep(void *sink, const struct evidence *row) {
    (void)sink;
    if (n_rows < 8) rows[n_rows++] = *row;
}

/* A copy of the model with these keys added; NULL and 0: without. */
static void write_scaled(const char *from, const char *to, const char *type, float factor, float older) {
    struct err err = {""};
    gguf *g = NULL;
    gguf_writer *w = NULL;
    FILE *f = fopen(to, "wb");
    cr_assert(f != NULL && gguf_open(from, &g, &err) == STATUS_OK, "%s", err.message);
    cr_assert_eq(gguf_writer_open(f, &w, &err), STATUS_OK, "%s", err.message);
    for (uint64_t i = 0; i < gguf_key_count(g); i++) gguf_put_key(w, g, i);
    if (type != NULL) gguf_put_string(w, "llama.rope.scaling.type", type);
    if (factor > 0) gguf_put_f32(w, "llama.rope.scaling.factor", factor);
    if (older > 0) gguf_put_f32(w, "llama.rope.scale_linear", older);
    for (uint64_t i = 0; i < gguf_tensor_count(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        gguf_put_tensor(w, t->name, t->dtype, t->n_dims, t->dims);
    }
    for (uint64_t i = 0; i < gguf_tensor_count(g); i++)
        cr_assert_eq(gguf_write_data(w, gguf_tensor_at(g, i)->data, gguf_tensor_at(g, i)->bytes, &err),
                     STATUS_OK, "%s", err.message);
    cr_assert_eq(gguf_writer_close(w, &err), STATUS_OK, "%s", err.message);
    cr_assert_eq(fclose(f), 0);
    gguf_close(g);
}

static void judge(const char *model) {
    struct gate_context c;
    struct err err = {""};
    memset(&c, 0, sizeof c);
    c.source_dir = FORKGATE_SOURCE_DIR;
    c.model_path = model;
    c.config = engine_config_default();
    c.config.compute.n_threads = 1;
    c.emit = keep;
    n_rows = 0;
    cr_assert_eq(gate_model_rope.run(&c, &err), STATUS_OK, "%s", err.message);
}

Test(rope_gate, every_way_to_scale_is_read_from_the_file) {
    static const struct {
        const char *type;
        float factor, older;
    } ways[] = {{NULL, 0, 0},   {"linear", 4, 0}, {NULL, 4, 0}, {NULL, 0, 4},
                {"none", 4, 0}, {"linear", 0, 8}, {NULL, 2, 8}};
    char model[64], scaled[64];
    struct err err = {""};
    (void)snprintf(model, sizeof model, "/tmp/forkgate-rope-%ld.gguf", (long)getpid());
    (void)snprintf(scaled, sizeof scaled, "/tmp/forkgate-rope-%ld-scaled.gguf", (long)getpid());
    const struct make_model_request r = {
        .out = model, .shape = "tiny", .arch = "llama", .quant = "f32", .seed = 1};
    cr_assert_eq(make_model(&r, &err), STATUS_OK, "%s", err.message);
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        write_scaled(model, scaled, ways[i].type, ways[i].factor, ways[i].older);
        judge(scaled);
        cr_assert_eq(n_rows, 4);
        for (int k = 0; k < 4; k++)
            cr_assert_eq(rows[k].verdict, VERDICT_PASS, "way %zu, %s: %s", i, rows[k].arm, rows[k].note);
        cr_assert_str_eq(rows[2].arm, "negative");
    }
    (void)remove(model);
    (void)remove(scaled);
}
