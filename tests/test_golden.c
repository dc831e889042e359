/* test_golden.c - the manifest reads back what it wrote, every field follows from its dump, and streams are compared by
 * records, never by the shorter of two lengths. */
#include "golden_samples.h"

#include <math.h>

static struct err err;

TestSuite(golden, .init = sample_folder, .fini = sample_folder_remove);

static void commit_two(void) {
    struct sample a = sample_plain("holmes.txt"), b = sample_plain("watson.txt");
    dump *dumps[2] = {sample_dump(&a), sample_dump(&b)};
    sample_commit((const dump *const *)dumps, 2, "first goldens");
    dump_close(dumps[0]);
    dump_close(dumps[1]);
}

Test(golden, a_missing_manifest_is_an_empty_set) {
    struct golden_set set;
    cr_assert_eq(golden_load(sample_dir, &set, &err), STATUS_OK, "%s", err.message);
    cr_assert_eq(set.n, 0);
    golden_free(&set);
}

Test(golden, every_line_follows_from_its_dump) {
    commit_two();
    struct golden_set set;
    cr_assert_eq(golden_load(sample_dir, &set, &err), STATUS_OK, "%s", err.message);
    cr_assert_eq(set.n, 2);
    cr_assert_str_eq(set.entries[0].name, "sm_90-f16/holmes");
    cr_assert_str_eq(set.entries[0].reason, "first goldens");
    cr_assert_eq(set.entries[0].count, 128);
    cr_assert(set.entries[0].smallest_gap == 1.0, "%g", set.entries[0].smallest_gap);
    dump *d;
    cr_assert_eq(golden_open(&set, &set.entries[0], &d, &err), STATUS_OK, "%s", err.message);
    dump_close(d);
    golden_free(&set);
}

