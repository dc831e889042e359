/* import_blanks.h - does the text of an answer hold blanks that none of its tokens holds?
 * Not a comparison of texts: stop words, special tokens and half characters make those differ for good reasons.
 * Idea: a decoder of SentencePiece drops the blank that a token begins with when it decodes that token alone. Text and tokens are
 * then the same but for blanks; both are summed up without them, in memory that does not grow, and the blanks are counted.
 * Source: ours. Exercise: ctest -R unit.import_engines */
#ifndef FORKGATE_IMPORT_BLANKS_H
#define FORKGATE_IMPORT_BLANKS_H

#include <stddef.h>
#include <stdint.h>

struct import_blanks {
    uint64_t sum, others; /* FNV-1a of the bytes that are no blanks, and how many */
    uint64_t blanks;      /* behind the first of them: servers differ about those before it */
};

void import_blanks_add(struct import_blanks *b, const void *bytes, size_t n);

/* How many blanks the tokens lack; 0 also where they differ from the text in more than blanks. */
uint64_t import_blanks_lost(const struct import_blanks *text, const struct import_blanks *tokens);

#endif
