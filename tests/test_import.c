/* test_import.c - what inspect prints, import reads back to the same records; what does not fit is refused with its place. */
#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gates/diff.h"
#include "gates/import.h"
#include "gates/inspect.h"
#include "gates/tensor_dump.h"
#include "tests/dump_maker.h"

static char folder[] = "/tmp/forkgate-test-import-XXXXXX";
static char path[128];

static const char *in_folder(const char *name) {
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}
static void make_folder(void) {
    cr_assert(mkdtemp(folder) != NULL);
}
static void remove_folder(void) {
    static const char *const names[] = {"a.fgd", "b.fgd", "t.fgt", "junk"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) (void)unlink(in_folder(names[i]));
    if (rmdir(folder) != 0) abort();
}
TestSuite(import, .init = make_folder, .fini = remove_folder);

static char *inspect(const char *file, int provenance, size_t *n) {
    char *text = NULL;
    struct err err = {""};
    FILE *f = open_memstream(&text, n);
    cr_assert_eq(inspect_file(file, provenance, TABLE_CRLF, f, &err), STATUS_OK, "%s", err.message);
    (void)fclose(f);
    return text;
}

static dump *import_text(const char *text, size_t n, const char *out, const struct provenance *extra) {
    struct err err = {""};
    table *t = NULL;
    dump *d = NULL;
    cr_assert_eq(table_read_memory(text, n, "t.csv", &t, &err), STATUS_OK, "%s", err.message);
    cr_assert_eq(import_csv(t, extra, 1, out, &d, &err), STATUS_OK, "%s", err.message);
    table_close(t);
    return d;
}

/* Field case A14 and A13 in one stream: every awkward token text, every absent field, then three sentinels. */
static const struct {
    uint32_t n, flags;
    const char *bytes;
} awkward[] = {{4, 0, "\",\\n"},
               {1, DUMP_NO_ID, "\""},
               {2, DUMP_NO_TOP1, "\"\""},
               {1, DUMP_NO_TOP2, ","},
               {1, DUMP_NO_LSE, "\n"},
               {2, DUMP_NO_HASH, "\r\n"},
               {1, DUMP_LOGPROBS, "\t"},
               {0, 0, ""},
               {1, 0, " "},
               {5, 0, " =1+1"},
               {4, 0, "=1+1"},
               {1, 0, "\0"},
               {1, 0, "\x80"},
               {2, 0, "\xf0\x9f"},
               {2, 0, "\x98\x8a"},
               {1, 0, "\xff"},
               {2, DUMP_NO_ID | DUMP_NO_TOP1 | DUMP_NO_TOP2 | DUMP_NO_LSE | DUMP_NO_HASH, "\\x"},
               {3, 0, "end"},
               {3, 0, "end"},
               {3, DUMP_END, "end"}};
#define N_AWKWARD (sizeof awkward / sizeof awkward[0])

static void write_awkward(const char *file) {
    const char *keys[] = {"tool",   "some engine", "note", "two\nlines, \"quoted\" \\ \x01\xc3\xa9",
                          "logits", "f32",         NULL};
    struct made m = make_begin(file, 0, keys);
    for (size_t i = 0; i < N_AWKWARD; i++) {
        struct dump_record r = greedy((int32_t)(7 * i), 20.1f + 0.01f * (float)i, 900, -1e-7f * (float)i);
        r.logsumexp = 21.0 + 1.0 / 3.0;
        r.flags = awkward[i].flags;
        make_record(&m, r, awkward[i].bytes, awkward[i].n, NULL);
    }
    dump_close(make_end(&m));
}

