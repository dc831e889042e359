/* generate.h - run prompts through an engine and get dumps: greedy, sampled or teacher-forced; alone or eight at a time.
 * Not a server: requests start together and each ends at its own EOS, budget or end of context.
 * Idea: `generate`, `replay`, the golden lifecycle and every tier make their streams here, so a dump means one thing.
 * Source: ours. Exercise: ctest -R unit.generate */
#ifndef FORKGATE_GENERATE_H
#define FORKGATE_GENERATE_H

#include "engine/engine.h"
#include "engine/sampler.h"
#include "gates/dump.h"

struct generate_request {
    const char *prompt_name; /* "holmes.txt" or "-p": provenance only */
    const void *prompt;      /* bytes */
    size_t prompt_bytes;
    int n; /* token budget */
    struct sampler_config sampler;
    int ignore_eos; /* go on after an end token (declared in provenance) */
    const dump
        *follow; /* force these tokens instead of choosing; n is capped to its count. An id that the model's
                           vocabulary does not have is STATUS_USAGE */
    int n_top_k; /* extra top-k per record, 0 .. 64 */
    int full_logits; /* store every row */
    const char *out; /* path of the dump, or NULL: in memory */
};

/* Decodes all requests step by step in batches of at most `batch` streams (1 .. BATCH_MAX); a stream that ends makes room
 * for the next request. out[i] is the verified dump of request i (dump_close it). progress may be NULL.
 * The run stops at the first error; nothing half-written is left behind. A NaN row does not stop it: the stream ends with
 * stop=invalid after recording the bad row, token -1. */
typedef void generate_progress(void *ctx, uint64_t tokens_done, uint64_t tokens_total);
enum status generate_run(engine *e, const struct generate_request *requests, int n_requests, int batch,
                         generate_progress *progress, void *ctx, dump **out, struct err *err);

/* Teacher-forced along `follow` through session_score (chunked prefill) instead of decode steps: the same bits by
 * contract, several times faster. One request at a time; sampler fields are ignored. */
enum status generate_score(engine *e, const struct generate_request *request, dump **out, struct err *err);

/* Provenance of an engine with nothing of a stream in it (tool, commit, backend, geometry, model hash, ...). The model
 * file is hashed once per engine. */
void generate_note_faults(const char *names); /* key `faults`: the plants that are on; borrowed, NULL: none */
const char *generate_faults(void);            /* what was noted */
/* The part of it that is known without an engine: build and options. */
enum status generate_build_provenance(const struct engine_config *c, struct provenance *p, struct err *err);
enum status generate_provenance(engine *e, struct provenance *p, struct err *err);

#endif
