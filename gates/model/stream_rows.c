/* stream_rows.c - evidence rows of the gates that run models. See streams.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gates/compare.h"
#include "gates/model/streams.h"

void streams_note_kernels(engine *e, char *out, size_t room) {
    struct kernel_count counts[BACKEND_KERNELS_MAX];
    int n = e == NULL ? 0 : engine_kernel_counts(e, counts);
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; i < n && used < room; i++)
        if (counts[i].calls > 0)
            used += (size_t)snprintf(out + used, room - used, "%s%s", used > 0 ? " " : "", counts[i].name);
}

static void start_row(const struct stream_arm *a, const char *arm, const char *test_case, const char *metric,
                      struct evidence *row) {
    memset(row, 0, sizeof *row);
    (void)snprintf(row->test_case, sizeof row->test_case, "%s", test_case);
    (void)snprintf(row->arm, sizeof row->arm, "%s", arm);
    (void)snprintf(row->metric, sizeof row->metric, "%s", metric);
    (void)snprintf(row->grade, sizeof row->grade, "measured");
    streams_note_kernels(a->engine, row->kernels, sizeof row->kernels);
    (void)snprintf(row->repro, sizeof row->repro, "forkgate run --only %s", a->gate);
}

static void note_provenance(const dump *d, char out[40]) {
    char *text = NULL;
    size_t n = 0;
    if (provenance_format(dump_provenance(d), &text, &n, NULL) != STATUS_OK) return;
    struct hash128 h = hash_bytes(text, n);
    hash_format(&h, out);
    free(text);
}

static struct evidence compare_row(const struct stream_arm *a, const char *arm, const char *prompt,
                                   const dump *want, const dump *got, uint64_t n) {
    struct evidence row;
    const char *why = NULL;
    struct golden_match m = golden_compare(want, got, n);
    start_row(a, arm, prompt, "rows", &row);
    int same = golden_matches(&m);
    row.value = same ? 0 : m.n_rows > 0 ? (double)m.n_rows : 1;
    row.bound = 0;
    row.verdict = compare_judge(row.value, row.bound);
    if (dump_first_invalid(want, &why) != UINT64_MAX || dump_first_invalid(got, &why) != UINT64_MAX) {
        row.verdict = VERDICT_FAIL; /* agreement on NaN is no agreement */
        row.value = 1;
        (void)snprintf(row.note, sizeof row.note, "INVALID: %.200s", why);
    } else {
        golden_explain(want, got, &m, row.note, sizeof row.note);
    }
    hash_format(&m.want, row.ref);
    hash_format(&m.got, row.got);
    note_provenance(got, row.provenance);
    return row;
}

int streams_row(const struct stream_arm *a, const char *arm, const char *prompt, const dump *want,
                const dump *got, uint64_t n, const char *grade) {
    struct evidence row = compare_row(a, arm, prompt, want, got, n);
    (void)snprintf(row.grade, sizeof row.grade, "%s", grade);
    a->ctx->emit(a->ctx->sink, &row);
    return row.verdict == VERDICT_PASS;
}

int streams_first_row(const struct stream_arm *a, const char *prompt, const dump *want, const dump *got) {
    struct evidence row = compare_row(a, "first-step", prompt, want, got, 1);
    int same = row.verdict == VERDICT_PASS;
    char told[sizeof row.note];
    if (same)
        (void)snprintf(told, sizeof told,
                       "the first step is equal: a stream that differs all the same drifts later, in decode "
                       "steps");
    else if (strncmp(row.note, "INVALID", 7) == 0) /* of no prefill and no drift */
        (void)snprintf(told, sizeof told, "%s", row.note);
    else
        (void)snprintf(told, sizeof told, "the first step differs, so prefill does already: %.240s",
                       row.note);
    memcpy(row.note, told, sizeof told);
    a->ctx->emit(a->ctx->sink, &row);
    return same;
}

void streams_heeded_row(const struct stream_arm *a, const char *option, const char *prompt, const dump *want,
                        const dump *got, uint64_t n) {
    char test_case[128];
    const char *why = "";
    struct golden_match m = golden_compare(want, got, n);
    (void)snprintf(test_case, sizeof test_case, "%.40s %.80s", option, prompt);
    int valid = dump_first_invalid(want, &why) == UINT64_MAX && dump_first_invalid(got, &why) == UINT64_MAX;
    if (m.compared == 0) why = "nothing was compared";
    if (valid && golden_matches(&m)) why = "the option changed no bit: it is ignored";
    streams_count_row(a, "heeded", test_case, !valid || m.compared == 0 || golden_matches(&m),
                      why == NULL ? "" : why);
}

struct used {
    int asked, did, there; /* there: rows to cut, chunks to share */
};

static struct used used_of(int tiles, const struct engine_config *c, engine *e) {
    struct attention_use use;
    struct backend *b = engine_backend(e);
    b->attention_use(b, &use);
    struct used u = {c->compute.geometry.fa_splits, use.splits, use.chunks};
    if (tiles) u = (struct used){c->compute.geometry.fa_tq, use.tile_rows, use.rows};
    return u;
}

static int least(int a, int b) {
    return a < b ? a : b;
}

