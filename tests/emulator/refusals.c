/* refusals.c - what a refused upload or open gives back: everything, at once, and not only when the backend is closed.
 * Not a sweep of whole programs (tests/device_failures.sh is): one call at a time, refused at its first, second, ..
 * allocation, copy and other call of the runtime until nothing is refused any more: uploads, opens and steps. The device
 * memory in use is the emulated runtime's own count; what the process itself does not give back, it tells at its end.
 * Source: ours. Exercise: ctest -R emulator.refusals; exit 0 all given back, 1 not */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../engine/engine.h"
#include "../../engine/fault.h"

enum { N = 64, K = 256 };

static int bad, refused;

static _Noreturn void die(const struct err *err) {
    fprintf(stderr, "refusals: %s\n", err->message);
    exit(2);
}

static struct backend *opened(enum route route) {
    struct err err;
    struct backend *b;
    struct backend_config c;
    memset(&c, 0, sizeof c);
    c.route = route;
    c.arch = ARCH_SM90;
    c.geometry = geometry_default(ARCH_SM90);
    if (backend_cuda_open(&c, &b, &err) != STATUS_OK) die(&err);
    return b;
}

static size_t used(struct backend *b) {
    struct err err;
    size_t bytes = 0;
    if (fault_set(NULL, &err) != STATUS_OK || b->memory_used(b, &bytes, &err) != STATUS_OK) die(&err);
    return bytes;
}

static void judge(const char *what, const char *list, size_t before, size_t after, const void *left,
                  const struct err *err) {
    refused++;
    if (before == after && left == NULL && strchr(err->message, '\n') == NULL && err->message[0] != '\0')
        return;
    bad++;
    printf("refusals: %s, %s: %zu bytes before, %zu after%s: %s\n", what, list, before, after,
           left != NULL ? ", and a pointer" : "", err->message);
}

static void tell(const char *kind, int n, char list[64]) {
    struct err err;
    (void)snprintf(list, 64, n > 0 ? "fail:%s:%d" : "fail:%s", kind, n);
    if (fault_set(list, &err) != STATUS_OK) die(&err);
}

/* One upload under one refusal; 0 when nothing was refused. */
static int upload(struct backend *b, enum weight_use use, enum dtype t, const void *src, const char *kind,
                  int n) {
    struct err err = {""};
    struct weight w;
    char list[64], what[64];
    size_t before = used(b);
    tell(kind, n, list);
    enum status s = b->weight_upload(b, use, t, src, N, K, &w, &err);
    size_t after = used(b);
    (void)snprintf(what, sizeof what, "%s upload %d on %s", dtype_info((int)t)->name, (int)use,
                   route_name(b->config.route));
    if (s != STATUS_OK) {
        judge(what, list, before, after, w.data, &err);
        return 1;
    }
    b->weight_free(b, &w);
    if (used(b) != before) bad++, printf("refusals: %s: weight_free leaves memory\n", what);
    return 0;
}

static const char *const counted[] = {"alloc", "copy", "call"};
static const char *const launches[] = {"launch:weight_f16", "launch:weight_vector", "launch:weight_planes"};

static void uploads(enum route route, const void *src) {
    static const enum dtype types[] = {DTYPE_F32,  DTYPE_Q8_0, DTYPE_Q4_0, DTYPE_Q4_1, DTYPE_Q5_0,
                                       DTYPE_Q5_1, DTYPE_Q4_K, DTYPE_Q5_K, DTYPE_Q6_K};
    struct backend *b = opened(route);
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
        for (int use = WEIGHT_MATMUL; use <= WEIGHT_VECTOR; use++) {
            if (route == ROUTE_Q8 && use == WEIGHT_MATMUL && types[t] == DTYPE_F32) continue;
            for (int kind = 0; kind < 3; kind++) {
                int n = 1;
                while (upload(b, (enum weight_use)use, types[t], src, counted[kind], n)) n++;
                (void)upload(b, (enum weight_use)use, types[t], src, launches[kind], 0);
            }
        }
    struct err err;
    if (fault_set(NULL, &err) != STATUS_OK) die(&err);
    b->close(b);
}

static void opens(void) {
    struct backend *witness = opened(ROUTE_F16);
    for (int kind = 0; kind < 3; kind++)
        for (int n = 1;; n++) {
            struct err err = {""};
            struct backend *b = NULL;
            char list[64];
            size_t before = used(witness);
            tell(counted[kind], n, list);
            enum status s = backend_cuda_open(&witness->config, &b, &err);
            size_t after = used(witness);
            if (s == STATUS_OK) {
                b->close(b);
                break;
            }
            judge("open", list, before, after, b, &err);
        }
    witness->close(witness);
}

/* ---- steps: prefill, an eager decode, one that is captured, one that is replayed --------------------------------- */

static enum status steps(session *s, struct err *err) {
    static const int32_t ids[] = {5, 300, 7};
    RETURN_IF_ERROR(session_prefill(s, ids, 3, err));
    for (int i = 0; i < 3; i++) RETURN_IF_ERROR(session_decode(s, ids[i], err));
    return STATUS_OK;
}

static engine *engine_on(enum route route) {
    struct err err;
    engine *e;
    struct engine_config c = engine_config_default();
    c.backend = BACKEND_CUDA;
    c.compute.route = route;
    c.n_ctx = 32;
    if (engine_open(FORKGATE_SOURCE_DIR "/fixtures/models/seedling-q8_0.gguf", &c, &e, &err) != STATUS_OK)
        die(&err);
    return e;
}

/* A refused step leaves no logits, and its session's end leaves no memory. 0 when nothing was refused. */
static int stepped(engine *e, const char *kind, int n) {
    struct err err = {""};
    session *s;
    char list[64];
    struct backend *b = engine_backend(e);
    size_t before = used(b);
    if (session_create(e, &s, &err) != STATUS_OK) die(&err);
    tell(kind, n, list);
    enum status status = steps(s, &err);
    struct err ignored;
    (void)fault_set(NULL, &ignored);
    const float *logits = session_logits(s);
    session_close(s);
    if (status == STATUS_OK) return 0;
    judge("steps", list, before, used(b), logits, &err);
    return 1;
}

static void session_steps(enum route route) {
    static const char *const named[] = {"launch:gemv_f16",      "launch:top2_merge", "launch:fa_merge_act",
                                        "attr:fa_decode_f16kv", "launch:mmvq_q8_0",  "launch:rope_kv_append"};
    engine *e = engine_on(route);
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++) (void)stepped(e, named[i], 0);
    for (int kind = 1; kind < 3; kind++) { /* a step allocates nothing */
        int n = 1;
        while (stepped(e, counted[kind], n)) n++;
    }
    if (stepped(e, "alloc", 1)) bad++, printf("refusals: a step allocates\n");
    engine_close(e);
}

int main(void) {
    float *src = calloc((size_t)N * K, sizeof *src); /* as many bytes as the widest type needs */
    if (src == NULL) return 2;
    uploads(ROUTE_F16, src);
    uploads(ROUTE_Q8, src);
    free(src);
    opens();
    session_steps(ROUTE_F16);
    session_steps(ROUTE_Q8);
    printf("refusals: %d refused, %d of them kept something\n", refused, bad);
    if (refused == 0) return 2;
    return bad != 0;
}
