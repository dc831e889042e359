/* test_diff_report.c - the report says where, what and how close from raw bytes, and its CSV row reads back. */
#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gates/diff_report.h"
#include "tests/dump_maker.h"

static char *render(const dump *a, const dump *b, const struct diff_control *control, int utf8,
                    struct diff_result *r) {
    struct err err;
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    struct diff_view view = {0, utf8, 120, "forkgate explain A B -m MODEL"};
    cr_assert_eq(diff_streams(a, b, control, r, &err), STATUS_OK);
    diff_report_text(f, a, b, r, &view);
    diff_report_line(f, "pair.fgd", r, &view);
    (void)fclose(f);
    return text;
}

static void has(const char *text, const char *what) {
    cr_assert(strstr(text, what) != NULL, "missing: %s", what);
}
static void lacks(const char *text, const char *what) {
    cr_assert(strstr(text, what) == NULL, "present: %s", what);
}

static dump *side(int is_b) {
    const char *keys[] = {"commit",   is_b ? "bbb" : "aaa",
                          "dirty",    is_b ? "1" : "0",
                          "logits",   "bf16",
                          "geometry", is_b ? "fa_tkv=16" : "fa_tkv=32",
                          "sampler",  "greedy",
                          "note",     "esc\x1b[2Jape\nline",
                          NULL};
    struct made m = make_begin(NULL, 0, keys);
    make_plain(&m, 3);
    make_record(&m, greedy(9, 40.0f, 8, 38.0f), " caf\xc3\xa9 \xf0\x9f", 9, NULL);
    make_record(&m, greedy(is_b ? 911 : 220, 33.75f, is_b ? 220 : 911, 33.5f),
                is_b ? "\x98\x8b\n" : "\x98\x8a\x1b", 3, NULL);
    make_record(&m, greedy(5, 20.0f, 6, 1.0f), "\"end\"", 5, NULL);
    return make_end(&m);
}

Test(report, a_fork_inside_a_character_is_shown_from_raw_bytes) {
    dump *a = side(0), *b = side(1);
    struct diff_result r;
    char *ascii = render(a, b, NULL, 0, &r), *utf8 = render(a, b, NULL, 1, &r);
    has(ascii, "fork at token 4 of 6 | 6, text byte 18");
    has(ascii, "context  \" w0 w1 w2 caf\\xC3\\xA9 \"");
    has(ascii, "began with \\xF0\\x9F");
    has(ascii, "A        [-\\xF0\\x9F\\x98\\x8A\\x1B-]  id 220  logit 33.75  gap 0.25 (1 ULP of bf16)");
    has(ascii, "B        {+\\xF0\\x9F\\x98\\x8B\\n+}  id 911");
    has(ascii, "A top-2  id 220 logit 33.75, id 911 logit 33.5");
    has(ascii, "geometry       fa_tkv=32 | fa_tkv=16");
    has(ascii, "bbb (modified)");
    has(ascii, "verdict    KNIFE-EDGE: gaps 0.25 and 0.25 are at most 1 ULP");
    has(ascii, "control    none bears on this verdict");
    has(ascii, "next       forkgate explain A B -m MODEL");
    for (const char *p = ascii; *p != '\0'; p++) cr_assert((*p >= 0x20 && *p < 0x7f) || *p == '\n');
    has(utf8, "context  \" w0 w1 w2 caf\xc3\xa9 \"");
    has(utf8, "[-\xf0\x9f\x98\x8a\\x1B-]");
    lacks(utf8, "\x1b");
    free(ascii);
    free(utf8);
    dump_close(a);
    dump_close(b);
}

Test(report, context_begins_with_a_whole_character) {
    for (int shift = 0; shift < 4; shift++) {
        dump *d[2];
        for (int s = 0; s < 2; s++) {
            struct made m = make_begin(NULL, 0, NULL);
            for (int i = 0; i < 40; i++) make_record(&m, greedy(i, 2, 50, 1), "\xe5\xa5\xbd", 3, NULL);
            make_record(&m, greedy(40, 2, 50, 1), "....", (uint32_t)shift, NULL);
            make_record(&m, greedy(41 + s, 2, 42 - s, 1), "x", 1, NULL);
            d[s] = make_end(&m);
        }
        struct diff_result r;
        char *text = render(d[0], d[1], NULL, 1, &r);
        has(text, "context  ..\"\xe5\xa5\xbd");
        lacks(text, "\\x");
        free(text);
        dump_close(d[0]);
        dump_close(d[1]);
    }
}

