/* stub_backend.h - a backend that only remembers: host memory, vectors dequantised, matrices by pointer; it counts what
 * is alive so that a test can prove that model_free gives everything back. No ops.
 * Source: ours. Exercise: ctest -R unit.model */
#ifndef FORKGATE_STUB_BACKEND_H
#define FORKGATE_STUB_BACKEND_H

#include <stdlib.h>
#include <string.h>

#include "engine/backend.h"

struct stub {
    struct backend backend;
    int alive;   /* allocations and weights not yet freed */
    int uploads; /* weight_upload calls so far */
    int fail_at; /* the call (1, 2, ..) that is refused; 0: none */
};

static enum status stub_alloc(struct backend *self, size_t bytes, void **out, struct err *err) {
    *out = malloc(bytes);
    if (*out == NULL) return err_set(err, STATUS_NOMEM, "stub is out of memory");
    ((struct stub *)self->impl)->alive++;
    return STATUS_OK;
}

static void stub_free(struct backend *self, void *p) {
    if (p == NULL) return;
    ((struct stub *)self->impl)->alive--;
    free(p);
}

static enum status stub_copy_in(struct backend *self, void *dst, const void *host, size_t bytes,
                                struct err *err) {
    (void)self;
    (void)err;
    memcpy(dst, host, bytes);
    return STATUS_OK;
}

static enum status stub_upload(struct backend *self, enum weight_use use, enum dtype dtype, const void *src,
                               int64_t n, int64_t k, struct weight *out, struct err *err) {
    struct stub *stub = self->impl;
    if (++stub->uploads == stub->fail_at) return err_set(err, STATUS_UNSUPPORTED, "stub refuses");
    memset(out, 0, sizeof *out);
    out->dtype = dtype;
    out->n = n;
    out->k = k;
    size_t bytes = use == WEIGHT_VECTOR ? (size_t)k * sizeof(float) : 16;
    float *data = malloc(bytes);
    if (data == NULL) return err_set(err, STATUS_NOMEM, "stub is out of memory");
    if (use == WEIGHT_VECTOR) dtype_dequantise(dtype, src, data, (size_t)k);
    out->data = data;
    stub->alive++;
    return STATUS_OK;
}

static void stub_weight_free(struct backend *self, struct weight *w) {
    stub_free(self, w->data);
    w->data = NULL;
}

static void stub_open(struct stub *stub) {
    memset(stub, 0, sizeof *stub);
    stub->backend.name = "stub";
    stub->backend.impl = stub;
    stub->backend.alloc = stub_alloc;
    stub->backend.free = stub_free;
    stub->backend.copy_in = stub_copy_in;
    stub->backend.weight_upload = stub_upload;
    stub->backend.weight_free = stub_weight_free;
}

#endif
