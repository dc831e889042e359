/* test_gguf_damage.c - whole files cut at every kilobyte, every header field replaced by hostile values, hostile counts,
 * and sparse files with tensors around 2^31 and 2^32 bytes.
 * Not the rows of single faults: test_gguf.c. Run under ASan and UBSan, where a read out of bounds is fatal.
 * Source: ours. Exercise: ctest -R unit.gguf_damage */
#include <criterion/criterion.h>

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "engine/model.h"
#include "tests/gguf_bytes.h"

#define SEEDLING FORKGATE_SOURCE_DIR "/fixtures/models/seedling-q8_0.gguf"

/* ---- the fields of a header, found by a walk of its own ---------------------------------------------------- */

struct field {
    size_t at;
    int bytes;
};
struct fields {
    struct field *list;
    size_t n, room;
    const uint8_t *p;
    size_t at;
};

static uint64_t step(struct fields *f, int bytes) {
    uint64_t v = 0;
    for (int i = 0; i < bytes; i++) v |= (uint64_t)f->p[f->at + (size_t)i] << (8 * i);
    if (f->n == f->room) {
        f->room = f->room * 2 + 256;
        f->list = realloc(f->list, f->room * sizeof *f->list);
        if (f->list == NULL) abort();
    }
    f->list[f->n].at = f->at;
    f->list[f->n++].bytes = bytes;
    f->at += (size_t)bytes;
    return v;
}