Test(report, identical_tokens_on_other_rails_say_so) {
    const char *keys[] = {"logits", "f32", NULL};
    struct made ma = make_begin(NULL, 0, keys), mb = make_begin(NULL, 0, keys);
    make_plain(&ma, 5);
    make_plain(&mb, 4);
    make_record(&mb, greedy(104, 20.125f, 50, 15.0f), " w4", 3, NULL);
    dump *a = make_end(&ma), *b = make_end(&mb);
    struct diff_result r;
    char *text = render(a, b, NULL, 0, &r);
    has(text, "verdict    IDENTICAL: tokens are identical, but the logits differ: first at step 4, largest "
              "change 0.125");
    has(text, "row hash differs first at step 4");
    has(text, "provenance: nothing differs");
    lacks(text, "fork at");
    free(text);
    dump_close(a);
    dump_close(b);
}

Test(report, hostile_provenance_cannot_move_the_terminal) {
    const char *ka[] = {"sampler", "greedy\x1b[2J", NULL}, *kb[] = {"sampler", "other\n\x07", NULL};
    struct made ma = make_begin(NULL, 0, ka), mb = make_begin(NULL, 0, kb);
    make_plain(&ma, 1);
    make_plain(&mb, 1);
    dump *a = make_end(&ma), *b = make_end(&mb);
    struct diff_result r;
    char *text = render(a, b, NULL, 0, &r);
    cr_assert_eq(r.verdict, DIFF_NOT_COMPARABLE);
    has(text, "sampler differs: A = greedy\\x1B[2J, B = other\\n\\x07");
    has(text, "(must match)");
    for (const char *p = text; *p != '\0'; p++) cr_assert((*p >= 0x20 && *p < 0x7f) || *p == '\n');
    free(text);
    dump_close(a);
    dump_close(b);
}

static void reason_of(const char *const *ka, const char *const *kb, char out[512]) {
    struct made ma = make_begin(NULL, 0, ka), mb = make_begin(NULL, 0, kb);
    make_plain(&ma, 1);
    make_plain(&mb, 1);
    dump *a = make_end(&ma), *b = make_end(&mb);
    struct diff_result r;
    free(render(a, b, NULL, 0, &r));
    cr_assert_eq(r.verdict, DIFF_NOT_COMPARABLE);
    (void)snprintf(out, 512, "%s", r.reason);
    dump_close(a);
    dump_close(b);
}

