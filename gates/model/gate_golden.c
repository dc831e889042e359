/* gate_golden.c - CLAIM: the candidate's greedy streams are the golden ones, or those of --base, bit for bit, on this route.
 * Needs: model, golden/manifest.csv. A model that has no goldens at all is a SKIP of those rows, never a pass. The golden is
 * that of the default geometry for the candidate's arch, route and KV type: a tile experiment is judged against the rails it
 * left. Arms: golden (independence: SKIP where this very commit made them), or first-step (record 0 of every prompt, n=1) and
 * base; greedy (of the base too), launched, negative.
 * Exercise: forkgate run --only stream.golden.f16 */
#include <stdio.h>
#include <string.h>

#include "gates/diff.h"
#include "gates/forked.h"
#include "gates/model/golden_base.h"
#include "gates/model/model_gates.h"
#include "gates/model/streams.h"
#include "gates/runner.h"

/* The commit of the build under test equals that of the golden: still a check, but no independent evidence. */
static const char *grade_of(const struct golden_entry *e, const dump *got) {
    const char *commit = provenance_get(dump_provenance(got), "commit");
    return commit != NULL && strcmp(commit, e->commit) == 0 ? "self" : "recorded";
}

/* A16: goldens made by the very build under test prove nothing about it; said, and not counted as a pass. */
static void self_row(const struct stream_arm *arm, const char *prompt) {
    streams_note_row(
        arm, "independence", prompt, VERDICT_SKIP,
        "goldens were made by this very commit: comparison with itself is no independent evidence");
}

static enum status key_of(const struct engine_config *config, const dump *got, const struct stream_prompt *p,
                          struct golden_key *key, struct err *err) {
    struct engine_config c = *config;
    struct hash128 model;
    const char *text = provenance_get(dump_provenance(got), "model.xxh3");
    if (text == NULL || !hash_parse(text, &model))
        return err_set(err, STATUS_INVALID, "%s: no model hash in its provenance", p->name);
    struct geometry g = geometry_default(c.compute.arch);
    c.compute.geometry = g;
    return golden_key_of(&c, &model, p->bytes, p->n, key);
}

/* A model from elsewhere of which the set knows nothing. The fixtures' own models have goldens, or are missing them. */
static int is_foreign(const struct gate_context *ctx, const struct golden_set *set,
                      const struct golden_key *key) {
    size_t n = strlen(ctx->source_dir);
    if (strncmp(ctx->model_path, ctx->source_dir, n) == 0 &&
        strncmp(ctx->model_path + n, "/fixtures/", 10) == 0)
        return 0;
    for (size_t i = 0; i < set->n; i++)
        if (hash_equal(&set->entries[i].key.model, &key->model)) return 0;
    return set->n > 0;
}

static enum status judge_one(const struct stream_arm *arm, const struct golden_set *set,
                             const struct engine_config *config, const struct stream_prompt *p,
                             const dump *got, struct err *err) {
    struct golden_key key;
    RETURN_IF_ERROR(key_of(config, got, p, &key, err));
    const struct golden_entry *e = golden_find(set, &key);
    if (e == NULL && is_foreign(arm->ctx, set, &key)) {
        streams_note_row(arm, "golden", p->name, VERDICT_SKIP,
                         "no golden for this model (--base OTHER/forkgate judges it against another build)");
        return STATUS_OK;
    }
    if (e == NULL) {
        streams_note_row(
            arm, "golden", p->name, VERDICT_INCONCLUSIVE,
            "no golden for this model, prompt, route, arch and KV type (forkgate golden refresh makes one)");
        return STATUS_OK;
    }
    if (e->n_requested < (uint64_t)p->tokens) {
        streams_note_row(arm, "golden", p->name, VERDICT_INCONCLUSIVE,
                         "the golden is shorter than this battery");
        return STATUS_OK;
    }
    dump *want = NULL;
    RETURN_IF_ERROR(golden_open(set, e, &want, err));
    const char *grade = grade_of(e, got);
    int same = streams_row(arm, "golden", p->name, want, got, (uint64_t)p->tokens, grade);
    if (strcmp(grade, "self") == 0) self_row(arm, p->name);
    enum status s = same ? STATUS_OK : forked_keep(arm->ctx->keep, arm->gate, p->name, want, got, err);
    dump_close(want);
    return s;
}