static void step_value(struct fields *f, uint64_t type) {
    static const int scalar[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    if (type == GGUF_STRING) {
        f->at += step(f, 8);
    } else if (type == GGUF_ARRAY) {
        uint64_t element = step(f, 4), n = step(f, 8);
        for (uint64_t i = 0; i < n; i++) {
            step_value(f, element);
            if (i > 3 && i + 4 < n) f->n--; /* of a long array the ends are enough */
        }
    } else {
        (void)step(f, scalar[type]);
    }
}

/* Every number of the header of a sound file. */
static struct fields fields_of(const uint8_t *p) {
    struct fields f = {NULL, 0, 0, p, 0};
    (void)step(&f, 4); /* magic */
    (void)step(&f, 4);
    uint64_t n_tensors = step(&f, 8), n_keys = step(&f, 8);
    for (uint64_t i = 0; i < n_keys; i++) {
        f.at += step(&f, 8);
        step_value(&f, step(&f, 4));
    }
    for (uint64_t i = 0; i < n_tensors; i++) {
        f.at += step(&f, 8);
        uint64_t n_dims = step(&f, 4);
        for (uint64_t d = 0; d < n_dims; d++) (void)step(&f, 8);
        (void)step(&f, 4);
        (void)step(&f, 8);
    }
    return f;
}

static uint8_t *read_file(const char *path, size_t *n) {
    FILE *f = fopen(path, "rb");
    cr_assert(f != NULL, "cannot open the fixture");
    cr_assert_eq(fseek(f, 0, SEEK_END), 0);
    *n = (size_t)ftell(f);
    rewind(f);
    uint8_t *p = malloc(*n);
    cr_assert(p != NULL && fread(p, 1, *n, f) == *n);
    (void)fclose(f);
    return p;
}

static int one_clear_line(const struct err *err) {
    return err->message[0] != '\0' && strchr(err->message, '\n') == NULL &&
           err->message[strlen(err->message) - 1] != '.';
}

/* A model whose file is all header: two tensors, a vocabulary of 40 tokens. */
static struct bytes small_file(void) {
    static const uint64_t matrix[2] = {32, 40}, vector[1] = {32};
    struct bytes b = start_gguf(2, 11);
    put_key_string(&b, "general.architecture", "llama");
    put_key(&b, "general.alignment", GGUF_U32, 32, 4);
    put_key(&b, "llama.block_count", GGUF_U32, 1, 4);
    put_key(&b, "llama.embedding_length", GGUF_U32, 32, 4);
    put_key(&b, "llama.feed_forward_length", GGUF_U64, 64, 8);
    put_key(&b, "llama.context_length", GGUF_I32, 16, 4);
    put_key(&b, "llama.attention.head_count", GGUF_U16, 2, 2);
    put_key(&b, "llama.attention.layer_norm_rms_epsilon", GGUF_F32, 0x3727c5ac, 4);
    put_key(&b, "llama.attention.causal", GGUF_BOOL, 1, 1);
    put_key_array(&b, "tokenizer.ggml.tokens", GGUF_STRING, 40);
    for (int i = 0; i < 40; i++) put_str(&b, "token");
    put_key_array(&b, "tokenizer.ggml.scores", GGUF_F32, 40);
    for (int i = 0; i < 40; i++) put_int(&b, 0x3f800000, 4);
    put_tensor(&b, "token_embd.weight", 2, matrix, DTYPE_Q8_0, 0);
    put_tensor(&b, "output_norm.weight", 1, vector, DTYPE_F32, 1376);
    put_data(&b, 32, 1376 + 128);
    return b;
}

/* ---- tests ------------------------------------------------------------------------------------------------- */

Test(gguf_damage, seedling_cut_at_every_kilobyte_is_refused) {
    size_t n = 0;
    uint8_t *file = read_file(SEEDLING, &n);
    struct fields f = fields_of(file);
    for (size_t cut = 0; cut < n; cut += 1024) {
        /* Parsing looks at the header only, so the copy ends with it: a look beyond is fatal under ASan. */
        size_t kept = cut < f.at ? cut : f.at;
        void *copy = malloc(kept + (kept == 0));
        cr_assert(copy != NULL);
        memcpy(copy, file, kept);
        gguf *g = NULL;
        struct err err = {""};
        cr_assert_eq(gguf_parse(copy, cut, &g, &err), STATUS_FORMAT, "cut at %zu: %s", cut, err.message);
        cr_assert(g == NULL && one_clear_line(&err), "cut at %zu: %s", cut, err.message);
        free(copy);
    }
    free(f.list);
    free(file);
}

Test(gguf_damage, small_file_cut_at_every_byte_is_refused) {
    struct bytes b = small_file();
    for (size_t cut = 0; cut <= b.n; cut++) {
        void *copy = NULL;
        gguf *g = NULL;
        struct err err = {""};
        enum status s = parse_exact(b.p, cut, &copy, &g, &err);
        cr_assert_eq(s == STATUS_OK, cut == b.n, "cut at %zu: %s", cut, err.message);
        cr_assert(s == STATUS_OK || one_clear_line(&err), "cut at %zu: %s", cut, err.message);
        gguf_close(g);
        free(copy);
    }
    free(b.p);
}

static const uint64_t hostile[] = {
    0, 1, UINT64_C(1) << 31, UINT64_C(1) << 32, UINT64_C(1) << 63, UINT64_MAX - 15, UINT64_MAX, 13};

/* Replaces each field by each hostile value, in place. Returns how many variants loaded. */
static size_t replace_fields(uint8_t *file, size_t n, size_t *variants) {
    struct fields f = fields_of(file);
    size_t loaded = 0;
    for (size_t i = 0; i < f.n; i++) {
        for (size_t h = 0; h < sizeof hostile / sizeof hostile[0]; h++) {
            uint8_t saved[8];
            size_t bytes = (size_t)f.list[i].bytes;
            memcpy(saved, file + f.list[i].at, bytes);
            for (size_t k = 0; k < bytes; k++) file[f.list[i].at + k] = (uint8_t)(hostile[h] >> (8 * k));
            gguf *g = NULL;
            struct err err = {""};
            enum status s = gguf_parse(file, n, &g, &err);
            cr_assert_eq(s == STATUS_OK, g != NULL);
            cr_assert(s == STATUS_OK || one_clear_line(&err), "field at %zu: %s", f.list[i].at, err.message);
            if (s == STATUS_OK) {
                loaded++;
                (void)read_everything(g);
                struct model_config c;
                s = model_read_config(g, &c, &err);
                cr_assert(s == STATUS_OK || one_clear_line(&err), "field at %zu: %s", f.list[i].at,
                          err.message);
            }
            gguf_close(g);
            memcpy(file + f.list[i].at, saved, bytes);
        }
    }
    *variants = f.n * sizeof hostile / sizeof hostile[0];
    free(f.list);
    return loaded;
}

Test(gguf_damage, every_header_field_survives_hostile_values, .timeout = 240) {
    struct bytes b = small_file();
    uint8_t *exact = malloc(b.n);
    cr_assert(exact != NULL);
    memcpy(exact, b.p, b.n);
    size_t variants = 0, loaded = replace_fields(exact, b.n, &variants);
    cr_assert(loaded > 20 && loaded < variants / 2, "%zu of %zu loaded", loaded, variants);
    cr_assert(memcmp(exact, b.p, b.n) == 0, "the file was not restored");
    free(exact);
    free(b.p);
    size_t n = 0;
    uint8_t *file = read_file(SEEDLING, &n);
    loaded = replace_fields(file, n, &variants);
    cr_assert(loaded > 20 && loaded < variants / 2, "%zu of %zu loaded", loaded, variants);
    free(file);
}

static double seconds(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* 2^18 tensors (keys) that share a long prefix, in scrambled order; `twice` makes the last repeat an earlier name. */
static struct bytes crowd(int tensors, int twice) {
    enum { COUNT = 1 << 18 };
    static const uint64_t dims[1] = {8};
    struct bytes b = start_gguf(tensors ? COUNT : 0, tensors ? 0 : COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        char name[64];
        uint32_t id = (i * 2654435761u) % COUNT; /* odd multiplier: a permutation */
        if (twice && i == COUNT - 1) id = 0;
        (void)snprintf(name, sizeof name, "a.prefix.that.all.of.them.share.for.long.%06x", id);
        if (tensors)
            put_tensor(&b, name, 1, dims, DTYPE_F32, (uint64_t)i * 32);
        else
            put_key(&b, name, GGUF_U8, i & 255, 1);
    }
    if (tensors) put_data(&b, 32, (size_t)COUNT * 32);
    return b;
}

Test(gguf_damage, crowds_are_searched_for_duplicates_in_good_time, .timeout = 120) {
    for (int tensors = 0; tensors < 2; tensors++) {
        for (int twice = 0; twice < 2; twice++) {
            struct bytes b = crowd(tensors, twice);
            gguf *g = NULL;
            struct err err = {""};
            double start = seconds();
            enum status s = gguf_parse(b.p, b.n, &g, &err);
            double took = seconds() - start;
            cr_assert_eq(s, twice ? STATUS_FORMAT : STATUS_OK, "%s", err.message);
            cr_assert(!twice || strstr(err.message, "duplicate") != NULL, "%s", err.message);
            cr_assert(took < 10.0, "%g s", took);
            gguf_close(g);
            free(b.p);
        }
    }
}

Test(gguf_damage, sparse_tensors_around_2_31_and_2_32_bytes_load) {
    static const uint64_t sizes[] = {(UINT64_C(1) << 31) - 32, UINT64_C(1) << 31, (UINT64_C(1) << 31) + 32,
                                     (UINT64_C(1) << 32) - 32, UINT64_C(1) << 32, (UINT64_C(1) << 32) + 32};
    enum { N = sizeof sizes / sizeof sizes[0] };
    struct bytes b = start_gguf(N, 0);
    uint64_t offset = 0;
    for (int i = 0; i < N; i++) {
        char name[8];
        (void)snprintf(name, sizeof name, "t%d", i);
        uint64_t dims[2] = {8, sizes[i] / 32};
        put_tensor(&b, name, 2, dims, DTYPE_F32, offset);
        offset += sizes[i];
    }
    put_data(&b, 32, 0);
    char dir[] = "/tmp/forkgate-test-XXXXXX", path[64];
    cr_assert(mkdtemp(dir) != NULL);
    (void)snprintf(path, sizeof path, "%s/sparse.gguf", dir);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    cr_assert(fd >= 0 && write(fd, b.p, b.n) == (ssize_t)b.n);
    cr_assert_eq(ftruncate(fd, (off_t)(b.n + offset)), 0);
    uint64_t end = b.n;
    for (int i = 0; i < N; i++) { /* a mark in the last byte of each tensor */
        uint8_t mark = (uint8_t)(i + 1);
        end += sizes[i];
        cr_assert_eq(pwrite(fd, &mark, 1, (off_t)(end - 1)), 1);
    }
    gguf *g = NULL;
    struct err err = {""};
    cr_expect_eq(gguf_open(path, &g, &err), STATUS_OK, "%s", err.message);
    for (int i = 0; g != NULL && i < N; i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, (uint64_t)i);
        cr_expect_eq(t->bytes, sizes[i]);
        cr_expect_eq(((const uint8_t *)t->data)[t->bytes - 1], i + 1, "tensor %d ends elsewhere", i);
    }
    gguf_close(g);
    cr_expect_eq(ftruncate(fd, (off_t)(b.n + offset - 1)), 0);
    cr_expect_eq(gguf_open(path, &g, &err), STATUS_FORMAT, "one byte short");
    (void)close(fd);
    (void)unlink(path);
    (void)rmdir(dir);
    free(b.p);
}
