/* test_bisect.c - the search finds what it must in every small list; a build that cannot be judged is never blamed. */
#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gates/bisect.h"
#include "gates/child_process.h"
#include "gates/file_hash.h"

/* ---- the search -------------------------------------------------------------------------------------------------- */

struct list {
    int n, first_bad; /* n: none */
    unsigned skip;    /* bit i: item i cannot be tested */
    int asked[16];
};

static enum status test_item(void *ctx, int i, enum bisect_outcome *out, struct err *err) {
    struct list *l = ctx;
    (void)err;
    l->asked[i]++;
    *out = i >= l->first_bad ? BISECT_BAD : BISECT_GOOD;
    if ((l->skip >> i & 1u) != 0) *out = BISECT_UNTESTABLE;
    return STATUS_OK;
}

static int testable(const struct list *l, int i) {
    return (l->skip >> i & 1u) == 0;
}

static void check(struct list *l) {
    struct bisect_result r;
    struct err err = {""};
    int good = -1, bad = -1; /* the closest testable pair */
    for (int i = 0; i < l->n; i++) {
        if (testable(l, i) && i < l->first_bad) good = i;
        if (testable(l, i) && i >= l->first_bad && bad < 0) bad = i;
    }
    memset(l->asked, 0, sizeof l->asked);
    cr_assert_eq(bisect_search(l->n, test_item, l, &r, &err), STATUS_OK);
    for (int i = 0; i < l->n; i++) cr_assert(l->asked[i] <= 1, "item %d tested %d times", i, l->asked[i]);
    enum bisect_end want = good < 0 && bad < 0 ? BISECT_NONE_TESTED
                           : good < 0          ? BISECT_ALL_BAD
                           : bad < 0           ? BISECT_NONE_BAD
                           : bad - good == 1   ? BISECT_FOUND
                                               : BISECT_AMONG;
    cr_assert_eq(r.end, want, "n %d, first bad %d, skip %x: end %d, want %d", l->n, l->first_bad, l->skip,
                 (int)r.end, (int)want);
    if (good >= 0 && bad >= 0)
        cr_assert(r.last_good == good && r.first_bad == bad, "%d, %d", r.last_good, r.first_bad);
    if (good < 0 && bad >= 0) cr_assert_eq(r.first_bad, bad);
    if (bad < 0 && good >= 0) cr_assert_eq(r.last_good, good);
}

Test(bisect, every_list_of_up_to_eight_builds_with_every_set_of_untestable_ones) {
    struct list l;
    for (l.n = 1; l.n <= 8; l.n++)
        for (l.first_bad = 0; l.first_bad <= l.n; l.first_bad++)
            for (l.skip = 0; l.skip < 1u << l.n; l.skip++) check(&l);
}

Test(bisect, sixteen_builds_take_six_tests) {
    struct list l = {16, 0, 0, {0}};
    struct bisect_result r;
    struct err err = {""};
    for (l.first_bad = 1; l.first_bad < 16; l.first_bad++) {
        cr_assert_eq(bisect_search(16, test_item, &l, &r, &err), STATUS_OK);
        cr_assert_eq(r.first_bad, l.first_bad);
        cr_assert(r.tests <= 6, "%d tests", r.tests);
    }
}

static enum status broken_test(void *ctx, int i, enum bisect_outcome *out, struct err *err) {
    (void)ctx;
    (void)out;
    return err_set(err, STATUS_IO, "disk full at %d", i);
}

Test(bisect, trouble_of_a_test_ends_the_search) {
    struct bisect_result r;
    struct err err = {""};
    cr_assert_eq(bisect_search(4, broken_test, NULL, &r, &err), STATUS_IO);
    cr_assert_str_eq(err.message, "disk full at 0");
}

/* ---- builds: scripts that copy a prepared dump ------------------------------------------------------------------- */

static char folder[256];

static void in_folder(const char *name, char out[512]) {
    (void)snprintf(out, 512, "%s/%s", folder, name);
}

static void script(const char *name, const char *body) {
    char path[512];
    in_folder(name, path);
    FILE *f = fopen(path, "wb");
    cr_assert(f != NULL, "%s", path);
    fprintf(f, "#!/bin/sh\n%s\n", body);
    cr_assert_eq(fclose(f), 0);
    cr_assert_eq(chmod(path, 0700), 0);
}

