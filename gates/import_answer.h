/* import_answer.h - the token arrays of one scanned document, read into a sink.
 * Not the stream: import_json.c walks the documents and knows when it is over.
 * Idea: one reader per shape of array; parallel arrays are walked side by side.
 * Source: recorded answers (fixtures/peer/server). Exercise: ctest -R unit.import_json */
#ifndef FORKGATE_IMPORT_ANSWER_H
#define FORKGATE_IMPORT_ANSWER_H

#include "gates/feed_walk.h"
#include "gates/import_token.h"

#define IMPORT_NO_CHOICE (-2) /* none of the document's: its arrays are only walked */

/* Reads every token array of d that belongs to choice (its place in .choices; -1: llama.cpp's own) and walks the others to
 * their end. host: the cursor that scanned d. */
enum status import_answer(struct import_sink *sink, const struct feed_cursor *host, const struct feed_doc *d,
                          int choice, struct err *err);

/* 1 when d has an array of tokens with logprobs for choice. */
int import_answer_has(const struct feed_doc *d, int choice);

#endif
