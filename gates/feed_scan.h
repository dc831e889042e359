/* feed_scan.h - one JSON document of any size: its skeleton as text for jansson, its long token arrays as places to read.
 * Not a validator: it finds where values end; every piece that is kept is then parsed by jansson, strictly.
 * Idea: the arrays that hold one element per token are left out of the skeleton (an empty array stands there) and walked
 * element by element, so memory does not grow with the document.
 * Source: RFC 8259. Exercise: ctest -R unit.import_json ; fuzz_import */
#ifndef FORKGATE_FEED_SCAN_H
#define FORKGATE_FEED_SCAN_H

#include "gates/feed.h"

#define FEED_DEPTH_MAX    64
#define FEED_SKELETON_MAX (4u << 20) /* bytes of a document without its token arrays and long texts */
#define FEED_ELEMENT_MAX  (1u << 20) /* bytes of one element: a token and its candidates */
#define FEED_STRING_KEPT                                                                                     \
    (64u << 10)             /* a longer string is left out (an empty one stands there): texts, prompts */
#define FEED_SLOTS_MAX 1024 /* token arrays of one document */

/* The arrays that are walked: what holds one element per token in the answers of the servers. */
enum feed_array {
    FEED_COMPLETION_PROBABILITIES, /* llama.cpp: .completion_probabilities */
    FEED_TOKENS_NATIVE,            /* llama.cpp: .tokens */
    FEED_CONTENT,                  /* .choices[i].logprobs.content */
    FEED_TOKENS,                   /* .choices[i].logprobs.tokens, and the three beside it */
    FEED_TOKEN_LOGPROBS,
    FEED_TOP_LOGPROBS,
    FEED_TEXT_OFFSET,
    FEED_TOKEN_IDS, /* .choices[i].token_ids (vLLM) */
    FEED_ARRAYS
};

struct feed_slot {
    enum feed_array array;
    int choice; /* place in .choices; -1 for llama.cpp's own */
    struct feed_place from;
    uint64_t to; /* of the array, from its '[' to behind its ']' */
};

struct feed_text {
    char *bytes;
    size_t n, room;
};

/* Where the text from `at` on lies in the file. */
struct feed_cut {
    size_t at;
    struct feed_place place;
};

struct feed_doc {
    struct feed_text text; /* the skeleton */
    struct feed_slot slots[FEED_SLOTS_MAX];
    int n_slots;
    struct feed_cut *cuts;
    int n_cuts, room_cuts;
    struct feed_place start;
    uint64_t end;
};

void feed_doc_free(struct feed_doc *d);

/* Takes the object at c (on its '{') into d, replacing what d held. STATUS_FORMAT with line and byte: the file ends
 * inside it, it nests deeper than FEED_DEPTH_MAX, a piece is beyond its limit, a control byte stands in a string. */
enum status feed_scan(struct feed_cursor *c, struct feed_doc *d, struct err *err);

/* Takes any one value at c behind what `to` holds, whole, at most up to limit bytes. Errors as feed_scan's. */
enum status feed_take(struct feed_cursor *c, struct feed_text *to, size_t limit, struct err *err);

#endif