Test(import, case_a14_export_and_import_are_inverse) {
    size_t n = 0, m = 0;
    struct err err = {""};
    write_awkward(in_folder("a.fgd"));
    char *text = inspect(path, 1, &n);
    dump *a = NULL, *b = import_text(text, n, NULL, NULL);
    cr_assert_eq(dump_open(in_folder("a.fgd"), &a, &err), STATUS_OK);
    cr_assert_eq(dump_count(b), N_AWKWARD);
    for (uint64_t i = 0; i < N_AWKWARD; i++) {
        uint32_t na = 0, nb = 0;
        const uint8_t *ta = dump_text(a, i, &na), *tb = dump_text(b, i, &nb);
        cr_assert_eq(memcmp(dump_record_at(a, i), dump_record_at(b, i), sizeof(struct dump_record)), 0,
                     "record %d", (int)i);
        cr_assert(na == nb && memcmp(ta, tb, na) == 0, "text of record %d", (int)i);
    }
    struct dump_results ra = dump_results(a), rb = dump_results(b);
    cr_assert(hash_equal(&ra.stream, &rb.stream) == 1 && hash_equal(&ra.logits, &rb.logits) == 1);
    cr_assert_str_eq(provenance_get(dump_provenance(b), "note"), "two\nlines, \"quoted\" \\ \x01\xc3\xa9");
    cr_assert_str_eq(provenance_get(dump_provenance(b), "import"), "csv");
    dump_close(a);
    dump *c = import_text(text, n, in_folder("b.fgd"), NULL);
    struct hash128 hb = dump_content_hash(b), hc = dump_content_hash(c);
    cr_assert(hash_equal(&hb, &hc) == 1, "memory and file");
    char *again = inspect(path, 1, &m);
    dump *d = import_text(again, m, NULL, NULL);
    struct hash128 hd = dump_content_hash(d);
    cr_assert(hash_equal(&hb, &hd) == 1, "a second round changes nothing, not one byte");
    free(text);
    free(again);
    dump_close(b);
    dump_close(c);
    dump_close(d);
}

Test(import, top_k_and_whole_rows_round_trip) {
    static float row[5] = {1.5f, -2.25f, 0.1f, 1e-30f, -0.0f};
    struct provenance p;
    struct err err = {""};
    dump_writer *w = NULL;
    provenance_init(&p);
    cr_assert_eq(dump_writer_open(in_folder("a.fgd"), &p, 2, 5, &w, &err), STATUS_OK);
    for (int i = 0; i < 3; i++) {
        struct dump_top top[2] = {{0, 1.5f}, {-1, -(float)INFINITY}};
        struct dump_record r = greedy(0, 1.5f, 2, 0.1f);
        row[3] += 1.0f;
        r.logit1 = r.logit1 > row[3] ? r.logit1 : row[3];
        cr_assert_eq(dump_writer_add(w, &r, (const uint8_t *)"x", 1, top, row, &err), STATUS_OK);
    }
    dump *a = NULL;
    cr_assert_eq(dump_writer_finish(w, &p, &a, &err), STATUS_OK);
    size_t n = 0;
    char *text = inspect(path, 0, &n);
    dump *b = import_text(text, n, NULL, NULL);
    for (uint64_t i = 0; i < 3; i++) {
        int k = 0, v = 0;
        cr_assert_eq(memcmp(dump_top_k(a, i, &k), dump_top_k(b, i, &k), 2 * sizeof(struct dump_top)), 0);
        cr_assert_eq(memcmp(dump_logits(a, i, &v), dump_logits(b, i, &v), sizeof row), 0);
        cr_assert(k == 2 && v == 5);
    }
    free(text);
    dump_close(a);
    dump_close(b);
    provenance_free(&p);
}

Test(import, foreign_csv_in_any_column_order_with_what_it_has) {
    const char *text = "token_text,token_id,step,logit2,id2,id1,logit1\n"
                       "\" Lyon\",220,0,18.381,911,220,18.412\n"
                       "\"\n\",,1,,,,\n";
    struct provenance extra;
    struct err err = {""};
    provenance_init(&extra);
    cr_assert_eq(provenance_set(&extra, "logits", "bf16", &err), STATUS_OK);
    dump *d = import_text(text, strlen(text), NULL, &extra);
    cr_assert_eq(dump_count(d), 2);
    cr_assert_eq(dump_record_at(d, 0)->token, 220);
    cr_assert_eq(dump_record_at(d, 0)->id2, 911);
    cr_assert(fabsf(dump_record_at(d, 0)->logit1 - 18.412f) < 1e-6f);
    cr_assert_eq(dump_record_at(d, 0)->flags, DUMP_NO_LSE | DUMP_NO_HASH);
    cr_assert_eq(dump_record_at(d, 1)->flags,
                 DUMP_NO_ID | DUMP_NO_TOP1 | DUMP_NO_TOP2 | DUMP_NO_LSE | DUMP_NO_HASH);
    cr_assert_str_eq(provenance_get(dump_provenance(d), "logits"), "bf16");
    const char *reason = NULL;
    cr_assert_eq(dump_first_invalid(d, &reason), UINT64_MAX);
    dump_close(d);
    provenance_free(&extra);
}

