/* provenance.h - who made a result: ordered key=value text, unknown keys kept and compared.
 * Not a verdict: which differences matter is decided by the comparison that reads it.
 * Source: ours. Exercise: ctest -R unit.provenance
 *
 * Keys written by forkgate (others may appear and are kept):
 *   tool            forkgate 0.1.0                        commit, dirty     engine commit (12 hex digits), 0|1
 *   build           XXH3-128 of the program, where a commit does not name it (dirty 1, or commit unknown)
 *   faults          planted faults that were on (forkgate-faults only)
 *   backend route arch geometry kv logits chunk graphs threads simd batch
 *   device cc driver runtime compiler flags
 *   model model.bytes model.xxh3 n_vocab                  prompt (name) prompt.xxh3 (of its bytes) prompt.tokens
 *   sampler         greedy | temp=0.8,seed=7              repeat_penalty    1 when none
 *   tie_rule        lowest-id                             ignore_eos        0|1
 *   n_requested     budget                                stop              eos | length | context
 *   follow          stream hash of the dump whose tokens were forced (replay only)
 *   overflows       f16 overflows and unquantisable blocks met (0 when clean) */
#ifndef FORKGATE_PROVENANCE_H
#define FORKGATE_PROVENANCE_H

#include <stddef.h>

#include "engine/status.h"

struct provenance_item {
    char *key, *value;
};
struct provenance {
    struct provenance_item *items; /* insertion order */
    int n, room;
};

void provenance_init(struct provenance *p);
void provenance_free(struct provenance *p);

/* Sets or replaces. Keys: [a-z0-9_.]+; values: C strings of any bytes; newline and backslash are stored as \n and \\. */
enum status provenance_set(struct provenance *p, const char *key, const char *value, struct err *err);
enum status provenance_setf(struct provenance *p, struct err *err, const char *key, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
const char *provenance_get(const struct provenance *p, const char *key); /* NULL when absent */

/* 1 when one build with one set of options made both: the same commit, compiler, device and everything that is an option but
 * threads and SIMD (the machine's own); of a dirty tree, or of one without git (commit unknown), the same program too. */
int provenance_one_build(const struct provenance *a, const struct provenance *b);

/* "key=value\n" lines. parse refuses lines without '=', empty or bad keys, duplicates. format: malloc'ed text. */
enum status provenance_parse(const char *text, size_t length, struct provenance *out, struct err *err);
enum status provenance_format(const struct provenance *p, char **text, size_t *length, struct err *err);

#endif