/* tokens 1..n with row hashes of seed + i; from `fork` on other tokens, from `drift` on other hashes; nan_at UNHASHED: no
 * hashes at all */
#define UNHASHED (-2)
static void make_dump(const char *name, int n, int fork, int drift, int nan_at) {
    char path[512];
    struct provenance p;
    struct err err = {""};
    dump_writer *w = NULL;
    in_folder(name, path);
    provenance_init(&p);
    cr_assert_eq(provenance_set(&p, "n_requested", "6", &err), STATUS_OK);
    cr_assert_eq(provenance_set(&p, "sampler", "temp=0.8,seed=7", &err), STATUS_OK);
    cr_assert_eq(dump_writer_open(path, &p, 0, 0, &w, &err), STATUS_OK, "%s", err.message);
    for (int i = 0; i < n; i++) {
        struct dump_record r;
        int seed = i >= drift ? 100 + i : i;
        memset(&r, 0, sizeof r);
        r.token = i >= fork ? 50 + i : i + 1;
        r.id1 = r.token;
        r.id2 = 0;
        r.logit1 = 2.0f;
        if (nan_at == UNHASHED) r.flags = DUMP_NO_HASH;
        if (i == nan_at) memset(&r.logit1, 0xff, sizeof r.logit1);
        r.row = hash_bytes(&seed, sizeof seed);
        cr_assert_eq(dump_writer_add(w, &r, (const uint8_t *)"x", 1, NULL, NULL, &err), STATUS_OK, "%s",
                     err.message);
    }
    cr_assert_eq(dump_writer_finish(w, &p, NULL, &err), STATUS_OK, "%s", err.message);
    provenance_free(&p);
}

static void copier(const char *name, const char *dump_name, int exit_code) {
    char body[1024];
    (void)snprintf(body, sizeof body,
                   "echo \"$@\" >>%s/args\nwhile [ $# -gt 1 ]; do [ \"$1\" = -o ] && cp %s/%s \"$2\"; shift; "
                   "done\nexit %d",
                   folder, folder, dump_name, exit_code);
    script(name, body);
}

static void setup(void) {
    struct err err = {""};
    cr_assert_eq(child_folder_make("forkgate-test-bisect", folder, &err), STATUS_OK, "%s", err.message);
    make_dump("golden.fgd", 6, 99, 99, -1);
    make_dump("forked.fgd", 6, 4, 4, -1);
    make_dump("drifted.fgd", 6, 99, 2, -1);
    make_dump("short.fgd", 5, 99, 99, -1);
    make_dump("nan.fgd", 3, 99, 99, 2);
    copier("good", "golden.fgd", 0);
    copier("forked", "forked.fgd", 0);
    copier("drifted", "drifted.fgd", 0);
    copier("short", "short.fgd", 0);
    copier("nan", "nan.fgd", 2);
    copier("refuse", "no-such-file", 2);
    copier("silent", "no-such-file", 0);
    script("crash", "kill -SEGV $$");
    script("hang", "sleep 60");
    script("half", "while [ $# -gt 1 ]; do [ \"$1\" = -o ] && echo FGDUMP1 >\"$2\"; shift; done");
}

static void teardown(void) {
    child_folder_remove(folder);
}

TestSuite(builds, .init = setup, .fini = teardown);

static struct bisect_item judge(const char *name, int stream_only, int n_tokens) {
    static char path[512];
    char golden[512];
    struct err err = {""};
    struct engine_config config = engine_config_default();
    struct bisect_request r;
    struct bisect_item item;
    dump *d = NULL;
    in_folder(name, path);
    in_folder("golden.fgd", golden);
    cr_assert_eq(dump_open(golden, &d, &err), STATUS_OK, "%s", err.message);
    memset(&r, 0, sizeof r);
    memset(&item, 0, sizeof item);
    item.binary = path;
    r.golden = d;
    r.model = "model.gguf";
    r.prompt_text = "x";
    r.config = &config;
    r.stream_only = stream_only;
    r.n_tokens = n_tokens;
    r.timeout_s = 0.5;
    cr_assert_eq(bisect_judge(&r, &item, &err), STATUS_OK, "%s", err.message);
    dump_close(d);
    return item;
}