Test(report, what_an_import_does_not_say_is_told_as_flags_that_can_be_pasted) {
    char reason[512], value[300];
    /* two imports, each silent on another key; a value that a shell would take apart */
    const char *a[] = {"import", "csv", "sampler", "temp=1 seed=2", NULL};
    const char *b[] = {"import", "openai-chat", "repeat_penalty", "1.5", NULL};
    reason_of(a, b, reason);
    has(reason,
        "; if A ran so, import it again with -P repeat_penalty=1.5; if B ran so, import it again with -P "
        "'sampler=temp=1 seed=2'");
    /* no import, or nothing that could be pasted: no such words */
    const char *plain[] = {"sampler", "greedy", NULL}, *silent[] = {"note", "x", NULL};
    reason_of(plain, silent, reason);
    cr_assert_str_eq(reason, "sampler differs: A = greedy, B does not say");
    const char *strange[] = {"sampler", "gr\needy", NULL}, *import[] = {"import", "csv", NULL};
    reason_of(strange, import, reason);
    lacks(reason, "import it again");
    memset(value, 'x', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    const char *large[] = {"sampler", value, "repeat_penalty", value, "model.xxh3", value, NULL};
    reason_of(large, import, reason);
    lacks(reason, "import it again");
    has(reason, "repeat_penalty differs");
    cr_assert(strlen(reason) < 511, "a key was cut");
}

Test(report, reasons_and_controls_quote_foreign_text_safely) {
    const char *ka[] = {"stop", "le\x1b]0;ngth", "n_requested", "\xc2\x9b 3", NULL};
    struct made ma = make_begin(NULL, 0, ka), mb = make_begin(NULL, 0, ka);
    make_plain(&ma, 1);
    make_plain(&mb, 2);
    dump *a = make_end(&ma), *b = make_end(&mb);
    struct diff_result r;
    struct diff_control control = {0.1, "dir\x1b[2J"};
    char *text = render(a, b, &control, 0, &r);
    cr_assert_eq(r.verdict, DIFF_LENGTH);
    for (const char *p = text; *p != '\0'; p++) cr_assert((*p >= 0x20 && *p < 0x7f) || *p == '\n');
    free(text);
    dump_close(b);
    mb = make_begin(NULL, 0, ka);
    make_record(&mb, greedy(9, 20.0f, 8, 18.0f), "x", 1, NULL);
    b = make_end(&mb);
    text = render(a, b, &control, 0, &r);
    has(text, "from dir\\x1B[2J");
    free(text);
    dump_close(a);
    dump_close(b);
}

Test(report, forks_at_both_ends_have_no_previous_or_next_text) {
    for (int at = 0; at < 2; at++) {
        dump *d[2];
        for (int s = 0; s < 2; s++) {
            struct made m = make_begin(NULL, 0, NULL);
            make_plain(&m, at * 3);
            make_record(&m, greedy(1 + s, 2.0f, 2 - s, 1.0f), "", 0, NULL);
            d[s] = make_end(&m);
        }
        struct diff_result r;
        char *text = render(d[0], d[1], NULL, 0, &r);
        has(text, at ? "fork at token 3 of 4 | 4" : "the fork is at the start of the text");
        has(text, "A goes on \"\"\n");
        free(text);
        dump_close(d[0]);
        dump_close(d[1]);
    }
}

Test(report, the_csv_row_reads_back_with_its_numbers) {
    char path[] = "/tmp/forkgate-test-report-XXXXXX";
    int fd = mkstemp(path);
    cr_assert(fd >= 0);
    (void)close(fd);
    dump *a = side(0), *b = side(1);
    struct diff_result r;
    struct err err = {""}, damage = {"x.fgd: first bad block: 2, \"quoted\""};
    const struct diff_asked asked = {NULL, 0};
    cr_assert_eq(diff_streams(a, b, NULL, &r, &err), STATUS_OK);
    table_writer *w = NULL;
    cr_assert_eq(diff_csv_open(path, TABLE_CRLF, &w, &err), STATUS_OK);
    diff_csv_row(w, a, b, &r, &asked);
    diff_csv_damage(w, "x.fgd", "y.fgd", &damage, &asked);
    cr_assert_eq(table_writer_finish(w, &err), STATUS_OK, "%s", err.message);
    table *t = NULL;
    cr_assert_eq(table_read(path, &t, &err), STATUS_OK, "%s", err.message);
    cr_assert_eq(table_rows(t), 2);
    cr_assert_str_eq(table_cell(t, 0, table_find(t, "verdict"), NULL), "KNIFE-EDGE");
    cr_assert_str_eq(table_cell(t, 0, table_find(t, "fork"), NULL), "4");
    cr_assert_str_eq(table_cell(t, 0, table_find(t, "gap_a"), NULL), "0.25");
    cr_assert_str_eq(table_cell(t, 0, table_find(t, "ulps_b"), NULL), "1");
    cr_assert_str_eq(table_cell(t, 0, table_find(t, "text_a"), NULL), "\\x98\\x8A\\x1B");
    cr_assert_str_eq(table_cell(t, 1, table_find(t, "verdict"), NULL), "INVALID");
    cr_assert_str_eq(table_cell(t, 1, table_find(t, "reason"), NULL), damage.message);
    table_close(t);
    dump_close(a);
    dump_close(b);
    (void)unlink(path);
}
