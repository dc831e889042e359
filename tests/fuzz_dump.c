/* fuzz_dump.c - libFuzzer entry: any bytes as a .fgd and as a .fgt; what opens is walked to its last byte and compared.
 * Not a test of results: a crash, a hang or a sanitizer report is the finding.
 * Idea: random bytes never get past the hashes, so half of the inputs are re-sealed: table and footer are made right for
 * whatever the mutator left, and every check behind them is reached.
 * Source: ours. Exercise: cmake -DFORKGATE_FUZZ=ON -DCMAKE_C_COMPILER=clang .. ; fuzz_dump -runs=1000000 fixtures/fuzz/dump */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "gates/diff.h"
#include "gates/dump_format.h"
#include "gates/tensor_diff.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t walk(const dump *d) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < dump_count(d); i++) {
        uint32_t n = 0;
        int k = 0, v = 0;
        const uint8_t *text = dump_text(d, i, &n);
        for (uint32_t b = 0; b < n; b++) sum += text[b];
        const struct dump_top *top = dump_top_k(d, i, &k);
        for (int j = 0; top != NULL && j < k; j++) sum += (uint64_t)top[j].id;
        const float *row = dump_logits(d, i, &v);
        for (int j = 0; row != NULL && j < v; j++) sum += row[j] > 0.0f;
    }
    return sum;
}

/* The results that the records have, as far as their text lies in the file. */
static void put_results(const uint8_t *bytes, const struct dump_layout *l, struct dump_footer *f) {
    hash_stream *stream = hash_open(), *logits = hash_open();
    if (stream == NULL || logits == NULL) abort();
    for (uint64_t i = 0; i < l->count; i++) {
        struct dump_record r;
        memcpy(&r, bytes + l->records_offset + i * l->stride, sizeof r);
        if (r.text_offset > l->text_bytes || r.text_bytes > l->text_bytes - r.text_offset) break;
        hash_update(stream, &r.token, sizeof r.token);
        hash_update(stream, &r.text_bytes, sizeof r.text_bytes);
        hash_update(stream, bytes + l->text_offset + r.text_offset, r.text_bytes);
        hash_update(logits, &r.row, sizeof r.row);
    }
    f->stream = hash_peek(stream);
    f->logits = hash_peek(logits);
    hash_close(stream);
    hash_close(logits);
}

/* Makes block table and footer right for the header that is there. Returns the new size, 0 when the header fits nothing. */
static size_t seal(uint8_t *bytes, size_t n, size_t room) {
    struct dump_header h;
    struct dump_layout l;
    if (n < sizeof h) return 0;
    memcpy(bytes, DUMP_MAGIC, DUMP_MARK_BYTES);
    memcpy(&h, bytes, sizeof h);
    h.version = DUMP_VERSION;
    h.zero = 0;
    h.n_top_k %= 3;
    h.n_logits %= 5;
    h.stride = dump_stride_of(h.n_top_k, h.n_logits);
    h.count %= 40;
    h.text_bytes %= 300;
    h.header_bytes %= 900;
    h.records_offset = dump_records_offset(h.header_bytes);
    memcpy(bytes, &h, sizeof h);
    if (dump_layout_of(&h, &l, NULL) != STATUS_OK || l.file_bytes > room) return 0;
    for (uint64_t b = 0; b < l.n_blocks; b++) {
        uint64_t at = b == 0                 ? 0
                      : b <= l.record_blocks ? l.records_offset + (b - 1) * DUMP_BLOCK
                                             : l.text_offset + (b - 1 - l.record_blocks) * DUMP_BLOCK;
        uint64_t end = b == 0 ? l.records_offset : b <= l.record_blocks ? l.text_offset : l.table_offset;
        uint64_t length = b == 0 || end - at < DUMP_BLOCK ? end - at : DUMP_BLOCK;
        struct hash128 hash = hash_bytes(bytes + at, (size_t)length);
        memcpy(bytes + l.table_offset + b * sizeof hash, &hash, sizeof hash);
    }
    struct dump_footer f;
    memset(&f, 0, sizeof f);
    memcpy(f.mark, DUMP_FOOTER_MARK, DUMP_MARK_BYTES);
    f.count = l.count;
    f.text_bytes = l.text_bytes;
    f.n_blocks = l.n_blocks;
    f.table = hash_bytes(bytes + l.table_offset, (size_t)(l.n_blocks * sizeof(struct hash128)));
    put_results(bytes, &l, &f);
    f.self = dump_footer_self(&f);
    memcpy(bytes + l.footer_offset, &f, sizeof f);
    return (size_t)l.file_bytes;
}

