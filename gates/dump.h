/* dump.h - .fgd: one generated stream, with everything a fork report needs. Format version 1.
 * Not a log: a dump is complete and verified or it is refused; it is never half-read.
 * Idea: fixed-size records at a fixed stride, so that two dumps of ten million tokens compare at memory speed, and one
 * XXH3-128 per block, so that damage is reported as the first bad block's offset and record range.
 * Source: ours. Exercise: ctest -R unit.dump ; fuzz_dump
 *
 * Layout (little-endian):
 *   0    magic "FGDUMP1\n", u32 version 1, u32 stride (bytes a record), u32 n_top_k, u32 n_logits (0 or n_vocab),
 *        u64 header_bytes (provenance text), u64 count, u64 text_bytes, u64 records_offset, u64 0;
 *        at 64 the provenance text, then zero padding to a multiple of 1024: records_offset. Equal dumps are equal bytes
 *   ..   records, stride bytes each: struct dump_record, then n_top_k x (i32 id, f32 logit), then n_logits x f32,
 *        zero padding to a multiple of 8
 *   ..   token bytes, concatenated
 *   ..   block table: one hash128 per block of DUMP_BLOCK bytes: the header (one block, any size), the records (each
 *        block a whole number of DUMP_BLOCK bytes from the first record on), the token bytes
 *   ..   struct dump_footer (fixed size, last bytes of the file), itself hashed */
#ifndef FORKGATE_DUMP_H
#define FORKGATE_DUMP_H

#include <stdint.h>

#include "gates/hash.h"
#include "gates/provenance.h"

#define DUMP_BLOCK      65536
#define DUMP_MAGIC_WORD "FGDUMP" /* how every version begins */

enum dump_flag {
    DUMP_NO_ID = 1u << 0,   /* token id unknown (imported text); token == -1 */
    DUMP_NO_TOP1 = 1u << 1, /* top-1 logit unknown */
    DUMP_NO_TOP2 = 1u << 2, /* top-2 unknown, or it does not exist (id2 == -1) */
    DUMP_NO_LSE = 1u << 3,
    DUMP_NO_HASH = 1u << 4, /* row hash unknown */
    DUMP_LOGPROBS =
        1u << 5, /* "logits" are logprobs: gaps mean something, ULPs do not unless logits= says a dtype */
    DUMP_END = 1u << 6 /* this token ends the stream (EOS) */
};

struct dump_record { /* 64 bytes, no padding */
    uint32_t step;   /* 0, 1, 2, .. */
    int32_t token;   /* the token emitted (or forced) at this step */
    int32_t id1;     /* raw top-1, before any penalty */
    float logit1;
    int32_t id2; /* raw top-2 */
    float logit2;
    double logsumexp;     /* natural log, over the real vocabulary */
    uint32_t flags;       /* enum dump_flag */
    uint32_t text_bytes;  /* length of this token's bytes */
    uint64_t text_offset; /* into the token-bytes section: the running sum of text_bytes */
    struct hash128 row;   /* hash_logits of the row the token was chosen from */
};

struct dump_top {
    int32_t id;
    float logit;
};

/* The two results of a stream. */
struct dump_results {
    struct hash128 stream; /* over (i32 id, u32 text_bytes, bytes) of every record: what was said */
    struct hash128 logits; /* chain over the row hashes: on which rails */
};

/* ---- reading ---- */
typedef struct dump dump;

/* Maps, verifies every block, every record (steps, offsets, flags) and that the two results follow from the records, and
 * keeps the map. STATUS_FORMAT names the file, the first bad block's byte offset and its record range. A dump holding NaN, Inf or an id outside n_vocab opens: it is
 * the comparison that calls it INVALID (dump_first_invalid). */
enum status dump_open(const char *path, dump **out, struct err *err);
/* The same over bytes in memory (fuzzing, tests); name is used in messages. The caller keeps the bytes. */
enum status dump_open_memory(const void *bytes, size_t n, const char *name, dump **out, struct err *err);
void dump_close(dump *d);

const char *dump_name(const dump *d);
uint64_t dump_count(const dump *d);
const struct dump_record *dump_record_at(const dump *d, uint64_t i);
uint64_t dump_stride(const dump *d); /* bytes from one record to the next, for loops over millions */
const struct dump_top *dump_top_k(const dump *d, uint64_t i, int *k); /* NULL when absent */
const float *dump_logits(const dump *d, uint64_t i, int *n_vocab);    /* NULL when absent */
const uint8_t *dump_text(const dump *d, uint64_t i, uint32_t *n);
const struct provenance *dump_provenance(const dump *d);
struct dump_results dump_results(const dump *d);
struct hash128 dump_content_hash(const dump *d);  /* of the whole file's bytes: its name in golden/ */
const void *dump_bytes(const dump *d, size_t *n); /* the whole file */

/* 1 when the block hashes prove that the records from `from` on, up to *end (> from, at most `to`), are equal in both dumps
 * byte for byte; the token bytes are not part of a record. */
int dump_records_equal(const dump *a, const dump *b, uint64_t from, uint64_t to, uint64_t *end);
int dump_texts_equal(const dump *a, const dump *b); /* the same for all token bytes */

/* First record that cannot be judged: NaN/+Inf among its logits (top-2, top-k, stored row), id outside the vocabulary,
 * top-k or row above the recorded top-2, a stored row that is not of its hash, overflows > 0 in provenance.
 * Returns the index and the reason, or UINT64_MAX when none. */
uint64_t dump_first_invalid(const dump *d, const char **reason);

/* The flags of all records together: one that is not here is on no record. */
uint32_t dump_flags(const dump *d);

/* First record flagged DUMP_END, first one flagged DUMP_NO_ID; UINT64_MAX when none. */
uint64_t dump_first_end(const dump *d);
uint64_t dump_first_without_id(const dump *d);

/* First record that starts in a later block than record i does. */
uint64_t dump_block_end(const dump *d, uint64_t i);

/* ---- writing ---- */
typedef struct dump_writer dump_writer;

/* path NULL builds the dump in memory. Otherwise records stream to a temporary file beside path; finish syncs and renames,
 * abandon removes it. n_top_k <= 64. */
enum status dump_writer_open(const char *path, const struct provenance *p, int n_top_k, int n_logits,
                             dump_writer **out, struct err *err);
/* step, text_offset and text_bytes of *r are filled in. top: [n_top_k]; logits: [n_logits]. */
enum status dump_writer_add(dump_writer *w, const struct dump_record *r, const uint8_t *text,
                            uint32_t text_bytes, const struct dump_top *top, const float *logits,
                            struct err *err);
/* Provenance learnt at the end (stop, overflows) goes in before the header is written last: pass the final one. The
 * finished dump is returned when out != NULL (read back and verified before it is renamed). The writer is gone afterwards,
 * also on failure; then the temporary file is removed and whatever stood at path is untouched, but for a folder that
 * cannot be synced (file_out_publish). */
enum status dump_writer_finish(dump_writer *w, const struct provenance *final, dump **out, struct err *err);
void dump_writer_abandon(dump_writer *w);

#endif