/* Replaces the first `from` of the manifest by `to`. */
static void edit_manifest(const char *from, const char *to) {
    static char text[65536];
    char path[128];
    (void)snprintf(path, sizeof path, "%s/manifest.csv", sample_dir);
    FILE *f = fopen(path, "rb");
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    char *at = strstr(text, from);
    cr_assert(at != NULL, "no %s in the manifest", from);
    f = fopen(path, "wb");
    fprintf(f, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    fclose(f);
}

static enum status open_first(void) {
    struct golden_set set;
    dump *d = NULL;
    RETURN_IF_ERROR(golden_load(sample_dir, &set, &err));
    enum status s = golden_open(&set, &set.entries[0], &d, &err);
    dump_close(d);
    golden_free(&set);
    return s;
}

Test(golden, an_edited_line_is_damage_that_names_the_field) {
    static const char *const edits[][3] = {{"sm_90-f16/holmes,", "sm_90-f16/holmex,", "name"},
                                           {",128,ab", ",127,ab", "count"},
                                           {"ab ab", "ab xb", "text_head"},
                                           {",length,", ",eos,", "stop"},
                                           {",f16,sm_90,f16", ",q8,sm_90,f16", "key"},
                                           {",32,256,", ",16,256,", "key"},
                                           {"0123456789ab", "0123456789ac", "commit"},
                                           {",seedling,", ",seedlinx,", "model"}};
    for (size_t i = 0; i < sizeof edits / sizeof edits[0]; i++) {
        commit_two();
        edit_manifest(edits[i][0], edits[i][1]);
        cr_assert_eq(open_first(), STATUS_FORMAT, "edit %zu accepted", i);
        cr_assert(strstr(err.message, edits[i][2]) != NULL, "edit %zu: %s", i, err.message);
        sample_folder_remove();
        sample_folder();
    }
}

Test(golden, a_manifest_that_repeats_or_leaves_its_folder_is_refused) {
    commit_two();
    edit_manifest("sm_90-f16/watson,", "sm_90-f16/holmes,");
    cr_assert_eq(open_first(), STATUS_FORMAT);
    cr_assert(strstr(err.message, "record 2") != NULL, "%s", err.message);
    sample_folder_remove();
    sample_folder();
    commit_two();
    edit_manifest(",sm_90-f16/", ",../sm_90-f16/");
    cr_assert_eq(open_first(), STATUS_FORMAT);
    cr_assert(strstr(err.message, "below the folder") != NULL, "%s", err.message);
}

struct gaps {
    int missing, others;
    char name[96];
};

static void note_gap(void *ctx, enum golden_gap_kind kind, const char *what) {
    struct gaps *g = ctx;
    if (kind != GOLDEN_MISSING) {
        g->others++;
        return;
    }
    g->missing++;
    (void)snprintf(g->name, sizeof g->name, "%s", what);
}

/* The manifest and the list of prompts name a stream by the same rule, whatever dots the prompt has. */
Test(golden, a_prompt_with_dots_in_its_name_is_not_missing) {
    struct sample s = sample_plain("a.b.txt");
    dump *dumps[1] = {sample_dump(&s)};
    struct golden_set set;
    struct gaps gaps = {0, 0, ""};
    char path[128];
    sample_commit((const dump *const *)dumps, 1, "first goldens");
    (void)snprintf(path, sizeof path, "%s/fixtures", sample_dir);
    cr_assert_eq(mkdir(path, 0700), 0);
    (void)snprintf(path, sizeof path, "%s/fixtures/golden_prompts.csv", sample_dir);
    FILE *f = fopen(path, "wb");
    cr_assert(f != NULL && fputs("file,quick,full,why\na.b.txt,16,16,dots\n", f) >= 0 && fclose(f) == 0);
    cr_assert_eq(golden_load(sample_dir, &set, &err), STATUS_OK, "%s", err.message);
    cr_assert_eq(golden_gaps(sample_dir, &set, note_gap, &gaps, &err), STATUS_OK, "%s", err.message);
    cr_assert(gaps.missing == 1 && gaps.others == 0, "%d missing, %d others", gaps.missing, gaps.others);
    cr_assert_str_eq(gaps.name, "sm_90-q8/a.b");
    golden_free(&set);
    dump_close(dumps[0]);
}

Test(golden, a_missing_or_damaged_dump_is_never_a_match) {
    commit_two();
    struct golden_set set;
    char path[256];
    cr_assert_eq(golden_load(sample_dir, &set, &err), STATUS_OK);
    (void)snprintf(path, sizeof path, "%s/%s", sample_dir, set.entries[0].file);
    FILE *f = fopen(path, "r+b");
    fseek(f, 3000, SEEK_SET);
    fputc(0x55, f);
    fclose(f);
    cr_assert_eq(open_first(), STATUS_FORMAT, "a flipped byte");
    cr_assert_eq(truncate(path, 4000), 0);
    cr_assert_eq(open_first(), STATUS_FORMAT, "a cut dump");
    remove(path);
    cr_assert_eq(open_first(), STATUS_IO, "no dump");
    golden_free(&set);
}

static struct golden_match compare(struct sample a, struct sample b, uint64_t n) {
    dump *x = sample_dump(&a), *y = sample_dump(&b);
    struct golden_match m = golden_compare(x, y, n);
    char text[400];
    golden_explain(x, y, &m, text, sizeof text);
    cr_assert(strlen(text) > 0, "no explanation");
    dump_close(x);
    dump_close(y);
    return m;
}

Test(golden, streams_are_compared_record_by_record_up_to_n) {
    struct sample a = sample_plain("holmes.txt"), b = a;
    struct golden_match m = compare(a, b, 64);
    cr_assert(golden_matches(&m), "equal");
    cr_assert_eq(m.compared, 64);
    b.moved = 63;
    b.shift = 1e-6f;
    m = compare(a, b, 64);
    cr_assert(!golden_matches(&m) && m.first_row == 63 && m.n_rows == 1, "the last row counts");
    m = compare(a, b, 63);
    cr_assert(golden_matches(&m), "before it everything is equal");
    b = a;
    b.swapped = 10;
    m = compare(a, b, 64);
    cr_assert(!golden_matches(&m) && m.first_token == 10, "a token");
    b = a;
    b.count = 40;
    m = compare(a, b, 64);
    cr_assert(!golden_matches(&m) && m.lengths_differ, "shorter is not equal");
    m = compare(a, b, 40);
    cr_assert(golden_matches(&m), "both hold 40");
}

Test(golden, a_stream_that_cannot_be_judged_cannot_be_a_golden) {
    struct sample s = sample_plain("holmes.txt");
    struct golden_entry e;
    s.moved = 5;
    s.shift = NAN;
    dump *d = sample_dump(&s);
    cr_assert_eq(golden_describe(d, &e, &err), STATUS_INVALID, "NaN");
    dump_close(d);
    s = sample_plain("holmes.txt");
    s.extra_key = "follow";
    d = sample_dump(&s);
    cr_assert_eq(golden_describe(d, &e, &err), STATUS_USAGE, "forced");
    dump_close(d);
    s = sample_plain("holmes.txt");
    s.count = 0;
    d = sample_dump(&s);
    cr_assert_eq(golden_describe(d, &e, &err), STATUS_USAGE, "empty");
    dump_close(d);
}
