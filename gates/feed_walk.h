/* feed_walk.h - pieces of a scanned document as jansson values, with the place in the file where they stand.
 * Not a data model: the importer knows the keys.
 * Idea: jansson counts from the start of the piece it was given; the piece knows where that is in the file.
 * Source: jansson 2.14, strict (duplicate keys are refused). Exercise: ctest -R unit.import_json ; fuzz_import */
#ifndef FORKGATE_FEED_WALK_H
#define FORKGATE_FEED_WALK_H

#include <jansson.h>

#include "gates/feed_scan.h"

/* The skeleton as a value (json_decref it); duplicate keys, NaN and all else that is no JSON are refused where they stand. */
enum status feed_doc_parse(const struct feed_doc *d, const struct feed_source *s, json_t **out,
                           struct err *err);

/* The elements of one token array, one at a time. */
struct feed_walk {
    struct feed_cursor c;
    struct feed_text text;
    int started, over;
    struct feed_place place; /* of the last element */
};

/* host: the cursor that scanned the document, not moved since. */
void feed_walk_open(struct feed_walk *w, const struct feed_cursor *host, const struct feed_slot *slot);
void feed_walk_close(struct feed_walk *w);
/* *out: the next element (json_decref it), or NULL behind the last. */
enum status feed_walk_next(struct feed_walk *w, json_t **out, struct err *err);

#endif
