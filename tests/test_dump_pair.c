/* test_dump_pair.c - the one look that checks and compares two dumps at once says what two looks say, for every oddity. */
#include <criterion/criterion.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gates/diff.h"
#include "gates/dump_format.h"
#include "tests/dump_maker.h"

enum { N = 2600, VOCABULARY = 1000 }; /* three blocks of 1024 records */

static char folder[64], path_a[96], path_b[96];

static void make_folder(void) {
    const char *tmp = getenv("TMPDIR");
    (void)snprintf(folder, sizeof folder, "%.40s/fg-pair-XXXXXX", tmp != NULL ? tmp : "/tmp");
    cr_assert(mkdtemp(folder) != NULL);
    (void)snprintf(path_a, sizeof path_a, "%s/a.fgd", folder);
    (void)snprintf(path_b, sizeof path_b, "%s/b.fgd", folder);
}
static void remove_folder(void) {
    (void)remove(path_a);
    (void)remove(path_b);
    (void)remove(folder);
}

TestSuite(dump_pair, .init = make_folder, .fini = remove_folder, .timeout = 120);

/* What is odd about one record; each is something only the careful look may judge. */
typedef void (*oddity)(struct dump_record *r);
static void none(struct dump_record *r) {
    (void)r;
}
static void no_id(struct dump_record *r) {
    r->flags |= DUMP_NO_ID;
    r->token = -1;
}
static void no_top1(struct dump_record *r) {
    r->flags |= DUMP_NO_TOP1;
    r->id1 = -1;
    r->logit1 = 0;
}
static void no_top2(struct dump_record *r) {
    r->flags |= DUMP_NO_TOP2;
    r->id2 = -1;
    r->logit2 = 0;
}
static void no_hash(struct dump_record *r) {
    r->flags |= DUMP_NO_HASH;
}
static void logprobs(struct dump_record *r) {
    r->flags |= DUMP_LOGPROBS;
}
static void end(struct dump_record *r) {
    r->flags |= DUMP_END;
}
static void other_token(struct dump_record *r) {
    r->token ^= 1;
}
static void other_id1(struct dump_record *r) {
    r->id1 ^= 1;
}
static void other_id2(struct dump_record *r) {
    r->id2 ^= 1;
}
static void token_outside(struct dump_record *r) {
    r->token = VOCABULARY;
}
static void token_negative(struct dump_record *r) {
    r->token = -2;
}
static void id1_outside(struct dump_record *r) {
    r->id1 = VOCABULARY;
}
static void id2_outside(struct dump_record *r) {
    r->id2 = INT32_MIN;
}
static void nan1(struct dump_record *r) {
    r->logit1 = -(float)NAN;
}
static void inf1(struct dump_record *r) {
    r->logit1 = (float)INFINITY;
}
static void nan2(struct dump_record *r) {
    r->logit2 = (float)NAN;
}
static void minus_inf2(struct dump_record *r) {
    r->logit2 = -(float)INFINITY;
}
static void above(struct dump_record *r) {
    r->logit2 = r->logit1 + 1.0f;
}
static void nan_lse(struct dump_record *r) {
    r->logsumexp = (double)NAN;
}
static void inf_lse(struct dump_record *r) {
    r->logsumexp = -(double)INFINITY;
}
static void drift1(struct dump_record *r) {
    r->logit1 += 0.75f;
}
static void drift2(struct dump_record *r) {
    r->logit2 -= 0.75f;
}
static void swapped(struct dump_record *r) {
    int32_t id = r->id1;
    r->id1 = r->id2;
    r->id2 = id;
}
static void tie(struct dump_record *r) {
    r->logit2 = r->logit1;
}

static const oddity oddities[] = {none,   no_id,          no_top1,     no_top2,     no_hash,    logprobs,
                                  end,    other_token,    other_id1,   other_id2,   nan1,       token_outside,
                                  inf1,   token_negative, id1_outside, id2_outside, minus_inf2, nan2,
                                  above,  nan_lse,        inf_lse,     drift1,      drift2,     tie,
                                  swapped};
enum { ODDITIES = sizeof oddities / sizeof oddities[0] };

/* Every row of side 1 differs from side 0 in a logit and in its hash; record `at` is odd. */
static void write_side(const char *path, int side, oddity odd, int at) {
    const char *keys[] = {"n_vocab", "1000", "logits", "f32", NULL};
    struct made m = make_begin(path, 0, keys);
    for (int i = 0; i < N; i++) {
        struct dump_record r =
            greedy(i % 900, 20.0f, 950, 15.0f + (side ? 0.001f * (float)(1 + i % 3) : 0.0f));
        if (i == at) odd(&r);
        make_record(&m, r, "abcdefg", (uint32_t)(i % 8), NULL);
    }
    dump_close(make_end(&m));
}

static void expect_same(int odd, int at, int side) {
    dump *a = NULL, *b = NULL, *c = NULL, *d = NULL;
    struct diff_result together, apart;
    struct err err = {""};
    cr_assert_eq(diff_files(path_a, path_b, NULL, &a, &b, &together, &err), STATUS_OK, "%s", err.message);
    cr_assert_eq(dump_open(path_a, &c, &err), STATUS_OK, "%s", err.message);
    cr_assert_eq(dump_open(path_b, &d, &err), STATUS_OK, "%s", err.message);
    cr_assert_eq(diff_streams(c, d, NULL, &apart, &err), STATUS_OK, "%s", err.message);
    cr_assert_eq(memcmp(&together, &apart, sizeof apart), 0, "oddity %d at %d on side %d: %s, apart %s", odd,
                 at, side, together.reason, apart.reason);
    const char *why = NULL;
    cr_assert_eq(dump_first_invalid(a, &why), dump_first_invalid(c, &why), "oddity %d at %d", odd, at);
    cr_assert_eq(dump_first_invalid(b, &why), dump_first_invalid(d, &why), "oddity %d at %d", odd, at);
    cr_assert_eq(dump_first_end(a), dump_first_end(c), "oddity %d at %d", odd, at);
    cr_assert_eq(dump_first_without_id(b), dump_first_without_id(d), "oddity %d at %d", odd, at);
    cr_assert_eq(dump_flags(a), dump_flags(c), "oddity %d at %d", odd, at);
    cr_assert_eq(dump_flags(b), dump_flags(d), "oddity %d at %d", odd, at);
    dump_close(a);
    dump_close(b);
    dump_close(c);
    dump_close(d);
}