/* What "greedy, penalty-free" promises: every token is the largest raw logit of its own row. A golden made with a hidden
 * penalty would agree with the build that has it; this does not. */
static uint64_t not_greedy(const dump *d) {
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < dump_count(d); i++) {
        const struct dump_record *r = dump_record_at(d, i);
        wrong += r->token != r->id1;
    }
    return wrong;
}

static void contract_row(const struct stream_arm *arm, const char *prompt, const dump *got) {
    uint64_t wrong = not_greedy(got);
    streams_count_row(arm, "greedy", prompt, wrong,
                      wrong > 0 ? "tokens that are not their row's argmax" : "");
}

static enum status judge_goldens(const struct stream_arm *arm, const struct engine_config *config,
                                 const struct streams *s, dump *const *got, struct err *err) {
    struct golden_set set;
    char dir[2000];
    (void)snprintf(dir, sizeof dir, "%.1900s/golden", arm->ctx->source_dir);
    RETURN_IF_ERROR(golden_load(dir, &set, err));
    enum status status = STATUS_OK;
    for (int i = 0; i < s->n && status == STATUS_OK; i++)
        status = judge_one(arm, &set, config, &s->prompts[i], got[i], err);
    golden_free(&set);
    return status;
}

/* May the base's stream judge this one? What must match is what must match in `forkgate diff`; what this very build made
 * proves nothing, behind whatever name (side_same sees the program of equal bytes); and a base that is not greedy, whatever
 * it declares, is no reference: its promise is looked at as the candidate's is. */
static enum status check_base(const struct stream_arm *arm, const char *prompt, const dump *want,
                              const dump *got, struct err *err) {
    struct diff_result r;
    char test_case[96], note[160];
    uint64_t wrong = not_greedy(want);
    RETURN_IF_ERROR(diff_streams(want, got, NULL, &r, err));
    if (r.verdict == DIFF_NOT_COMPARABLE)
        return err_set(err, STATUS_USAGE, "%s: no comparison of base (A) and candidate (B): %.200s", prompt,
                       r.reason);
    if (dump_flags(want) & DUMP_NO_HASH)
        return err_set(err, STATUS_USAGE,
                       "%s: the base has no hash of each row of logits, so its bits are not known (forkgate "
                       "diff compares tokens)",
                       prompt);
    if (provenance_one_build(dump_provenance(want), dump_provenance(got)))
        return err_set(err, STATUS_USAGE,
                       "%s: base and candidate are one build with one set of options: self-comparison proves "
                       "nothing",
                       prompt);
    (void)snprintf(test_case, sizeof test_case, "base %.80s", prompt);
    if (wrong == 0) {
        streams_count_row(arm, "greedy", test_case, 0, "");
        return STATUS_OK;
    }
    (void)snprintf(note, sizeof note, "%llu of the base's tokens are not their row's argmax",
                   (unsigned long long)wrong);
    streams_note_row(arm, "greedy", test_case, VERDICT_INCONCLUSIVE, note);
    return err_set(err, STATUS_USAGE, "%s: the base is not greedy: %s", prompt, note);
}

/* The base's stream of prompt i, or NULL and a row that says why it cannot judge. */
static dump *open_judge(const struct stream_arm *arm, const struct golden_base *b, int i,
                        const struct stream_prompt *p, const dump *got) {
    struct err trouble = {""};
    dump *want = NULL;
    enum status status = golden_base_stream(b, i, &want, &trouble);
    if (status == STATUS_OK) status = check_base(arm, p->name, want, got, &trouble);
    if (status == STATUS_OK) return want;
    streams_note_row(arm, "base", p->name, VERDICT_INCONCLUSIVE, trouble.message);
    dump_close(want);
    return NULL;
}

