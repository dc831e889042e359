/* test_report_html.c - the HTML report: hostile text stays text, tags balance, links lead somewhere, nothing is fetched. */
#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gates/page.h"
#include "gates/report_html.h"
#include "gates/report_sum.h"

#define HOSTILE "</p><script>alert('x')</script>\" onload=\"y\" & \xff\x01\xe2\x80\xae\xe2\x81\xa6"

static const char explain_csv[] = "step,pos,layer,op,tensor,kernel_a,kernel_b,rows,cols,differing,max_abs,"
                                  "row_max,max_ulp,worst,worst_a,worst_b,first\n"
                                  "0,4,-1,embed,embed,embed,embed,1,8,0,0,1,0,0,0,0,0\n"
                                  "0,4,0,attention,attn,<b>k</b>,k,1,8,3,1e-6,1,12,0,0,0,1\n"
                                  "0,4,0,add,attn_residual,add,add,1,8,8,2e-6,1,12,0,0,0,0\n"
                                  "0,4,1,add,ffn_residual,add,add,1,8,8,5e-5,2,12,0,0,0,0\n"
                                  "7,11,0,attention,attn,k,k,1,8,3,1e-7,1,12,0,0,0,0\n"
                                  "7,11,1,add,ffn_residual,add,add,1,8,8,5e-4,2,12,0,0,0,0\n";
static const char mutants_csv[] =
    "date,backend,device,arch,commit,command,id,where,op,class,size,legal,tier,cell,expected,killed_by,how,"
    "ms,verdict\n"
    "d,cpu,cpu,sm_90,c,x,mm-skip,twin,matmul,any,large,0,parity,killed,1,op.matmul,<i>,1,ok\n"
    "d,cpu,cpu,sm_90,c,x,mm-skip,twin,matmul,any,large,0,identity,survived,1,,,1,ok\n"
    "d,cpu,cpu,sm_90,c,x,rope-fast,twin,rope,any,ulp,0,parity,survived,1,,,1,HOLE\n"
    /* of another command: the same plant, not one more */
    "d,cpu,cpu,sm_90,c,y,mm-skip,twin,matmul,any,large,0,tolerance,survived,0,,,1,ok\n";

static struct evidence rows[6];

static void make_rows(void) {
    memset(rows, 0, sizeof rows);
    for (int i = 0; i < 6; i++) {
        rows[i].tier = i < 3 ? TIER_PARITY : TIER_IDENTITY;
        rows[i].verdict = VERDICT_PASS;
        rows[i].value = 0.25;
        rows[i].bound = 1;
        rows[i].ms = 2;
        (void)strcpy(rows[i].gate, i < 3 ? "op.add" : "stream.golden.f16");
        (void)strcpy(rows[i].arm, "oracle");
        (void)strcpy(rows[i].metric, "max_abs");
        (void)strcpy(rows[i].kernels, i < 3 ? "add" : "add rmsnorm");
    }
    rows[4].verdict = VERDICT_FAIL;
    rows[4].value = 3;
    (void)strcpy(rows[4].test_case, HOSTILE);
    (void)strcpy(rows[4].note, HOSTILE);
    (void)strcpy(rows[4].repro, "forkgate run --only " HOSTILE);
    (void)strcpy(rows[2].gate, "<gate>");
    rows[2].verdict = VERDICT_SKIP;
    rows[2].value = rows[2].bound = (double)NAN;
    (void)strcpy(rows[2].note, "needs sm_100");
}

static char *write_page(const struct report_page *p, enum status want) {
    char *text = NULL;
    size_t n = 0;
    struct err err = {""};
    FILE *f = open_memstream(&text, &n);
    enum status s = report_write_html(NULL, f, p, &err);
    (void)fclose(f);
    cr_assert_eq(s, want, "%s: %s", status_name(s), err.message);
    if (want == STATUS_OK) cr_assert_eq(strlen(text), n, "a NUL byte in the page");
    return text;
}

static void lacks(const char *page, const char *text) {
    cr_assert(strstr(page, text) == NULL, "the page has what it must not: %.40s", text);
}
static void has(const char *page, const char *text) {
    cr_assert(strstr(page, text) != NULL, "the page lacks: %.60s", text);
}