Test(builds, each_kind_of_answer_is_told_apart) {
    static const struct {
        char name[12];
        int stream_only, n, outcome, step;
        char reason[40];
    } cases[] = {{"good", 0, 0, BISECT_GOOD, 0, "6 tokens"},
                 {"forked", 0, 0, BISECT_BAD, 4, "tokens differ from step 4"},
                 {"forked", 0, 4, BISECT_BAD, 4, "the stream ends elsewhere"},
                 {"drifted", 0, 0, BISECT_BAD, 2, "logits differ from step 2"},
                 {"drifted", 1, 0, BISECT_GOOD, 0, "6 tokens, all equal"},
                 {"short", 0, 0, BISECT_BAD, 5, "the stream ends elsewhere"},
                 {"nan", 0, 0, BISECT_BAD, 2, "INVALID from step 2"},
                 {"refuse", 0, 0, BISECT_UNTESTABLE, 0, "exit 2"},
                 {"silent", 0, 0, BISECT_UNTESTABLE, 0, "stream.fgd"},
                 {"half", 0, 0, BISECT_UNTESTABLE, 0, "stream.fgd"},
                 {"crash", 0, 0, BISECT_UNTESTABLE, 0, "killed by signal 11"},
                 {"hang", 0, 0, BISECT_UNTESTABLE, 0, "timed out"},
                 {"absent", 0, 0, BISECT_UNTESTABLE, 0, "cannot be run"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct bisect_item item = judge(cases[i].name, cases[i].stream_only, cases[i].n);
        cr_assert_eq((int)item.outcome, cases[i].outcome, "%s: %s (%s)", cases[i].name,
                     bisect_outcome_name(item.outcome), item.reason);
        cr_assert_eq(item.step, cases[i].step, "%s: step %d", cases[i].name, item.step);
        cr_assert(strstr(item.reason, cases[i].reason) != NULL, "%s: %s", cases[i].name, item.reason);
    }
}

Test(builds, a_build_is_run_as_the_golden_was) {
    char path[512], line[1024] = "";
    (void)judge("good", 0, 0);
    in_folder("args", path);
    FILE *f = fopen(path, "rb");
    cr_assert(f != NULL && fgets(line, (int)sizeof line, f) != NULL);
    (void)fclose(f);
    static const char *const wanted[] = {"generate -m model.gguf -p x -n 6 -o ", "--route f16",
                                         "--temp 0.8 --seed 7", "--geometry fa_tq=64,fa_tkv=32"};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        cr_assert(strstr(line, wanted[i]) != NULL, "%s lacks %s", line, wanted[i]);
}

/* ---- state ------------------------------------------------------------------------------------------------------- */

struct rig {
    struct bisect_request r;
    struct engine_config config;
    struct bisect_item items[4];
    char paths[4][512], state[512];
    dump *golden;
};

static void open_rig(struct rig *g) {
    static const char *const names[4] = {"good", "good2", "crash", "forked"};
    char golden[512];
    struct err err = {""};
    memset(g, 0, sizeof *g);
    g->config = engine_config_default();
    copier("good2", "golden.fgd", 0);
    in_folder("golden.fgd", golden);
    in_folder("state.csv", g->state);
    cr_assert_eq(dump_open(golden, &g->golden, &err), STATUS_OK, "%s", err.message);
    for (int i = 0; i < 4; i++) {
        in_folder(names[i], g->paths[i]);
        g->items[i].binary = g->paths[i];
    }
    g->r.items = g->items;
    g->r.n = 4;
    g->r.golden = g->golden;
    g->r.model = "model.gguf";
    g->r.prompt_text = "x";
    g->r.config = &g->config;
    g->r.state = g->state;
}

Test(builds, the_state_file_is_used_again_for_the_same_question_only) {
    struct rig first, again;
    struct bisect_result r;
    struct err err = {""};
    open_rig(&first);
    cr_assert_eq(bisect_run(&first.r, &r, &err), STATUS_OK, "%s", err.message);
    cr_assert(r.end == BISECT_AMONG && r.last_good == 1 && r.first_bad == 3, "end %d: %d, %d", (int)r.end,
              r.last_good, r.first_bad);
    open_rig(&again);
    copier("good2", "forked.fgd", 0); /* rebuilt: other bytes, so its old answer is void */
    cr_assert_eq(bisect_run(&again.r, &r, &err), STATUS_OK, "%s", err.message);
    cr_assert(r.end == BISECT_FOUND && r.last_good == 0 && r.first_bad == 1, "end %d: %d, %d", (int)r.end,
              r.last_good, r.first_bad);
    cr_assert(again.items[0].reused && again.items[3].reused && !again.items[1].reused);
    dump_close(again.golden);
    dump_close(first.golden);
}

/* Every option of a build is part of the question: one that may not change a bit can be what is searched for. */
Test(builds, another_question_is_not_answered_from_the_state_file) {
    struct rig g;
    struct bisect_result result;
    struct err err = {""};
    open_rig(&g);
    cr_assert_eq(bisect_run(&g.r, &result, &err), STATUS_OK, "%s", err.message);
    dump_close(g.golden);
    for (int i = 0; i < 7; i++) {
        open_rig(&g);
        g.r.stream_only = i == 0;
        g.r.runs = i == 1 ? 2 : 0;
        g.r.timeout_s = i == 2 ? 5 : 0;
        if (i == 3) g.config.chunk = 1;
        if (i == 4) g.config.compute.graphs = 0;
        if (i == 5) g.config.compute.simd = SIMD_SCALAR;
        if (i == 6) g.config.compute.n_threads++;
        cr_assert_eq(bisect_run(&g.r, &result, &err), STATUS_USAGE, "question %d was answered", i);
        cr_assert(strstr(err.message, "answers another question") != NULL, "%s", err.message);
        dump_close(g.golden);
    }
}

/* Rows without a hash are not equal: a golden of such refuses the question, a build of such cannot be judged. */
Test(builds, rows_without_a_hash_prove_nothing) {
    struct rig g;
    struct bisect_result result;
    struct err err = {""};
    char path[512];
    in_folder("golden.fgd", path);
    make_dump("unhashed.fgd", 6, 99, 99, UNHASHED);
    make_dump("unhashed-fork.fgd", 6, 3, 99, UNHASHED);
    copier("unhashed", "unhashed.fgd", 0);
    copier("unhashed-fork", "unhashed-fork.fgd", 0);
    struct bisect_item item = judge("unhashed", 0, 0);
    cr_assert(item.outcome == BISECT_UNTESTABLE &&
                  strstr(item.reason, "no hash of the logits at step 0") != NULL,
              "%s: %s", bisect_outcome_name(item.outcome), item.reason);
    cr_assert_eq((int)judge("unhashed", 1, 0).outcome, BISECT_GOOD);
    item = judge("unhashed-fork", 0, 0);
    cr_assert(item.outcome == BISECT_BAD && item.step == 3, "%s", item.reason);
    make_dump("golden.fgd", 6, 99, 99, UNHASHED);
    open_rig(&g);
    cr_assert_eq(bisect_run(&g.r, &result, &err), STATUS_USAGE);
    cr_assert(strstr(err.message, "no hashes of its rows") != NULL, "%s", err.message);
    g.r.stream_only = 1;
    cr_assert_eq(bisect_run(&g.r, &result, &err), STATUS_OK, "%s", err.message);
    dump_close(g.golden);
}

Test(builds, a_file_hash_is_the_hash_of_its_bytes) {
    char path[512];
    struct hash128 got, want = hash_bytes("#!/bin/sh\nsleep 60\n", 19);
    struct err err = {""};
    in_folder("hang", path);
    cr_assert_eq(file_hash(path, &got, &err), STATUS_OK, "%s", err.message);
    cr_assert(hash_equal(&got, &want));
    in_folder("absent", path);
    cr_assert_eq(file_hash(path, &got, &err), STATUS_IO);
    cr_assert(strstr(err.message, "absent") != NULL, "%s", err.message);
}
