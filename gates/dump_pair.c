/* dump_pair.c - two dumps of one stream on different rails: both checked and compared in one look at each record.
 * Not the judge of anything odd: a range with a flag, a bad value, another token or candidate is left to dump_verify.c.
 * Idea: what B shares with A needs no check of its own; no branch inside, so that the loop keeps up with the hash.
 * Source: ours. Exercise: ctest -R unit.diff ; bench_diff */
#include "gates/dump_format.h"

#if defined(__x86_64__)
#include <immintrin.h>

/* A record is sixteen 32-bit lanes: step token id1 logit1 id2 logit2 logsumexp(2), then flags text_bytes text_offset(2) and
 * the hash of the row. */
enum { STEP, TOKEN, ID1, LOGIT1, ID2, LOGIT2, LSE_HIGH = 7, LANES };
#define F32_EXPONENT 0x7f800000u
#define F64_EXPONENT 0x7ff00000u /* in the high half */

struct pair {
    const uint8_t *a, *b;
    uint64_t n, stride, ahead; /* records; bytes from one to the next; bytes to what is fetched early */
    uint32_t step;             /* of the first record */
};

struct pair_facts {
    uint32_t largest[LANES]; /* of both sides: ids, and the exponents of logits and logsumexp */
    uint32_t differ[LANES];  /* bits that differ between A and B, first half of a record */
    uint32_t also[LANES];    /* the same, second half */
    uint32_t steps[LANES];   /* lane STEP: bits that differ from the record's place */
    uint32_t flags, disorder;
    uint64_t offsets, text; /* text offsets that are not the sum so far; the sum; in: the sum before */
    double change[2];       /* largest change of the first and of the second candidate's logit */
};

__attribute__((target("avx2"))) static void look(const struct pair *p, struct pair_facts *f) {
    const __m256i select = _mm256_setr_epi32(0, -1, -1, (int)F32_EXPONENT, -1, (int)F32_EXPONENT, 0,
                                             (int)F64_EXPONENT),
                  one = _mm256_set1_epi32(1);
    const __m128d sign = _mm_set1_pd(-0.0);
    __m256i largest = _mm256_setzero_si256(), differ = largest, also = largest, steps = largest,
            flags = largest, step = _mm256_set1_epi32((int)p->step);
    __m128 disorder = _mm_setzero_ps();
    __m128d change = _mm_setzero_pd();
    const uint8_t *x = p->a, *y = p->b;
    uint64_t text = f->text, offsets = 0;
    for (uint64_t i = 0; i < p->n; i++, x += p->stride, y += p->stride) {
        const void *at_x = x, *at_y = y;
        const struct dump_record *rx = at_x, *ry = at_y;
        const __m256i *lanes_x = at_x, *lanes_y = at_y;
        __m256i vx = _mm256_loadu_si256(lanes_x), vy = _mm256_loadu_si256(lanes_y);
        __m256i tail = _mm256_loadu_si256(lanes_x + 1);
        const void *next_x = x + p->ahead, *next_y = y + p->ahead;
        _mm_prefetch(next_x, _MM_HINT_T0);
        _mm_prefetch(next_y, _MM_HINT_T0);
        largest = _mm256_max_epu32(largest, _mm256_and_si256(vx, select));
        largest = _mm256_max_epu32(largest, _mm256_and_si256(vy, select));
        differ = _mm256_or_si256(differ, _mm256_xor_si256(vx, vy));
        also = _mm256_or_si256(also, _mm256_xor_si256(tail, _mm256_loadu_si256(lanes_y + 1)));
        flags = _mm256_or_si256(flags, tail);
        steps = _mm256_or_si256(steps, _mm256_xor_si256(vx, step));
        step = _mm256_add_epi32(step, one);
        /* logit1 id2 logit2 . of both sides, as logit1 logit2 logit1 logit2 */
        __m128 logits =
            _mm_shuffle_ps(_mm_loadu_ps(&rx->logit1), _mm_loadu_ps(&ry->logit1), _MM_SHUFFLE(2, 0, 2, 0));
        disorder = _mm_or_ps(disorder, _mm_cmplt_ps(logits, _mm_movehdup_ps(logits)));
        __m256d wide = _mm256_cvtps_pd(logits);
        __m128d by = _mm_sub_pd(_mm256_castpd256_pd128(wide), _mm256_extractf128_pd(wide, 1));
        change = _mm_max_pd(change, _mm_andnot_pd(sign, by));
        offsets |= rx->text_offset ^ text;
        text += rx->text_bytes;
    }
    uint32_t lanes[LANES];
    _mm256_storeu_si256((__m256i *)(void *)f->largest, largest);
    _mm256_storeu_si256((__m256i *)(void *)f->differ, differ);
    _mm256_storeu_si256((__m256i *)(void *)f->also, also);
    _mm256_storeu_si256((__m256i *)(void *)f->steps, steps);
    _mm256_storeu_si256((__m256i *)(void *)lanes, flags);
    _mm_storeu_pd(f->change, change);
    f->flags = lanes[0];
    f->disorder = (uint32_t)_mm_movemask_ps(disorder) & 5u; /* lanes 1 and 3 compare a logit with itself */
    f->offsets = offsets;
    f->text = text;
}

static int plain(const struct pair_facts *f, uint32_t n_vocab) {
    const uint32_t *differ = f->differ, *also = f->also, *most = f->largest;
    uint32_t ids = differ[STEP] | differ[TOKEN] | differ[ID1] | differ[ID2];
    uint32_t places = also[0] | also[1] | also[2] | also[3] | f->steps[STEP] | f->flags | f->disorder;
    return (ids | places) == 0 && f->offsets == 0 && most[TOKEN] < n_vocab && most[ID1] < n_vocab &&
           most[ID2] < n_vocab && most[LOGIT1] < F32_EXPONENT && most[LOGIT2] < F32_EXPONENT &&
           most[LSE_HIGH] < F64_EXPONENT;
}

int dump_verify_pair(dump *a, dump *b, uint64_t to, double *largest_change) {
    const uint64_t from = a->verified, stride = a->at.stride;
    if (from >= to || from != b->verified || to > a->hashed || to > b->hashed || a->text_sum != b->text_sum ||
        stride != b->at.stride || a->n_vocab != b->n_vocab ||
        (a->at.n_top_k | b->at.n_top_k | a->at.n_logits | b->at.n_logits) != 0 ||
        !__builtin_cpu_supports("avx2"))
        return 0;
    uint64_t at_a = a->at.records_offset + from * stride, at_b = b->at.records_offset + from * stride;
    struct pair p = {a->bytes + at_a, b->bytes + at_b, to - from, stride, DUMP_BLOCK, (uint32_t)from};
    uint64_t end_a = at_a + p.n * stride + DUMP_BLOCK, end_b = at_b + p.n * stride + DUMP_BLOCK;
    if (end_a > a->size || end_b > b->size) p.ahead = 0;
    struct pair_facts f;
    f.text = a->text_sum;
    look(&p, &f);
    if (!plain(&f, a->n_vocab)) return 0;
    a->verified = b->verified = to;
    a->text_sum = b->text_sum = f.text;
    *largest_change = f.change[0] > f.change[1] ? f.change[0] : f.change[1];
    return 1;
}
#else
int dump_verify_pair(dump *a, dump *b, uint64_t to, double *largest_change) {
    (void)a, (void)b, (void)to, (void)largest_change;
    return 0;
}
#endif