/* Every tag closes in order; a table has a caption, a drawing a title and a description. */
static void check_structure(const char *page) {
    static const char *const empty[] = {"meta", "link", "path", "rect", "!DOCTYPE"};
    char stack[64][16];
    int depth = 0;
    for (const char *p = strchr(page, '<'); p != NULL; p = strchr(p + 1, '<')) {
        char name[16] = "";
        int closes = p[1] == '/', self = 0;
        (void)sscanf(p + 1 + closes, "%15[a-zA-Z0-9!]", name);
        cr_assert(name[0] != '\0', "a raw less-than sign");
        for (size_t i = 0; i < sizeof empty / sizeof empty[0]; i++) self |= strcmp(empty[i], name) == 0;
        if (self) continue;
        if (closes) {
            cr_assert(depth > 0 && strcmp(stack[depth - 1], name) == 0, "%s closes, but %s is open", name,
                      depth > 0 ? stack[depth - 1] : "nothing");
            depth--;
        } else {
            cr_assert(depth < 64, "deep");
            (void)strcpy(stack[depth++], name);
        }
        const char *next = strchr(p, '>') + 1;
        if (!closes && strcmp(name, "table") == 0)
            cr_assert(strncmp(next, "<caption>", 9) == 0, "a table without caption");
        if (!closes && strcmp(name, "svg") == 0)
            cr_assert(strncmp(next, "\n<title ", 8) == 0, "a drawing without title");
    }
    cr_assert_eq(depth, 0, "%s is left open", depth > 0 ? stack[depth - 1] : "");
}

/* Every link inside the page leads to one element; nothing comes from elsewhere. */
static void check_links(const char *page) {
    for (const char *p = strstr(page, "href=\"#"); p != NULL; p = strstr(p + 1, "href=\"#")) {
        char id[80], want[96];
        cr_assert_eq(sscanf(p + 7, "%79[^\"]", id), 1, "an empty link");
        (void)snprintf(want, sizeof want, "id=\"%s\"", id);
        const char *first = strstr(page, want);
        cr_assert(first != NULL, "nothing is called %s", id);
        cr_assert(strstr(first + 1, want) == NULL, "two are called %s", id);
    }
    static const char *const outside[] = {"http:",   "https:",  "src=",    "url(",
                                          "@import", "<script", "<iframe", " style="};
    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++)
        cr_assert(strstr(page, outside[i]) == NULL, "%s in the page", outside[i]);
}

static void check_page(const char *page) {
    check_structure(page);
    check_links(page);
    lacks(page, "</p><script");
    lacks(page, "\" onload=\"");
    lacks(page, "\xff");
    lacks(page, "\xe2\x80\xae");
    lacks(page, "\xe2\x81\xa6");
    has(page, "prefers-color-scheme:dark");
    has(page, "@media print");
    has(page, "default-src 'none'");
    has(page, "lang=\"en\"");
}

Test(report_html, foreign_text_stays_text) {
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    page_text(f, HOSTILE);
    page_bytes(f, "a\0b\n\\ \xe2\x80\x8f\xef\xbb\xbf", 12);
    (void)fclose(f);
    cr_assert_str_eq(
        text,
        "&lt;/p&gt;&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot; onload=&quot;y&quot; &amp; "
        "\\xFF\\x01\\xE2\\x80\\xAE\\xE2\\x81\\xA6a\\x00b\\n\\\\ \\xE2\\x80\\x8F\\xEF\\xBB\\xBF",
        "%s", text);
    free(text);
}

Test(report_html, a_run_verdict_first) {
    struct report_page p;
    memset(&p, 0, sizeof p);
    make_rows();
    p.rows = rows;
    p.n = 6;
    char *page = write_page(&p, STATUS_OK);
    check_page(page);
    has(page,
        "<h1>FAIL: must not land (cpu only)</h1>\n<p>1 gates passed, 1 failed, 1 skipped; 6 checks</p>");
    has(page, "needs sm_100");
    has(page, "Claim: greedy streams are the golden ones");
    has(page, "Not in this report: Fork (--diff A.fgd B.fgd)");
    has(page, "rmsnorm</th><td></td><td></td><td>&#9679;<span class=\"vh\">ran</span></td>");
    has(page, "&lt;gate&gt;");
    cr_assert(strstr(page, "<h1>") < strstr(page, "<nav"), "the verdict comes first");
    free(page);
    for (int i = 0; i < 6; i++) rows[i].verdict = VERDICT_PASS;
    page = write_page(&p, STATUS_OK);
    check_page(page);
    has(page, "<h1>PASS of what was run, not a landing verdict (");
    lacks(page, "id=\"failures\"");
    free(page);
    for (int i = 0; i < 6; i++) rows[i].verdict = VERDICT_SKIP;
    page = write_page(&p, STATUS_OK);
    check_page(page);
    has(page, "NOT JUDGED");
    free(page);
}

