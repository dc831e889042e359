/* streams.h - what the gates that run whole models share: prompts, engines, runs, row-by-row comparisons, rows.
 * Not a gate. Idea: every arm is the same streams made another way; a token row is compared by the hash of its logits.
 * Source: ours. Exercise: forkgate run --tier identity */
#ifndef FORKGATE_STREAMS_H
#define FORKGATE_STREAMS_H

#include "gates/gate.h"
#include "gates/generate.h"
#include "gates/golden.h"
#include "gates/model/witness.h"

#define STREAMS_MAX 16

struct stream_prompt {
    char name[64]; /* file name in fixtures/prompts */
    char *bytes;
    size_t n;
    int tokens; /* budget in this battery */
};

struct streams {
    struct stream_prompt prompts[STREAMS_MAX];
    int n;
    int brief; /* battery full on a large model: arms that open or refill an engine again take fewer prompts */
};

/* The prompts of fixtures/golden_prompts.csv with a budget in this battery. */
enum status streams_load(const char *source_dir, int full, struct streams *out, struct err *err);
void streams_free(struct streams *s);
/* Keeps only the prompts of at most max_bytes and lowers every budget to max_tokens (0: as it is). */
void streams_limit(struct streams *s, size_t max_bytes, int max_tokens);

/* The candidate's configuration on this route. */
struct engine_config streams_config(const struct gate_context *ctx, enum route route);

/* Runs every prompt greedily, starting with prompt `rotate`, `batch` at a time; out[i] belongs to prompt i. */
enum status streams_run(engine *e, const struct streams *s, int batch, int rotate, dump **out,
                        struct err *err);
/* The same on an engine opened for it and closed again. */
enum status streams_run_config(const char *model, const struct engine_config *config, const struct streams *s,
                               dump **out, struct err *err);
/* Forces each stream of `follow` through one chunked prefill. */
enum status streams_score(engine *e, const struct streams *s, dump *const *follow, dump **out,
                          struct err *err);
void streams_close(dump **dumps, int n);

/* The whole of a gate's run function: loads the battery (quick: prompts of at most max_bytes, max_tokens each), opens the
 * candidate's engine on this route, calls judge, leaves the launched row of that engine, closes everything. */
struct stream_arm;
typedef enum status streams_judge(const struct stream_arm *a, const struct engine_config *config,
                                  const struct streams *s, struct err *err);
struct streams_plan {
    const char *gate; /* id, for the repro command */
    enum route route;
    size_t max_bytes; /* of a quick prompt */
    int max_tokens;   /* of a quick stream; 0: the battery's own */
    streams_judge *judge;
};
enum status streams_gate(const struct gate_context *ctx, const struct streams_plan *plan, struct err *err);

/* ---- evidence ---- */
struct stream_arm {
    const struct gate_context *ctx;
    const char *gate; /* for the repro command */
    enum route route;
    engine *engine;                /* whose kernels ran; may be NULL */
    const struct streams *streams; /* of streams_gate, else NULL */
};
/* Another engine for an arm whose streams it makes: own is a with that engine, whose kernels the rows about them name. close
 * leaves the row that it launched some, where status is STATUS_OK; what was made is closed by its maker. */
enum status streams_other_open(const struct stream_arm *a, const struct engine_config *config,
                               struct stream_arm *own, struct err *err);
void streams_other_close(struct stream_arm *own, const char *arm, enum status status);
/* The first few tokens of d, the stream of the arm's first prompt, once more: forced, with whole rows of logits. */
enum status streams_whole_rows(const struct stream_arm *a, const dump *d, dump **out, struct err *err);
/* A copy of d, which has whole rows, in which the lowest bit of the last logit of the last row was flipped and the row hashed
 * anew: the smallest damage a comparison must see. */
enum status streams_damage(const dump *d, dump **out, struct err *err);

/* One row: candidate against reference over the first n records. Returns 1 when they match. */
int streams_row(const struct stream_arm *a, const char *arm, const char *prompt, const dump *want,
                const dump *got, uint64_t n, const char *grade);
/* The same of record 0 alone, arm first-step: a first step that differs is a difference of the prefill; behind an equal one a
 * stream that differs drifts later, in decode steps. */
int streams_first_row(const struct stream_arm *a, const char *prompt, const dump *want, const dump *got);
/* One row for two runs that must differ, because an option that carries bits was changed between them: equal rows mean that
 * the option was parsed and ignored. */
void streams_heeded_row(const struct stream_arm *a, const char *option, const char *prompt, const dump *want,
                        const dump *got, uint64_t n);
/* One row for an option that may not carry bits: what attention did, of what there was to cut or share, is what was asked
 * of each of two engines; SKIP where there was not enough work to tell. tiles: fa_tq, else fa_splits. */
void streams_used_row(const struct stream_arm *a, int tiles, const struct engine_config *first,
                      engine *first_engine, const struct engine_config *second, engine *second_engine);
/* The same for the options that only a witness sees (witness.h). Of --chunk: the largest step, which had a prompt of `longest`
 * tokens to cut. Of --threads: how many the engine started beside its caller. Of --no-graph: two runs of the same streams,
 * SKIP where no step came often enough to be replayed. */
void streams_chunk_row(const struct stream_arm *a, int asked, const struct witness *did, int longest);
void streams_threads_row(const struct stream_arm *a, int asked, int started);
void streams_graphs_row(const struct stream_arm *a, const struct witness *with,
                        const struct witness *without);
/* One row for a count that must be zero. */
void streams_count_row(const struct stream_arm *a, const char *arm, const char *test_case, uint64_t wrong,
                       const char *note);
/* One row: a product and attention have counted themselves in the arm's engine; without them nothing was compared. */
void streams_launched_row(const struct stream_arm *a, const char *test_case);
/* A row without numbers: SKIP, ERROR or INCONCLUSIVE with its reason. */
void streams_note_row(const struct stream_arm *a, const char *arm, const char *test_case, enum verdict v,
                      const char *note);
/* Names of the kernels that the engine has launched so far, space separated; "" without an engine. */
void streams_note_kernels(engine *e, char *out, size_t room);
/* The negative arm: one flipped bit in one logit of d, the stream of the arm's first prompt, must be seen. */
enum status streams_negative_row(const struct stream_arm *a, const dump *d, struct err *err);

#endif