/* Steps and text offsets as they must be, so that the comparison behind them is reached too. */
static void place_records(uint8_t *bytes) {
    struct dump_header h;
    struct dump_layout l;
    memcpy(&h, bytes, sizeof h);
    if (dump_layout_of(&h, &l, NULL) != STATUS_OK) return;
    uint64_t text = 0;
    for (uint64_t i = 0; i < l.count; i++) {
        struct dump_record r;
        uint8_t *at = bytes + l.records_offset + i * l.stride;
        memcpy(&r, at, sizeof r);
        r.step = (uint32_t)i;
        r.flags &= DUMP_FLAGS_KNOWN;
        r.text_bytes = (uint32_t)(i + 1 == l.count ? l.text_bytes - text : r.text_bytes % 8);
        if (text + r.text_bytes > l.text_bytes) r.text_bytes = (uint32_t)(l.text_bytes - text);
        r.text_offset = text;
        text += r.text_bytes;
        memcpy(at, &r, sizeof r);
    }
}

static dump *open_or_null(const uint8_t *bytes, size_t n) {
    dump *d = NULL;
    struct err err = {""};
    enum status s = dump_open_memory(bytes, n, "fuzz", &d, &err);
    if ((s == STATUS_OK) != (d != NULL) || (s != STATUS_OK && err.message[0] == '\0')) abort();
    return d;
}

static void compare(const dump *a, const dump *b) {
    struct diff_result r, same;
    struct diff_control control = {0.5, "fuzz"};
    if (diff_streams(a, b, &control, &r, NULL) != STATUS_OK || r.reason[0] == '\0') abort();
    if (diff_streams(a, a, NULL, &same, NULL) != STATUS_OK || same.fork != UINT64_MAX) abort();
}

static void fuzz_sealed(const uint8_t *data, size_t size) {
    enum { ROOM = 16384 };
    uint8_t *bytes = calloc(2, ROOM);
    if (bytes == NULL) return;
    memcpy(bytes, data, size < ROOM ? size : ROOM);
    size_t n = seal(bytes, size < ROOM ? size : ROOM, ROOM);
    dump *raw = n > 0 ? open_or_null(bytes, n) : NULL;
    dump_close(raw);
    if (n > 0) {
        place_records(bytes);
        (void)seal(bytes, n, ROOM);
        dump *a = open_or_null(bytes, n);
        uint8_t *other =
            bytes + ROOM; /* the same with the last mutated byte flipped: a second stream to compare with */
        memcpy(other, bytes, n);
        other[(size * 31) % n] ^= (uint8_t)(size | 1);
        size_t m = seal(other, n, ROOM); /* the flip may have hit a size in the header */
        if (m > 0) place_records(other);
        if (m > 0) m = seal(other, m, ROOM);
        dump *b = m > 0 ? open_or_null(other, m) : NULL;
        volatile uint64_t sink = 0;
        if (a != NULL) sink += walk(a);
        if (a != NULL && b != NULL) compare(a, b);
        (void)sink;
        dump_close(a);
        dump_close(b);
    }
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    dump *d = open_or_null(data, size);
    if (d != NULL) {
        volatile uint64_t sink = walk(d);
        (void)sink;
        compare(d, d);
        dump_close(d);
    }
    tensor_dump *t = NULL;
    if (tensor_dump_open_memory(data, size, "fuzz", &t, NULL) == STATUS_OK) {
        float value[256];
        struct tensor_shape s = tensor_dump_shape(t);
        uint64_t block = (uint64_t)dtype_info((int)s.dtype)->block;
        tensor_dump_values(t, 0, block, value);
        struct tensor_diff r;
        if (tensor_diff(t, t, NULL, &r, NULL) != STATUS_OK || r.distance.differing != 0) abort();
        tensor_dump_close(t);
    }
    fuzz_sealed(data, size);
    return 0;
}