static dump *stream(int n, int fork, const char *text) {
    struct provenance p;
    struct err err = {""};
    dump_writer *w = NULL;
    dump *d = NULL;
    provenance_init(&p);
    cr_assert_eq(provenance_set(&p, "logits", "f32", &err), STATUS_OK);
    cr_assert_eq(provenance_set(&p, "note", HOSTILE, &err), STATUS_OK);
    cr_assert_eq(dump_writer_open(NULL, &p, 0, 0, &w, &err), STATUS_OK, "%s", err.message);
    for (int i = 0; i < n; i++) {
        struct dump_record r;
        memset(&r, 0, sizeof r);
        int other = i >= fork;
        r.token = r.id1 = other ? 2 : 1;
        r.id2 = other ? 1 : 2;
        r.logit1 = 5.0f;
        r.logit2 = i == 3 ? 5.0f : i == fork || i == 8 ? 4.9995f : 2.0f;
        r.flags = i == 4 ? DUMP_NO_TOP2 : 0;
        const char *t = other ? text : "x\xf0\x9f ";
        cr_assert_eq(dump_writer_add(w, &r, (const uint8_t *)t, (uint32_t)strlen(t), NULL, NULL, &err),
                     STATUS_OK);
    }
    cr_assert_eq(dump_writer_finish(w, &p, &d, &err), STATUS_OK, "%s", err.message);
    provenance_free(&p);
    return d;
}

Test(report_html, a_fork_side_by_side) {
    struct report_page p;
    struct diff_result r;
    struct diff_control control = {0.01, "control <dir>"};
    struct err err = {""};
    memset(&p, 0, sizeof p);
    dump *a = stream(2000, 2000, ""), *b = stream(1500, 8, HOSTILE);
    cr_assert_eq(diff_streams(a, b, &control, &r, &err), STATUS_OK);
    cr_assert_eq(r.fork, 8, "fork at %d", (int)r.fork);
    p.a = a;
    p.b = b;
    p.diff = &r;
    char *page = write_page(&p, STATUS_OK);
    check_page(page);
    has(page, "<h1>KNIFE-EDGE at token <a href=\"#fork\">8</a>");
    has(page, "<mark>x\\xF0\\x9F </mark>");
    has(page, "<mark>&lt;/p&gt;&lt;script&gt;");
    has(page, "near-tie: within 2 x delta = 0.02");
    has(page, "fork at 8");
    has(page,
        " 289.0l3 3-3 3-3-3z"); /* the exact tie at token 3 is on the bottom line, though four tokens share a point */
    has(page,
        "1999 of A&#39;s 2000 tokens have a known gap; the smallest is 0 at token 3; 2 lie in the band");
    free(page);
    dump_close(b);
    b = stream(2000, 2000, ""); /* identical: no fork to link to */
    cr_assert_eq(diff_streams(a, b, NULL, &r, &err), STATUS_OK);
    p.b = b;
    page = write_page(&p, STATUS_OK);
    check_page(page);
    has(page, "<h1>IDENTICAL</h1>");
    lacks(page, "#fork");
    free(page);
    dump_close(a);
    dump_close(b);
}

static table *read(const char *text) {
    table *t = NULL;
    struct err err = {""};
    cr_assert_eq(table_read_memory(text, strlen(text), "t.csv", &t, &err), STATUS_OK, "%s", err.message);
    return t;
}

Test(report_html, growth_and_faults) {
    struct report_page p;
    memset(&p, 0, sizeof p);
    table *explain = read(explain_csv), *mutants = read(mutants_csv);
    p.explain = explain;
    p.mutants = mutants;
    char *page = write_page(&p, STATUS_OK);
    check_page(page);
    has(page, "Diamonds: step 0, where it began. Crosses: step 7");
    has(page, "&lt;b&gt;k&lt;/b&gt;");
    has(page, "Planted faults by verdict: 1 ok, 1 HOLE.");
    has(page, "<td class=\"good\">killed</td><td class=\"warn\">survived</td>"
              "<td class=\"warn\">survived</td><td>");
    has(page, "</th><td class=\"bad\">HOLE</td><td>");
    has(page, "<td class=\"muted\">not run</td><td>");
    free(page);
    p.mutants = explain; /* the wrong table is refused by name */
    free(write_page(&p, STATUS_FORMAT));
    p.mutants = NULL;
    p.explain = mutants;
    free(write_page(&p, STATUS_FORMAT));
    p.explain = NULL;
    free(write_page(&p, STATUS_USAGE));
    table_close(explain);
    table_close(mutants);
}

/* Rows can be missing everything; a table of no rows is a table. */
Test(report_html, empty_tables) {
    struct report_page p;
    memset(&p, 0, sizeof p);
    char head[512];
    (void)snprintf(head, sizeof head, "%.*s", (int)strcspn(explain_csv, "\n") + 1, explain_csv);
    table *explain = read(head);
    (void)snprintf(head, sizeof head, "%.*s", (int)strcspn(mutants_csv, "\n") + 1, mutants_csv);
    table *mutants = read(head);
    p.explain = explain;
    p.mutants = mutants;
    char *page = write_page(&p, STATUS_OK);
    check_page(page);
    has(page, "No op differs.");
    free(page);
    table_close(explain);
    table_close(mutants);
}

