/* import.h - a table of generated tokens from anywhere becomes a .fgd dump that the comparisons can judge.
 * Not a guess: a cell that does not fit is an error with its record and line; an empty cell is "unknown", and stays so.
 * Idea: the columns are those `forkgate inspect` prints, so export and import are inverse.
 * Source: ours. Exercise: ctest -R unit.import ; fuzz_csv */
#ifndef FORKGATE_IMPORT_H
#define FORKGATE_IMPORT_H

#include "gates/dump.h"
#include "gates/table.h"

/* Columns, in any order; step and one of token_id, token_bytes_hex, token_text_escaped, token_text are required:
 *   step                0, 1, 2, .. without a gap
 *   token_id            a whole number (a negative one makes the stream INVALID); empty: unknown
 *   token_bytes_hex     the token's bytes; token_text_escaped: with \xNN \n \r \t \\; token_text: as they are.
 *                       Two text columns that disagree are refused
 *   id1 logit1          raw top-1, before penalties; id2 logit2: raw top-2, another token with no larger logit
 *   unit                logit (default) or logprob
 *   logsumexp           natural log, over the vocabulary
 *   end                 1: this token ends the stream; 0 or empty: it does not
 *   row_hash            32 hex digits: XXH3-128 of the row of logits
 *   top_k               "id:logit id:logit ..", the same number in every row
 *   logits              the whole row, blank-separated, the same number in every row
 * Another column is refused by name. Lines "# key=value" before the header (values escaped as text cells are) become
 * provenance beside extra, and import=csv says where the dump came from; a key twice is refused, unless extra repeats the
 * file's own value. NaN and infinite values are refused, unless keep_nan is set: they make the stream INVALID.
 * out: path of the dump, or NULL; *d (may be NULL): the finished dump. */
enum status import_csv(const table *t, const struct provenance *extra, int keep_nan, const char *out,
                       dump **d, struct err *err);

/* Adds extra to p. STATUS_USAGE when both have a key with two values. */
enum status import_add_provenance(struct provenance *p, const struct provenance *extra, struct err *err);

#endif