/* Field case A01, fed in as the report's engine would: a bf16 stream in a CSV. */
Test(import, case_a01_from_csv_is_judged_in_bf16) {
    dump *d[2];
    struct provenance extra;
    struct diff_result r;
    struct err err = {""};
    provenance_init(&extra);
    cr_assert_eq(provenance_set(&extra, "logits", "bf16", &err), STATUS_OK);
    for (int s = 0; s < 2; s++) {
        char text[512];
        int n = snprintf(text, sizeof text,
                         "step,token_id,id1,logit1,id2,logit2\n0,5,5,40,6,30\n1,%d,%d,33.75,%d,33.5\n",
                         s ? 911 : 220, s ? 911 : 220, s ? 220 : 911);
        d[s] = import_text(text, (size_t)n, NULL, &extra);
    }
    cr_assert_eq(diff_streams(d[0], d[1], NULL, &r, &err), STATUS_OK);
    cr_assert_eq(r.verdict, DIFF_KNIFE_EDGE, "%s", r.reason);
    cr_assert_eq(r.fork, 1);
    dump_close(d[0]);
    dump_close(d[1]);
    provenance_free(&extra);
}

static void refused(const char *text, const char *part) {
    struct err err = {""};
    table *t = NULL;
    dump *d = NULL;
    enum status s = table_read_memory(text, strlen(text), "t.csv", &t, &err);
    if (s == STATUS_OK) s = import_csv(t, NULL, 0, NULL, &d, &err);
    cr_assert(s != STATUS_OK && d == NULL, "accepted: %s", part);
    cr_assert(strstr(err.message, part) != NULL, "message lacks: %s, has: %s", part, err.message);
    cr_assert(strstr(err.message, "t.csv") != NULL);
    table_close(t);
}

Test(import, what_does_not_fit_is_refused_with_record_and_line) {
    refused("step,token_id\n0,1\n1\n", "record 2 (line 3): 1 fields where the header has 2");
    refused("step,token_id,token_text\n0,1,\"a\nb\"\n1,2\n", "record 2 (line 4)");
    refused("step,token_id\n0,1\n2,2\n", "record 2 (line 3): step 2 where 1 is next");
    refused("step,token_id\n0,one\n", "record 1 (line 2): token_id 'one'");
    refused("step,token_id\n0,99999999999\n", "record 1 (line 2): token_id");
    refused("step,token_id,logit1\n0,1,1e99\n", "logit1: too large for f32");
    refused("step,token_id,logit1\n0,1,fast\n", "logit1 'fast'");
    refused("step,token_id,end\n0,1,yes\n", "end: want 0, 1 or nothing");
    refused("step,token_id,unit\n0,1,nats\n", "unit: want logit, logprob");
    refused("step,token_id,row_hash\n0,1,abc\n", "row_hash: want 32");
    refused("step,token_bytes_hex\n0,4\n", "malformed hex");
    refused("step,token_text_escaped\n0,\\q\n", "malformed escape");
    refused("step,token_bytes_hex,token_text\n0,41,B\n", "token_text disagrees");
    refused("step,token_id,colour\n0,1,red\n", "unknown column 'colour'");
    refused("token_id\n1\n", "no column 'step'");
    refused("step,id1\n0,1\n", "neither token_id nor");
    refused("step,token_id,top_k\n0,1,\"1:2 3:4\"\n1,1,\"1:2\"\n", "record 2 (line 3): top_k: want 2 pairs");
    refused("step,token_id,logits\n0,1,\"1 2\"\n1,1,\"1 2 3\"\n",
            "record 2 (line 3): logits: want 2 numbers");
    refused("# model\nstep,token_id\n0,1\n", "line 1: want '# key=value'");
    refused("# Bad=1\nstep,token_id\n0,1\n", "bad key");
    refused("step,token_id\n0,\"1", "ends inside a quoted field");
}

Test(import, contradictions_are_refused_by_record) {
    refused("step,token_id,id1,logit1,id2,logit2\n0,1,1,3,2,1\n1,5,5,2,5,1\n",
            "record 2 (line 3): id1 and id2 are both 5");
    refused("step,token_id,id1,logit1,id2,logit2\n0,1,1,3,2,4\n",
            "record 1 (line 2): logit2 is larger than logit1");
    refused("step,token_id,id1,logit1\n0,1,1,2\n1,1,1,nan\n", "record 2 (line 3): logit1: NaN or infinite");
    refused("step,token_id,id1,logit1\n0,1,1,-inf\n", "record 1 (line 2): logit1: NaN or infinite");
    refused("step,token_id,logsumexp\n0,1,nan\n", "record 1 (line 2): logsumexp: NaN or infinite");
    refused("step,token_id,top_k\n0,1,\"1:2 1:1\"\n", "record 1 (line 2): top_k: id 1 twice");
    refused("step,token_id,top_k\n0,1,\"1:nan 2:1\"\n", "record 1 (line 2): top_k: NaN or infinite");
    refused("step,token_id,id1,logit1,id2,logit2,top_k\n0,1,1,5,2,3,\"7:9 8:2\"\n",
            "top_k: id 7 where id1 is 1");
    refused("step,token_id,logits\n0,1,\"1 nan\"\n", "record 1 (line 2): logits: NaN or infinite");
    refused("step,token_id,token_id\n0,1,2\n", "column 'token_id' appears twice");
    refused("# sampler=greedy\n# n_vocab=9\n# sampler=greedy\nstep,token_id\n0,1\n",
            "line 3: provenance: sampler twice");
}

