/* dump_format.h - the bytes of a .fgd file, shared by reader and writer only.
 * Not an interface: everybody else reads dumps through dump.h.
 * Idea: every size is derived in one place (dump_layout_of), with each field bounded before it is multiplied.
 * Source: ours; the layout is described in dump.h. Exercise: ctest -R unit.dump */
#ifndef FORKGATE_DUMP_FORMAT_H
#define FORKGATE_DUMP_FORMAT_H

#include <assert.h>

#include "gates/dump.h"
#include "gates/file_map.h"

#define DUMP_MAGIC       DUMP_MAGIC_WORD "1\n"
#define DUMP_FOOTER_MARK "FGDEND1\n"
#define DUMP_MARK_BYTES  8
#define DUMP_VERSION     1u
#define DUMP_HEADER_UNIT 1024u /* header and provenance are padded to this */
#define DUMP_TOP_K_MAX   64u
#define DUMP_LOGITS_MAX  (1u << 24) /* largest vocabulary; keeps stride below 2^27 */
#define DUMP_HEADER_MAX  (1u << 20) /* provenance text; real ones are below 2 KiB */
#define DUMP_TEXT_MAX    ((uint64_t)1 << 48)
#define DUMP_FLAGS_KNOWN 0x7fu

struct dump_header { /* 64 bytes at offset 0 */
    char magic[DUMP_MARK_BYTES];
    uint32_t version, stride, n_top_k, n_logits;
    uint64_t header_bytes, count, text_bytes, records_offset, zero;
};

struct dump_footer { /* the last 96 bytes */
    char mark[DUMP_MARK_BYTES];
    uint64_t count, text_bytes, n_blocks;
    struct hash128 table;          /* of the block table */
    struct hash128 stream, logits; /* struct dump_results */
    struct hash128 self;           /* of the 80 bytes before it */
};

static_assert(sizeof(struct dump_record) == 64, "a record has no padding");
static_assert(sizeof(struct dump_header) == 64, "the header has no padding");
static_assert(sizeof(struct dump_footer) == 96, "the footer has no padding");

/* Where everything lies; a pure function of a checked header. */
struct dump_layout {
    uint64_t stride, n_top_k, n_logits, count;
    uint64_t header_bytes, text_bytes;
    uint64_t records_offset, text_offset, table_offset, footer_offset, file_bytes;
    uint64_t record_blocks, text_blocks, n_blocks; /* n_blocks = 1 + record_blocks + text_blocks */
};

uint32_t dump_stride_of(uint32_t n_top_k, uint32_t n_logits);
uint64_t dump_records_offset(uint64_t header_bytes); /* where the records start after that much provenance */

/* STATUS_FORMAT names the first field that is out of its range. */
enum status dump_layout_of(const struct dump_header *h, struct dump_layout *out, struct err *err);

/* An open dump. */
struct dump {
    struct file_map file;
    const char *name;     /* of file, as are these */
    const uint8_t *bytes; /* [size] */
    size_t size;
    struct dump_layout at;
    struct provenance provenance;
    struct dump_results results;
    uint32_t n_vocab; /* ids at or above are invalid; 2^31 when the provenance does not say */
    uint64_t invalid; /* first record that cannot be judged, UINT64_MAX when none */
    const char *invalid_reason;
    uint32_t flags;            /* of all records verified so far together */
    uint64_t first_end;        /* first record flagged DUMP_END, UINT64_MAX when none */
    uint64_t first_without_id; /* the same for DUMP_NO_ID */
    uint64_t hashed;           /* records whose bytes are proven by their block hashes */
    uint64_t verified;         /* records verified so far */
    uint64_t text_sum;         /* token bytes they claim */
};

struct hash128 dump_footer_self(const struct dump_footer *f);

/* Says where a file stops making sense (dump_damage.c). Each returns STATUS_FORMAT with one sentence. */
enum status dump_damage_no_footer(const uint8_t *bytes, size_t n, struct err *err);
enum status dump_damage_block(const uint8_t *bytes, const struct dump_layout *l, uint64_t block,
                              struct err *err);

/* Verification in steps (dump_verify.c), so that a comparison can look at records while they are in cache: the frame
 * (header, footer, block table, provenance); then each record block in order: its hash, and the places, flags and values of
 * its records in ranges of any size; then the token bytes. */
enum status dump_verify_frame(dump *d, struct err *err);
enum status dump_verify_block(dump *d, uint64_t block, struct err *err); /* block < at.record_blocks */
enum status dump_verify_places(dump *d, uint64_t to,
                               struct err *err); /* up to `to`, at most what is hashed */
/* 1 when block holds the same bytes in both and both stand at its first record: checking one will do. */
int dump_verify_alike(const dump *a, const dump *b, uint64_t block);
/* Takes over what was checked in `like`; 0 (nothing done) when something there needs a look of its own. */
int dump_verify_adopt(dump *d, const dump *like);
/* Both at once (dump_pair.c): the hashed records [verified, to) of a and b. 1: all are in place and can be judged, none has a
 * flag, and b repeats a's tokens and candidates; *largest_change is the largest |logit of a - logit of b| of a candidate.
 * 0: something is otherwise, or this machine or these dumps are not made for it: nothing was done. */
int dump_verify_pair(dump *a, dump *b, uint64_t to, double *largest_change);
enum status dump_verify_text(dump *d, struct err *err);
/* After all of these: do the two results in the footer follow from the records? (dump_results.c) A pass of its own, about as
 * long as the others together. */
enum status dump_verify_results(const dump *d, struct err *err);

/* Maps path and verifies its frame only; dump_open is this and the other steps. */
enum status dump_open_frame(const char *path, dump **out, struct err *err);

/* As dump_open, and the dump is called name, in messages too: a file that is about to be renamed. */
enum status dump_open_as(const char *path, const char *name, dump **out, struct err *err);

/* As dump_open_memory, and the dump frees bytes (malloc'ed) when it closes; also when opening fails. */
enum status dump_open_owned(uint8_t *bytes, size_t n, const char *name, dump **out, struct err *err);

#endif
