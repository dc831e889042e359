/* again.c - see again.h. */
#include "gates/model/again.h"

#include <stdio.h>
#include <string.h>

void again_add(struct hash128 *chain, const float *values, size_t n) {
    const struct hash128 link[2] = {*chain, hash_logits(values, n)};
    *chain = hash_bytes(link, sizeof link);
}

void again_row(const struct stream_arm *a, const char *test_case, const struct hash128 *first,
               const struct hash128 *second) {
    static const struct hash128 empty;
    struct evidence row;
    int same = hash_equal(first, second), made = !hash_equal(first, &empty) && !hash_equal(second, &empty);
    memset(&row, 0, sizeof row);
    (void)snprintf(row.test_case, sizeof row.test_case, "%s", test_case);
    (void)snprintf(row.arm, sizeof row.arm, "a/a");
    (void)snprintf(row.metric, sizeof row.metric, "differ");
    (void)snprintf(row.grade, sizeof row.grade, "measured");
    (void)snprintf(row.repro, sizeof row.repro, "forkgate run --only %s", a->gate);
    streams_note_kernels(a->engine, row.kernels, sizeof row.kernels);
    row.value = same && made ? 0 : 1;
    row.verdict = same && made ? VERDICT_PASS : VERDICT_INCONCLUSIVE;
    hash_format(first, row.ref);
    hash_format(second, row.got);
    (void)snprintf(row.note, sizeof row.note, "%s",
                   !made  ? "nothing was computed"
                   : same ? "the same bits a second time"
                          : "not reproducible on one build: what the other arms say is of one run only");
    a->ctx->emit(a->ctx->sink, &row);
}