void streams_used_row(const struct stream_arm *a, int tiles, const struct engine_config *first,
                      engine *first_engine, const struct engine_config *second, engine *second_engine) {
    const char *option = tiles ? "fa_tq" : "fa_splits", *of = tiles ? "rows" : "chunks";
    struct used one = used_of(tiles, first, first_engine), two = used_of(tiles, second, second_engine);
    char test_case[64], note[160];
    int wrong = 0;
    (void)snprintf(test_case, sizeof test_case, "%s %d and %d", option, one.asked, two.asked);
    (void)snprintf(note, sizeof note, "%d and %d were used, of %d and %d %s", one.did, two.did, one.there,
                   two.there, of);
    if (least(one.asked, one.there) == least(two.asked, two.there) && one.there > 0) {
        streams_note_row(a, "heeded", test_case, VERDICT_SKIP, note);
        return;
    }
    wrong += least(one.did, one.there) != least(one.asked, one.there);
    wrong += least(two.did, two.there) != least(two.asked, two.there);
    streams_count_row(a, "heeded", test_case, (uint64_t)(one.there > 0 && two.there > 0 ? wrong : 2), note);
}

void streams_chunk_row(const struct stream_arm *a, int asked, const struct witness *did, int longest) {
    char test_case[64], note[120];
    int most = least(asked, longest - 1); /* a prompt's last token may be a step of its own */
    (void)snprintf(test_case, sizeof test_case, "chunk %d", asked);
    (void)snprintf(note, sizeof note, "steps of at most %d rows, of prompts of at most %d tokens", did->rows,
                   longest);
    if (most < 1) /* one token is one row in chunks of any size */
        streams_note_row(a, "heeded", test_case, VERDICT_SKIP, note);
    else
        streams_count_row(a, "heeded", test_case, did->rows > asked || did->rows < most, note);
}

void streams_threads_row(const struct stream_arm *a, int asked, int started) {
    char test_case[64], note[120];
    (void)snprintf(test_case, sizeof test_case, "threads %d", asked);
    (void)snprintf(note, sizeof note, "%d started beside the caller's", started);
    streams_count_row(a, "heeded", test_case, started != asked - 1, note);
}

void streams_graphs_row(const struct stream_arm *a, const struct witness *with,
                        const struct witness *without) {
    char note[160];
    (void)snprintf(note, sizeof note, "%llu of %llu decode steps were replayed, without graphs %llu of %llu",
                   (unsigned long long)with->replayed, (unsigned long long)with->decodes,
                   (unsigned long long)without->replayed, (unsigned long long)without->decodes);
    if (with->ripe == 0 && with->replayed == 0 && without->replayed == 0)
        streams_note_row(a, "heeded", "graphs", VERDICT_SKIP, note);
    else
        streams_count_row(a, "heeded", "graphs",
                          (uint64_t)(with->replayed == 0) + (uint64_t)(without->replayed > 0), note);
}

void streams_count_row(const struct stream_arm *a, const char *arm, const char *test_case, uint64_t wrong,
                       const char *note) {
    struct evidence row;
    start_row(a, arm, test_case, "count", &row);
    row.value = (double)wrong;
    row.bound = 0;
    row.verdict = compare_judge(row.value, row.bound);
    (void)snprintf(row.note, sizeof row.note, "%s", note);
    a->ctx->emit(a->ctx->sink, &row);
}

/* Does a kernel whose name begins with one of these words count a call? */
static int has_run(const struct kernel_count *counts, int n, const char *const *words, size_t n_words) {
    for (int i = 0; i < n; i++)
        for (size_t k = 0; counts[i].calls > 0 && k < n_words; k++)
            if (strncmp(counts[i].name, words[k], strlen(words[k])) == 0) return 1;
    return 0;
}

void streams_launched_row(const struct stream_arm *a, const char *test_case) {
    static const char *const products[] = {"matmul", "gemm", "gemv", "mmvq", "mmq"};
    static const char *const attentions[] = {"attention", "fa_prefill", "fa_decode"};
    struct kernel_count counts[BACKEND_KERNELS_MAX];
    int n = engine_kernel_counts(a->engine, counts);
    int both = has_run(counts, n, products, sizeof products / sizeof products[0]) &&
               has_run(counts, n, attentions, sizeof attentions / sizeof attentions[0]);
    streams_count_row(a, "launched", test_case, both ? 0 : 1,
                      both ? "" : "no matmul or no attention kernel counted itself");
}

void streams_note_row(const struct stream_arm *a, const char *arm, const char *test_case, enum verdict v,
                      const char *note) {
    struct evidence row;
    start_row(a, arm, test_case, "none", &row);
    row.value = row.bound = (double)NAN;
    row.verdict = v;
    (void)snprintf(row.note, sizeof row.note, "%s", note);
    a->ctx->emit(a->ctx->sink, &row);
}

static void negative_row(const struct stream_arm *a, const dump *whole, const dump *damaged) {
    struct golden_match m = golden_compare(whole, damaged, UINT64_MAX);
    struct evidence row;
    start_row(a, "negative", "", "missed", &row);
    row.value = golden_matches(&m);
    row.bound = 0;
    row.verdict = golden_matches(&m) ? VERDICT_BLIND : VERDICT_PASS;
    (void)snprintf(row.note, sizeof row.note, "detection floor: one bit in one logit of one row");
    a->ctx->emit(a->ctx->sink, &row);
}

enum status streams_negative_row(const struct stream_arm *a, const dump *d, struct err *err) {
    dump *whole = NULL, *damaged = NULL;
    RETURN_IF_ERROR(streams_whole_rows(a, d, &whole, err));
    enum status status = streams_damage(whole, &damaged, err);
    if (status == STATUS_OK) negative_row(a, whole, damaged);
    dump_close(whole);
    dump_close(damaged);
    return status;
}
