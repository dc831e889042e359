/* dump_results.c - do the two results in a dump's footer follow from its records?
 * Not damage of bytes (dump_verify.c): a writer that got a result wrong seals it as well as a right one, and goldens and
 * controls are paired by these results.
 * Idea: what the results are made of is gathered into pieces, so that the hash sees thousands of records at a time.
 * Source: ours. Exercise: ctest -R unit.dump */
#include <string.h>

#include "gates/dump_format.h"

#define PIECE 16384u /* bytes handed to the hash at once; in cache */

struct gatherer {
    hash_stream *hash;
    size_t used;
    uint8_t bytes[PIECE];
};

static void flush(struct gatherer *g) {
    hash_update(g->hash, g->bytes, g->used);
    g->used = 0;
}

static void gather(struct gatherer *g, const void *bytes, size_t n) {
    if (n > PIECE - g->used) flush(g);
    if (n > PIECE) {
        hash_update(g->hash, bytes, n);
        return;
    }
    if (n > 0) memcpy(g->bytes + g->used, bytes, n);
    g->used += n;
}

static enum status refuse(const char *which, const char *of, struct err *err) {
    return err_set(err, STATUS_FORMAT, "footer: the %s hash does not follow from the records' %s", which, of);
}

enum status dump_verify_results(const dump *d, struct err *err) {
    struct gatherer stream = {hash_open(), 0, {0}}, logits = {hash_open(), 0, {0}};
    enum status s = STATUS_OK;
    if (stream.hash == NULL || logits.hash == NULL) s = err_set(err, STATUS_NOMEM, "dump: out of memory");
    if (s == STATUS_OK) {
        for (uint64_t i = 0; i < d->at.count; i++) {
            const struct dump_record *r = dump_record_at(d, i);
            gather(&stream, &r->token, sizeof r->token);
            gather(&stream, &r->text_bytes, sizeof r->text_bytes);
            gather(&stream, d->bytes + d->at.text_offset + r->text_offset, r->text_bytes);
            gather(&logits, &r->row, sizeof r->row);
        }
        flush(&stream);
        flush(&logits);
        struct hash128 said = hash_peek(stream.hash), rails = hash_peek(logits.hash);
        if (!hash_equal(&said, &d->results.stream))
            s = refuse("stream", "tokens and bytes", err);
        else if (!hash_equal(&rails, &d->results.logits))
            s = refuse("logits", "row hashes", err);
    }
    hash_close(stream.hash);
    hash_close(logits.hash);
    return s;
}