Test(import, a_missing_last_newline_is_valid_and_nan_is_kept_when_asked) {
    const char *text = "step,token_id,id1,logit1\n0,1,1,2.5\n1,0,0,nan";
    dump *d = import_text(text, strlen(text), NULL, NULL);
    const char *reason = NULL;
    cr_assert_eq(dump_count(d), 2);
    cr_assert_eq(dump_first_invalid(d, &reason), 1);
    dump_close(d);
}

/* ---- inspect ---- */

Test(import, inspect_refuses_damage_and_foreign_files_and_prints_nothing) {
    write_awkward(in_folder("a.fgd"));
    FILE *f = fopen(path, "r+b");
    cr_assert(f != NULL && fseek(f, 1500, SEEK_SET) == 0 && fputc('#', f) == '#');
    (void)fclose(f);
    char *text = NULL;
    size_t n = 0;
    struct err err = {""};
    FILE *out = open_memstream(&text, &n);
    cr_assert_eq(inspect_file(path, 1, TABLE_LF, out, &err), STATUS_FORMAT);
    cr_assert(strstr(err.message, "first bad block") != NULL);
    f = fopen(in_folder("junk"), "wb");
    cr_assert(f != NULL && fputs("hello", f) >= 0);
    (void)fclose(f);
    cr_assert_eq(inspect_file(path, 0, TABLE_LF, out, &err), STATUS_UNSUPPORTED);
    cr_assert_eq(inspect_file("/nonexistent", 0, TABLE_LF, out, &err), STATUS_IO);
    cr_assert_eq(inspect_file("/dev/null", 0, TABLE_LF, out, &err), STATUS_IO);
    cr_assert_eq(inspect_file(folder, 0, TABLE_LF, out, &err), STATUS_IO);
    (void)fclose(out);
    cr_assert_eq(n, 0);
    free(text);
}

Test(import, inspect_prints_every_value_of_a_tensor) {
    enum { N = 20000 };
    float *data = malloc(N * sizeof *data);
    for (int i = 0; i < N; i++) data[i] = 0.5f * (float)i;
    struct provenance p;
    struct err err = {""};
    provenance_init(&p);
    cr_assert_eq(provenance_set(&p, "kernel", "fa", &err), STATUS_OK);
    struct tensor_shape s = {DTYPE_F32, 2, {100, 200, 1, 1}};
    cr_assert_eq(tensor_dump_write(in_folder("t.fgt"), &s, data, &p, &err), STATUS_OK, "%s", err.message);
    size_t n = 0;
    char *text = inspect(path, 1, &n);
    table *t = NULL;
    cr_assert_eq(table_read_memory(text, n, "t", &t, &err), STATUS_OK, "%s", err.message);
    cr_assert_eq(table_rows(t), N);
    cr_assert_str_eq(table_note(t, 0), "kernel=fa");
    cr_assert_str_eq(table_cell(t, 19999, 0, NULL), "99");
    cr_assert_str_eq(table_cell(t, 19999, 1, NULL), "199");
    cr_assert_str_eq(table_cell(t, 19999, 4, NULL), "9999.5");
    table_close(t);
    free(text);
    free(data);
    provenance_free(&p);
}

Test(import, inspect_prints_keys_and_tensors_of_the_embedded_model) {
    size_t n = 0;
    char *text = inspect(FORKGATE_SOURCE_DIR "/fixtures/models/seedling-q8_0.gguf", 0, &n);
    table *t = NULL;
    struct err err = {""};
    cr_assert_eq(table_read_memory(text, n, "t", &t, &err), STATUS_OK, "%s", err.message);
    int keys = 0, tensors = 0, hashed = 0;
    for (size_t i = 0; i < table_rows(t); i++) {
        int is_key = strcmp(table_cell(t, i, 0, NULL), "key") == 0;
        keys += is_key;
        tensors += !is_key;
        hashed += strlen(table_cell(t, i, 6, NULL)) == 32;
    }
    cr_assert(keys > 10 && tensors > 20 && hashed == tensors);
    table_close(t);
    free(text);
}
