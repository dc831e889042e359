/* fgd.h - read and write .fgd dumps from any engine: copy this file, fgd.c and xxhash.h (xxHash 0.8, BSD) into your tree.
 * Not forkgate's own reader: that one verifies while it compares; this one verifies, then hands out pointers.
 * Idea: one stream is a list of fixed-size records, the token bytes behind it, and a hash for every 64 KiB; a file is whole
 * or it is refused.
 * Source: the format is gates/dump.h of forkgate, version 1; this copy is MIT like the rest. Exercise: ctest -R vendor_dump
 *
 * A file, little-endian:
 *   0    magic "FGDUMP1\n", u32 version 1, u32 stride (bytes a record), u32 n_top_k, u32 n_logits (0 or the vocabulary),
 *        u64 provenance bytes, u64 records, u64 token bytes, u64 offset of the records, u64 0; at 64 the provenance
 *        ("key=value\n" lines), zero padding to a multiple of 1024
 *   ..   records, stride bytes each: struct fgd_record, n_top_k x (i32 id, f32 logit), n_logits x f32, padding to 8
 *   ..   token bytes, concatenated
 *   ..   block table: one XXH3-128 (canonical, big-endian) per block: the header; the records and the token bytes in blocks
 *        of 65536 bytes
 *   ..   footer, 96 bytes: "FGDEND1\n", u64 records, u64 token bytes, u64 blocks, then hashes of 16 bytes: of the block
 *        table; of the stream (i32 id, u32 length, bytes of every record); of the row hashes in order; of these 80 bytes */
#ifndef FGD_H
#define FGD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum fgd_flag {                    /* which fields are absent, and what they mean */
                FGD_NO_ID = 1,     /* token id unknown: streams are compared by bytes */
                FGD_NO_TOP1 = 2,   /* logit1 unknown */
                FGD_NO_TOP2 = 4,   /* id2 and logit2 unknown */
                FGD_NO_LSE = 8,    /* logsumexp unknown */
                FGD_NO_HASH = 16,  /* row hash unknown */
                FGD_LOGPROBS = 32, /* "logits" are logprobs */
                FGD_END = 64       /* this token ends the stream */
};

struct fgd_record { /* 64 bytes, no padding */
    uint32_t step;  /* 0, 1, 2, ..: filled in by the writer */
    int32_t token;  /* the token emitted at this step */
    int32_t id1;    /* raw argmax, before any penalty */
    float logit1;
    int32_t id2; /* second best */
    float logit2;
    double logsumexp;     /* natural log, over the real vocabulary */
    uint32_t flags;       /* enum fgd_flag */
    uint32_t text_bytes;  /* filled in by the writer */
    uint64_t text_offset; /* filled in by the writer */
    uint8_t row[16];      /* fgd_hash_row of the logits the token was chosen from */
};

struct fgd_top {
    int32_t id;
    float logit;
};

/* XXH3-128 of a row of logits; a NaN counts as 0x7fc00000 whatever its payload. */
void fgd_hash_row(const float *logits, size_t n_vocab, uint8_t out[16]);

/* ---- writing: open, set, add .., finish ---- */
typedef struct fgd_writer fgd_writer;

/* NULL: out of memory. n_top_k <= 64; n_logits: 0, or the vocabulary when whole rows are stored. */
fgd_writer *fgd_open(uint32_t n_top_k, uint32_t n_logits);
/* Provenance. Keys: [a-z0-9_.]+. A comparison wants model.xxh3, prompt.xxh3, n_vocab, sampler ("greedy"),
 * repeat_penalty ("1"), tie_rule ("lowest-id"), logits (f32, bf16 or f16), stop (eos, length). 0 on success; -1, and nothing
 * is set: another key, a key that is set already, or no memory. */
int fgd_set(fgd_writer *w, const char *key, const char *value);
/* One token; text may hold any bytes. top: [n_top_k], logits: [n_logits] (NULL when 0). 0 on success. */
int fgd_add(fgd_writer *w, const struct fgd_record *r, const void *text, uint32_t n,
            const struct fgd_top *top, const float *logits);
/* Writes PATH.tmp, then renames it; what is no regular file (a device, a pipe, a folder) is refused, not replaced. Frees w in
 * any case. 0 on success, else errno says why. */
int fgd_finish(fgd_writer *w, const char *path);

/* ---- reading ---- */
struct fgd_file {
    uint8_t *bytes; /* the whole file */
    size_t size;
    const char *provenance; /* [provenance_bytes] */
    uint64_t provenance_bytes, count, text_bytes;
    uint32_t stride, n_top_k, n_logits;
    const uint8_t *records, *text;
    uint8_t stream[16], logits[16]; /* the two results */
};

/* NULL, or one sentence that says what is wrong with the file; every block is verified. */
const char *fgd_read(const char *path, struct fgd_file *out);
void fgd_close(struct fgd_file *f);
const struct fgd_record *fgd_at(const struct fgd_file *f, uint64_t i);
const struct fgd_top *fgd_top_k(const struct fgd_file *f, uint64_t i); /* [n_top_k] */
const float *fgd_logits(const struct fgd_file *f, uint64_t i);         /* [n_logits] */

#ifdef __cplusplus
}
#endif
#endif