/* Every gate of these tiers, on the backend, PASS; the suite on the first backend alone. */
static size_t whole(struct evidence *out, unsigned tiers, const char *backend) {
    size_t n = 0;
    for (size_t i = 0; gate_registry[i] != NULL; i++) {
        if ((tiers & 1u << (unsigned)gate_registry[i]->tier) == 0) continue;
        memset(&out[n], 0, sizeof out[n]);
        out[n].tier = gate_registry[i]->tier;
        strcpy(out[n].gate, gate_registry[i]->id);
        strcpy(out[n++].backend, backend);
    }
    return n;
}

static void headline(const struct evidence *of, size_t n, const char *want) {
    struct report_sum s;
    struct err err = {""};
    cr_assert_eq(report_sum_rows(of, n, &s, &err), STATUS_OK);
    cr_assert_str_eq(report_sum_headline(&s), want);
    cr_assert_eq(s.next[0] != '\0', strncmp(want, "PASS of", 7) == 0, "%s", s.next);
    report_sum_free(&s);
}

Test(report_html, only_a_whole_run_may_land) {
    static struct evidence e[200];
    const unsigned parity = 1u << TIER_PARITY, identity = 1u << TIER_IDENTITY, suite = 1u << TIER_SUITE;
    size_t n = whole(e, parity | suite | identity, "cpu");
    headline(e, n, "PASS: may land (cpu only)");
    headline(e, n - 1,
             "PASS of what was run, not a landing verdict (parity, suite, identity 14 of 15 gates; "
             "cpu only)");
    size_t more = whole(e + n, parity | identity, "cuda");
    headline(e, n + more, "PASS: may land (cpu and cuda)");
    e[n + more - 1].verdict = VERDICT_FAIL;
    headline(e, n + more, "FAIL: must not land (cpu and cuda)");
    headline(e, n + 1,
             "PASS of what was run, not a landing verdict (parity: op.add only, suite, identity 0 of "
             "15 gates; cpu and cuda)");
    headline(
        e + n, 1,
        "PASS of what was run, not a landing verdict (parity: op.add only; not run: suite, identity; cuda "
        "only)");
    n = whole(e, parity | suite | 1u << TIER_TOLERANCE, "cpu");
    headline(e, n,
             "PASS of what was run, not a landing verdict (parity, suite, tolerance; not run: identity; cpu "
             "only)");
    n = whole(e, parity | suite | identity | 1u << TIER_TOLERANCE, "cpu");
    headline(e, n, "PASS: may land (cpu only)");
    for (size_t i = 0; i < n; i++)
        if (strncmp(e[i].gate, "tolerance.stream.", 17) == 0) e[i].verdict = VERDICT_SKIP;
    headline(e, n,
             "PASS of what was run, not a landing verdict (parity, suite, identity, tolerance; cpu only)");
    n = whole(e, parity | suite, "cpu");
    headline(e, n,
             "PASS of what was run, not a landing verdict (parity, suite; not run: identity; cpu only)");
}

static void next_of(const struct evidence *of, size_t n, const char *want) {
    struct report_sum s;
    struct err err = {""};
    cr_assert_eq(report_sum_rows(of, n, &s, &err), STATUS_OK);
    cr_assert_str_eq(s.next, want);
    report_sum_free(&s);
}

Test(report_html, a_reduced_run_names_the_whole_one) {
    static struct evidence e[200];
    const unsigned all = 1u << TIER_PARITY | 1u << TIER_IDENTITY | 1u << TIER_SUITE;
    size_t n = whole(e, all, "cpu");
    strcpy(e[n - 1].repro, "forkgate run --only stream.repeat.q8 --backend cpu -m 'my model.gguf' --geometry "
                           "fa_tkv=16 --battery small --class fa --cause 'it'\"'\"'s -m x'");
    headline(
        e, n,
        "PASS of what was run, not a landing verdict (parity, suite, identity on battery small; cpu only)");
    next_of(e, n,
            "forkgate run -m 'my model.gguf' --geometry fa_tkv=16 --class fa --cause 'it'\"'\"'s -m x'");
    strcpy(e[n - 1].arm, "golden");
    e[n - 1].verdict = VERDICT_SKIP; /* no golden of this model */
    headline(e, n,
             "PASS of what was run, not a landing verdict (parity, suite, identity on battery small without "
             "goldens "
             "of this model; cpu only)");
    e[0].verdict = VERDICT_INCONCLUSIVE; /* small batteries decide nothing in tier 4 */
    next_of(e, n,
            "forkgate run -m 'my model.gguf' --geometry fa_tkv=16 --class fa --cause 'it'\"'\"'s -m x'");
    e[0].verdict = VERDICT_FAIL;
    next_of(e, n, "");
    n = whole(e, 1u << TIER_PARITY, "cuda");
    next_of(e, n, "forkgate run --backend cuda");
}