Test(dump_pair, one_look_says_what_two_say_about_every_oddity) {
    const int places[] = {0, 1500, N - 1};
    for (int side = 0; side < 3; side++) { /* 2: the same on both sides, which no comparison shows */
        for (int k = 0; k < 3; k++) {
            for (int o = 0; o < ODDITIES; o++) {
                write_side(path_a, 0, side != 1 ? oddities[o] : none, places[k]);
                write_side(path_b, 1, side != 0 ? oddities[o] : none, places[k]);
                expect_same(o, places[k], side);
            }
        }
    }
}

/* Both files hold the same bytes: what one record lacks is missing in its count, wherever the record is. */
Test(dump_pair, equal_records_without_a_hash_are_not_counted_as_compared) {
    const int places[] = {0, 1, 1023, 1500, N - 1};
    for (int k = 0; k < 5; k++) {
        dump *a = NULL, *b = NULL;
        struct diff_result r;
        struct err err = {""};
        write_side(path_a, 0, no_hash, places[k]);
        write_side(path_b, 0, no_hash, places[k]);
        expect_same(0, places[k], 2);
        cr_assert_eq(diff_files(path_a, path_b, NULL, &a, &b, &r, &err), STATUS_OK, "%s", err.message);
        cr_assert_eq(r.verdict, DIFF_IDENTICAL);
        cr_assert_eq(r.rows_hashed, N - 1, "one record of %d lacks its hash, %d were compared", N,
                     (int)r.rows_hashed);
        cr_assert(strstr(r.reason, "every row") == NULL, "%s", r.reason);
        dump_close(a);
        dump_close(b);
    }
    write_side(path_a, 0, no_top1, 0);
    write_side(path_b, 0, no_top1, 0);
    dump *a = NULL, *b = NULL;
    struct diff_result r;
    struct err err = {""};
    expect_same(0, 0, 2);
    cr_assert_eq(diff_files(path_a, path_b, NULL, &a, &b, &r, &err), STATUS_OK, "%s", err.message);
    cr_assert_eq(r.drift_at, 1, "the first record with logits to compare");
    cr_assert_eq(r.rows_hashed, N);
    dump_close(a);
    dump_close(b);
}

/* ---- records that contradict their place, in a file whose hashes are right ---- */

static void forge(const char *path, int at, size_t field, uint8_t by) {
    FILE *f = fopen(path, "r+b");
    cr_assert(f != NULL && fseek(f, 0, SEEK_END) == 0);
    size_t n = (size_t)ftell(f);
    uint8_t *bytes = malloc(n);
    struct dump_header h;
    struct dump_footer foot;
    struct dump_layout l;
    struct err err;
    rewind(f);
    cr_assert(bytes != NULL && fread(bytes, 1, n, f) == n);
    memcpy(&h, bytes, sizeof h);
    cr_assert_eq(dump_layout_of(&h, &l, &err), STATUS_OK);
    uint64_t block = (uint64_t)at * l.stride / DUMP_BLOCK, start = block * DUMP_BLOCK,
             size = l.count * l.stride - start;
    bytes[l.records_offset + (uint64_t)at * l.stride + field] ^= by;
    struct hash128 hash = hash_bytes(bytes + l.records_offset + start, size < DUMP_BLOCK ? size : DUMP_BLOCK);
    memcpy(bytes + l.table_offset + (1 + block) * sizeof hash, &hash, sizeof hash);
    memcpy(&foot, bytes + l.footer_offset, sizeof foot);
    foot.table = hash_bytes(bytes + l.table_offset, l.n_blocks * sizeof hash);
    foot.self = dump_footer_self(&foot);
    memcpy(bytes + l.footer_offset, &foot, sizeof foot);
    rewind(f);
    cr_assert(fwrite(bytes, 1, n, f) == n && fclose(f) == 0);
    free(bytes);
}

Test(dump_pair, a_record_out_of_its_place_is_refused_on_either_side) {
    const size_t fields[] = {
        offsetof(struct dump_record, step), offsetof(struct dump_record, text_offset) + 4,
        offsetof(struct dump_record, text_bytes), offsetof(struct dump_record, flags) + 3};
    for (int k = 0; k < 4; k++) {
        for (int sides = 1; sides < 4; sides++) {
            write_side(path_a, 0, none, -1);
            write_side(path_b, 1, none, -1);
            if (sides & 1) forge(path_a, 1500, fields[k], 0x40);
            if (sides & 2) forge(path_b, 1500, fields[k], 0x40);
            dump *a = NULL, *b = NULL;
            struct diff_result r;
            struct err together = {""}, alone = {""};
            cr_assert_eq(diff_files(path_a, path_b, NULL, &a, &b, &r, &together), STATUS_FORMAT, "field %d",
                         k);
            cr_assert_eq(dump_open(sides & 1 ? path_a : path_b, &a, &alone), STATUS_FORMAT, "field %d", k);
            cr_assert_str_eq(together.message, alone.message);
        }
    }
}