/* A stream that ended of itself may be shorter than the battery. */
static int is_cut_short(const dump *d, const struct stream_prompt *p) {
    const char *stop = provenance_get(dump_provenance(d), "stop");
    return dump_count(d) < (uint64_t)p->tokens && (stop == NULL || strcmp(stop, "length") == 0);
}

/* The first step of every prompt, then the streams: which of the two is red says where to look. */
static void judge_by_base(const struct stream_arm *arm, const struct golden_base *b, const struct streams *s,
                          dump *const *got) {
    dump *want[STREAMS_MAX];
    for (int i = 0; i < s->n; i++) {
        want[i] = open_judge(arm, b, i, &s->prompts[i], got[i]);
        if (want[i] != NULL) (void)streams_first_row(arm, s->prompts[i].name, want[i], got[i]);
    }
    for (int i = 0; i < s->n; i++) {
        const struct stream_prompt *p = &s->prompts[i];
        if (want[i] != NULL && is_cut_short(want[i], p))
            streams_note_row(
                arm, "base", p->name, VERDICT_INCONCLUSIVE,
                "the base's stream is shorter than this battery: its first step alone was judged");
        else if (want[i] != NULL)
            (void)streams_row(arm, "base", p->name, want[i], got[i], (uint64_t)p->tokens, "measured");
    }
    streams_close(want, s->n);
}

static enum status judge_against(const struct stream_arm *arm, const struct engine_config *config,
                                 const struct streams *s, dump *const *got, struct err *err) {
    struct golden_base b;
    if (arm->ctx->base == NULL) return judge_goldens(arm, config, s, got, err);
    RETURN_IF_ERROR(golden_base_open(arm->ctx, config, s, &b, err));
    judge_by_base(arm, &b, s, got);
    golden_base_close(&b);
    return STATUS_OK;
}

/* --only GATE/CASE: the prompts whose name has CASE in it; neither side computes another. */
static enum status choose(const struct stream_arm *arm, const struct streams *all, struct streams *out,
                          struct err *err) {
    memset(out, 0, sizeof *out);
    for (int i = 0; i < all->n; i++)
        if (runner_selects_case(arm->ctx->only, arm->gate, all->prompts[i].name))
            out->prompts[out->n++] = all->prompts[i];
    return out->n > 0
               ? STATUS_OK
               : err_set(err, STATUS_USAGE, "--only %.200s: no prompt of this battery has that in its name",
                         arm->ctx->only);
}

static enum status judge(const struct stream_arm *whole, const struct engine_config *config,
                         const struct streams *all, struct err *err) {
    dump *got[STREAMS_MAX];
    struct streams s;
    const struct stream_arm arm = {whole->ctx, whole->gate, whole->route, whole->engine, &s};
    RETURN_IF_ERROR(choose(whole, all, &s, err));
    RETURN_IF_ERROR(streams_run(arm.engine, &s, BATCH_MAX, 0, got, err));
    enum status status = judge_against(&arm, config, &s, got, err);
    for (int i = 0; i < s.n; i++) contract_row(&arm, s.prompts[i].name, got[i]);
    if (status == STATUS_OK) status = streams_negative_row(&arm, got[0], err);
    streams_close(got, s.n);
    return status;
}

static enum status run_f16(const struct gate_context *ctx, struct err *err) {
    static const struct streams_plan plan = {"stream.golden.f16", ROUTE_F16, SIZE_MAX, 0, judge};
    return streams_gate(ctx, &plan, err);
}

static enum status run_q8(const struct gate_context *ctx, struct err *err) {
    static const struct streams_plan plan = {"stream.golden.q8", ROUTE_Q8, SIZE_MAX, 0, judge};
    return streams_gate(ctx, &plan, err);
}

const struct gate gate_stream_golden_f16 = {
    "stream.golden.f16",
    TIER_IDENTITY,
    "greedy streams are the golden ones, or those of --base, bit for bit (route f16)",
    1,
    0,
    300,
    run_f16};

const struct gate gate_stream_golden_q8 = {
    "stream.golden.q8",
    TIER_IDENTITY,
    "greedy streams are the golden ones, or those of --base, bit for bit (route q8)",
    1,
    0,
    300,
    run_q8};
