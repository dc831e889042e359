/* diff_parts.h - the two halves of a stream comparison: the walk up to the fork, and the judgement at it.
 * Not an interface: callers use diff.h.
 * Source: ours. Exercise: ctest -R unit.diff */
#ifndef FORKGATE_DIFF_PARTS_H
#define FORKGATE_DIFF_PARTS_H

#include "gates/diff.h"

/* The walk: feeds a result record range by record range, so that it can follow a verification block by block. */
struct diff_walk {
    const dump *a, *b;
    int full_rows;  /* both sides store whole rows */
    int ignore_eos; /* both sides declared it: an end token does not end the comparison */
    uint64_t next;  /* first record not looked at */
    uint64_t
        text_from; /* first record without an id on a side: the rest is compared by bytes; UINT64_MAX: none */
    uint64_t common_end; /* both sides emit the same end token here; UINT64_MAX: not met */
    int done;
    int nothing; /* from text_from on neither ids nor bytes: nothing says what the streams are */
};

void diff_walk_begin(struct diff_walk *w, const dump *a, const dump *b, struct diff_result *r);
/* Records before end must be verified on both sides; end is capped to the shorter stream. */
void diff_walk_to(struct diff_walk *w, uint64_t end, struct diff_result *r);
/* The same, when dump_verify_pair vouched for the records from w->next to end: they are read only if they may change the
 * result. */
void diff_walk_plain_to(struct diff_walk *w, uint64_t end, double largest_change, struct diff_result *r);
/* Both dumps are verified as a whole: compares by bytes where ids are missing, notes texts, lengths and ends. */
void diff_walk_end(struct diff_walk *w, struct diff_result *r);

/* Raw logit of id at record i, from top-2, top-k or the full row. 0 when the record does not hold it. */
int diff_logit_of(const dump *d, uint64_t i, int32_t id, float *logit);

enum diff_known { DIFF_UNKNOWN, DIFF_EXACT, DIFF_AT_LEAST };

/* |change| in nats of an id's logit, `logit` on the other side, at record i of d: exact where d holds the id; at least that
 * much where the id's logit lies above all that d did not record (its top two are its highest). */
enum diff_known diff_change_of(const dump *d, uint64_t i, int32_t id, float logit, double *change);

/* Spacing of the dtype named by the dump's `logits` key at magnitude |x|; -1 when the dump does not name one. */
double diff_ulp(const dump *d, double x);

/* What the tensors or streams of a control must share with each other and with the base under judgement: only the geometry may
 * differ, or a broken build would measure its own damage as noise. The first key that differs, or NULL; keys that both lack
 * (another engine's) are equal. */
const char *diff_other_build(const struct provenance *x, const struct provenance *y);
/* Does p name the fields of the geometry that carry bits, and are they the same on both sides? */
int diff_names_tile(const struct provenance *p);
int diff_same_tile(const struct provenance *x, const struct provenance *y);

/* Judges the fork r->fork: gaps, ULPs, verdict and reason. */
void diff_judge_fork(const dump *a, const dump *b, struct diff_result *r);

#endif
