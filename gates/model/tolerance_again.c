/* tolerance_again.c - the A/A arms: base and candidate, each against itself in a fresh process. A base that does not repeat
 * itself judges nothing; a candidate that does not is no regrouping.
 * Source: DESIGN of forkgate, section 5 "A/A". Exercise: forkgate run --tier tolerance --class fa --cause TEXT */
#include <stdio.h>
#include <string.h>

#include "gates/model/tolerance_parts.h"

/* Records that two dumps of one stream do not share, whatever both sides carry: tokens, top-2, row hashes. */
static uint64_t records_differ(const dump *a, const dump *b, uint64_t *first) {
    uint64_t n = dump_count(a) > dump_count(b) ? dump_count(a) : dump_count(b), differ = 0;
    *first = UINT64_MAX;
    for (uint64_t i = 0; i < n; i++) {
        int same = i < dump_count(a) && i < dump_count(b);
        if (same) {
            const struct dump_record *x = dump_record_at(a, i), *y = dump_record_at(b, i);
            same = x->token == y->token && x->flags == y->flags && x->id1 == y->id1 && x->id2 == y->id2 &&
                   memcmp(&x->logit1, &y->logit1, sizeof x->logit1) == 0 &&
                   memcmp(&x->logit2, &y->logit2, sizeof x->logit2) == 0 && hash_equal(&x->row, &y->row);
        }
        if (!same && differ++ == 0) *first = i;
    }
    return differ;
}

/* The first n streams of two runs of one side. */
struct twice {
    const char *who; /* "base", "candidate" */
    const struct side *side, *again;
    const char *dir, *again_dir;
    int n, forced;
    uint64_t differ, records;
    char where[128]; /* of the first difference */
};

static enum status compare_runs(const struct package *p, struct twice *t, struct err *err) {
    for (int i = 0; i < t->n; i++) {
        const struct battery_prompt *prompt = &p->battery.prompts[i];
        dump *a = NULL, *b = NULL;
        uint64_t first = 0;
        RETURN_IF_ERROR(side_open_dump(t->side, t->dir, prompt, &a, err));
        enum status s = side_open_dump(t->again, t->again_dir, prompt, &b, err);
        uint64_t these = s == STATUS_OK ? records_differ(a, b, &first) : 0;
        t->records += dump_count(a);
        if (these > 0 && t->differ == 0)
            (void)snprintf(t->where, sizeof t->where, "; first %s step %llu", prompt->name,
                           (unsigned long long)first);
        t->differ += these;
        dump_close(a);
        dump_close(b);
        RETURN_IF_ERROR(s);
    }
    return STATUS_OK;
}

static void again_row(const struct package *p, const struct twice *t, enum verdict otherwise,
                      const char *meaning) {
    char label[96];
    (void)snprintf(label, sizeof label, "%s again, fresh process, %d streams %s", t->who, t->n,
                   t->forced ? "forced" : "generated");
    struct finding f = tolerance_finding("a/a", label, "rows", (double)t->differ, 0,
                                         tolerance_judged((double)t->differ, 0, otherwise));
    tolerance_row(p, &f, "%llu of %llu records differ%s%s", (unsigned long long)t->differ,
                  (unsigned long long)t->records, t->where, t->differ > 0 ? meaning : "");
}

/* The same side as a program of its own. */
static struct side as_program(const struct package *p, const struct side *s) {
    struct side out = *s;
    out.engine = NULL;
    if (s->kind == SIDE_ENGINE) {
        out.kind = SIDE_BINARY;
        (void)snprintf(out.spec, sizeof out.spec, "%s", p->ctx->self);
    }
    return out;
}

/* Generates the first few streams again. */
static enum status decode_again(struct package *p, struct twice *t, struct side *again, const char *name,
                                struct err *err) {
    struct sampler_config greedy = sampler_greedy();
    struct battery few = p->battery;
    struct side_work work = p->work;
    char dir[WORK_PATH];
    few.n = t->n = few.n < p->plan->n_fresh ? few.n : p->plan->n_fresh;
    work.battery = &few;
    tolerance_progress(p, "tolerance: again, token", 0, 0);
    RETURN_IF_ERROR(side_generate(again, &work, &greedy, p->n_tokens, name, dir, err));
    t->again_dir = dir;
    return compare_runs(p, t, err);
}

static void base_row(struct package *p, const struct twice *t) {
    again_row(
        p, t, VERDICT_INCONCLUSIVE,
        p->base_is_recorded
            ? ": this build at the default geometry does not make the recorded streams; give --base BINARY"
            : ": the base is not reproducible, nothing can be judged against it");
    if (t->differ > 0) p->stop = 1;
}

enum status tolerance_stage_again(struct package *p, struct err *err) {
    struct side again = as_program(p, &p->base);
    struct twice forced = {"base", &p->base, &again, p->base_dir, NULL, p->battery.n, 1, 0, 0, ""};
    struct twice decoded = {"base", &p->base, &again, p->base_dir, NULL, 0, 0, 0, 0, ""};
    char dir[WORK_PATH];
    if (p->base.kind == SIDE_DUMPS) {
        tolerance_note(
            p, "a/a", VERDICT_SKIP,
            "the base is a folder of dumps: that it repeats itself was shown when it was recorded");
        return STATUS_OK;
    }
    if (side_can_follow(&again)) {
        tolerance_progress(p, "tolerance: base again", 0, 0);
        RETURN_IF_ERROR(side_replay(&again, &p->work, p->base_dir, "again", dir, err));
        forced.again_dir = dir;
        RETURN_IF_ERROR(compare_runs(p, &forced, err));
        base_row(p, &forced);
    }
    RETURN_IF_ERROR(decode_again(p, &decoded, &again, "again-decode", err));
    base_row(p, &decoded);
    return STATUS_OK;
}

enum status tolerance_candidate_again(struct package *p, const char *dir, struct err *err) {
    struct side again = as_program(p, &p->candidate);
    struct twice t = {"candidate", &p->candidate, &again, dir, NULL, 0, 0, 0, 0, ""};
    if (p->candidate.kind == SIDE_DUMPS) return STATUS_OK;
    RETURN_IF_ERROR(decode_again(p, &t, &again, "candidate-again", err));
    again_row(p, &t, VERDICT_FAIL, ": not reproducible on one build; no regrouping does that");
    return STATUS_OK;
}
