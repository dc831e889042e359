/* pending.c - see pending.h: which calls wait for which partner. */
#include "pending.h"

#include "check.h"

enum status cuda_settle(struct cuda_context *c, struct err *err) {
    struct pending *p = &c->pending;
    enum pending_kind kind = p->kind;
    enum status late = p->late;
    p->kind = PENDING_NONE; /* first: the launches below come back here */
    p->late = STATUS_OK;
    if (late != STATUS_OK) return err_set(err, late, "%s", p->late_err.message);
    switch (kind) {
    case PENDING_NONE:
        break;
    case PENDING_ADD:
        return add_launch(c, &p->norm, err);
    case PENDING_NORM:
        if (p->norm.t != NULL) RETURN_IF_ERROR(add_launch(c, &p->norm, err));
        return norm_launch(c, &p->norm, err);
    case PENDING_SWIGLU:
        return swiglu_launch(c, &p->swiglu, err);
    case PENDING_ROPE:
        return rope_launch(c, &p->rope, err);
    case PENDING_MERGE:
        return merge_launch(c, &p->merge, err);
    }
    return STATUS_OK;
}

void cuda_settle_quietly(struct cuda_context *c) {
    struct err err;
    enum status s = cuda_settle(c, &err);
    if (s == STATUS_OK) return;
    c->pending.late = s;
    c->pending.late_err = err;
}

static enum status prepared(struct cuda_context *c, enum pending_kind kind, const float *x, int64_t rows,
                            int64_t k, const struct act *out, int *done, struct err *err) {
    struct pending *p = &c->pending;
    if (kind == PENDING_NORM && p->norm.y == x && p->norm.rows == rows && p->norm.cols == k)
        return fused_norm_act(c, &p->norm, out, done, err);
    if (kind == PENDING_SWIGLU && p->swiglu.y == x && p->swiglu.n == rows * k)
        return fused_swiglu_act(c, &p->swiglu, out, done, err);
    if (kind == PENDING_MERGE && p->merge.o == x && p->merge.n_rows == rows &&
        (int64_t)p->merge.n_head * c->kv.head_dim == k)
        return fused_merge_act(c, &p->merge, out, done, err);
    return STATUS_OK;
}

enum status cuda_settle_prepared(struct cuda_context *c, enum act_kind kind, const float *x, int64_t rows,
                                 int64_t k, const struct act *out, int *done, struct err *err) {
    enum pending_kind waiting = c->pending.kind;
    *done = 0;
    if (kind == ACT_F32 || waiting == PENDING_NONE) return STATUS_OK;
    c->pending.kind = PENDING_NONE; /* as in cuda_settle */
    RETURN_IF_ERROR(prepared(c, waiting, x, rows, k, out, done, err));
    if (!*done) c->pending.kind = waiting;
    return STATUS_OK;
}
