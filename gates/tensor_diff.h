/* tensor_diff.h - two tensors in (.fgt: what a kernel left, here or in another engine), one verdict out.
 * Not a tolerance: without a control, other bits are DIFFERENT, however small the difference.
 * Idea: what may not differ first (shape, dtype, what the tensor is), then the census, then the bits, then how far apart; how
 * much is legal is measured on other tensors, never on the pair under judgement.
 * Source: DESIGN of forkgate, section 5; field case A04. Exercise: ctest -R unit.tensor_diff ; ctest -R cli.tensors */
#ifndef FORKGATE_TENSOR_DIFF_H
#define FORKGATE_TENSOR_DIFF_H

#include "gates/metrics.h"
#include "gates/tensor_dump.h"
#include "gates/ulp.h"

enum tensor_verdict {
    TENSOR_IDENTICAL,      /* every stored bit is */
    TENSOR_WITHIN_CONTROL, /* no further apart than the control's legal regroupings are from A */
    TENSOR_DIFFERENT,
    TENSOR_INVALID,       /* NaN or infinities on a side: two that agree prove nothing */
    TENSOR_NOT_COMPARABLE /* another shape, dtype, op, layer, position, input, model or prompt */
};

struct tensor_point {
    uint64_t at; /* element; UINT64_MAX: none */
    float a, b;
    uint32_t ulps; /* steps of the tensors' dtype; UINT32_MAX with a NaN */
};

/* The distance of two tensors of one shape. What is not finite on a side is counted as differing, not measured. */
struct tensor_distance {
    uint64_t n, differing; /* elements; those whose bits differ (NaN is one class) */
    struct census census[2];
    struct tensor_point first, worst; /* worst: of max_abs */
    double max_a;                     /* max |a| */
    double max_abs, rms;              /* max |b - a|; sqrt(mean (b - a)^2) */
    double max_scaled, rms_scaled;    /* the same / max |a|; infinite where max |a| is 0 */
    double nmse;                      /* sum (b - a)^2 / sum a^2 */
    uint32_t max_ulps;
    struct ulp_hist ulps;
};

struct tensor_control {
    int asked, used, left_out;
    double max_abs, rms; /* the largest distance from A among those used */
    char source[400];    /* the folder, how many, and why those that were left out were */
};

struct tensor_diff {
    enum tensor_verdict verdict;
    int measured; /* distance is known: shapes and dtypes are one */
    struct tensor_distance distance;
    struct tensor_control control;
    char reason[512]; /* one sentence: why this verdict; printable ASCII */
};

/* Judges b against a. control: a folder of tensors (*.fgt) of legal regroupings of A, or NULL. One counts when it is what A is
 * (shape, dtype, every key that must match), of A's build, under a launch that is neither A's nor B's, and does not hold B's
 * own bits. WITHIN-CONTROL takes max-abs at most the largest among those and rms at most twice the largest. Where nothing that A and B say of
 * themselves differs no control excuses other bits: that is a result that cannot be repeated.
 * STATUS_IO: the folder is not there; STATUS_FORMAT, STATUS_INVALID: a tensor in it is damaged, or holds NaN. */
enum status tensor_diff(const tensor_dump *a, const tensor_dump *b, const char *control,
                        struct tensor_diff *out, struct err *err);

/* The pieces, for tensor_control.c and for tests. */
void tensor_distance(const tensor_dump *a, const tensor_dump *b, struct tensor_distance *out);
int tensor_same_shape(const tensor_dump *a, const tensor_dump *b); /* and dtype */
/* Keys that say what a tensor is: op, tensor, layer, step, pos, model(.xxh3), prompt(.xxh3), tokens.xxh3, input*. */
int tensor_key_identity(const char *key);
/* Keys that say how it was launched: neither what it is nor who built it. */
int tensor_key_launch(const char *key);
/* The same launch, as far as it bears on bits: of the geometry fa_tkv and fa_chunk where both sides name them (the rest may not),
 * else every launch key. */
int tensor_same_launch(const struct provenance *p, const struct provenance *q);
enum status tensor_control_for(const char *dir, const tensor_dump *a, const tensor_dump *b,
                               struct tensor_control *out, struct err *err);

/* "[2, 17]", slowest dimension first (C order); at least 64 bytes. "f32 [4, 64]": at least 96. */
void tensor_index_text(const tensor_dump *t, uint64_t at, char *out, size_t room);
void tensor_shape_text(const tensor_dump *t, char *out, size_t room);

/* "" or what a difference in this key means. */
const char *tensor_key_note(const char *key, const char *x, const char *y);

const char *tensor_verdict_name(enum tensor_verdict v);
int tensor_exit_code(enum tensor_verdict v); /* 0 IDENTICAL; 2 INVALID, NOT-COMPARABLE; else 1 */

#endif
