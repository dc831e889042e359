/* golden.h - committed streams: a manifest of one reviewable line each, and the dumps it names by content hash.
 * Not a cache: nothing here is rewritten by a verifying run; only golden_refresh.h changes a golden, with a reason.
 * Idea: golden/manifest.csv is the only commit point. A dump in the folder that no line names does not exist; a line
 * whose fields do not follow from its dump is damage.
 * Source: DESIGN of forkgate, section 7. Exercise: ctest -R unit.golden */
#ifndef FORKGATE_GOLDEN_H
#define FORKGATE_GOLDEN_H

#include "engine/engine.h"
#include "gates/dump.h"

/* What a candidate's stream must share with a golden to be judged by it. CPU and GPU share goldens: the backend is no
 * key; the arithmetic (arch, route, KV type, fa_tkv, fa_chunk) is. */
struct golden_key {
    struct hash128 model, prompt; /* of the model file's and the prompt's bytes */
    char route[8], arch[8], kv[8], logits[8];
    int fa_tkv, fa_chunk;
    char sampler[64]; /* "greedy", and " penalty=1.1" when there is one */
};

#define GOLDEN_NAME 96

struct golden_entry {
    struct golden_key key;
    char name[GOLDEN_NAME]; /* golden_name; unique */
    char file[128];         /* "sm_90-f16/<content hash>.fgd", below golden/ */
    char model[64], prompt[64];
    uint64_t n_requested, count;
    char stop[16];
    struct hash128 stream_hash, logits_hash;
    double smallest_gap;              /* nats, over the stream; NaN when unknown */
    char text_head[64];               /* first bytes of the text, escaped */
    char provenance[HASH_TEXT_BYTES]; /* id: hash of the dump's provenance text */
    char commit[24];                  /* of the build that made it */
    int modified; /* that build had local changes: its commit alone does not make it again */
    char replaces[HASH_TEXT_BYTES]; /* logits hash of the golden before; empty for the first */
    char reason[200];
};

struct golden_set {
    char dir[2048]; /* the folder with manifest.csv */
    struct golden_entry *entries;
    size_t n;
    struct hash128 manifest; /* of the manifest's bytes as read; zero when there is none */
};

/* Reads dir/manifest.csv; a missing file is an empty set where there is no dump either. STATUS_FORMAT: dumps without a
 * manifest; else it names the record: bad field, repeated name or key, a file name that leaves the folder. */
enum status golden_load(const char *dir, struct golden_set *out, struct err *err);
void golden_free(struct golden_set *s);
/* The manifest as text (malloc'ed), entries sorted by name. */
enum status golden_format(const struct golden_set *s, char **text, size_t *n, struct err *err);

/* "5d9f9c9907bc", or "5d9f9c9907bc+" of a build with local changes: as the manifest and every listing spell it. */
#define GOLDEN_COMMIT 32
void golden_commit_text(const struct golden_entry *e, char out[GOLDEN_COMMIT]);

/* "holmes" of the prompt file "holmes.txt": what follows the last dot is left out. The last part of a golden's name. */
void golden_stem(const char *prompt, char *out, size_t room);

/* "sm_90-f16/holmes", with what else of the key is not the default. STATUS_USAGE: the prompt's name cannot name a golden. */
enum status golden_name(const struct golden_key *key, const char *prompt, char out[GOLDEN_NAME],
                        struct err *err);

/* Every field but replaces and reason, from a dump. STATUS_USAGE when it lacks what a golden needs (ids, row hashes,
 * provenance keys) or is INVALID. */
enum status golden_describe(const dump *d, struct golden_entry *out, struct err *err);

/* The key of a stream that this engine would make. model: hash of the model file. */
enum status golden_key_of(const struct engine_config *config, const struct hash128 *model, const void *prompt,
                          size_t prompt_bytes, struct golden_key *out);
int golden_key_equal(const struct golden_key *a, const struct golden_key *b);
/* NULL when no golden has this key. */
const struct golden_entry *golden_find(const struct golden_set *s, const struct golden_key *key);
const struct golden_entry *golden_by_name(const struct golden_set *s, const char *name);

/* Opens the entry's dump: integrity, content hash against the file's name, every manifest field re-derived. */
enum status golden_open(const struct golden_set *s, const struct golden_entry *e, dump **out,
                        struct err *err);

/* ---- what the manifest does not say ---- */
enum golden_gap_kind {
    GOLDEN_MISSING, /* a stream of fixtures/golden_prompts.csv on f16 or q8, sm_90, that no line names */
    GOLDEN_ORPHAN /* a dump that no line names: left by a refresh that was killed, or its line was deleted */
};
typedef void golden_gap(void *ctx, enum golden_gap_kind kind, const char *what);
enum status golden_gaps(const char *source_dir, const struct golden_set *s, golden_gap *tell, void *ctx,
                        struct err *err);

/* ---- comparing the first n records ---- */
struct golden_match {
    uint64_t compared;        /* records */
    uint64_t first_token;     /* first record with another token or other bytes; UINT64_MAX when none */
    uint64_t first_row;       /* first record with another row hash; UINT64_MAX when none */
    uint64_t n_rows;          /* records with another row hash */
    int lengths_differ;       /* one ended within n where the other went on */
    struct hash128 want, got; /* of the compared tokens and row hashes */
};
/* n: at most that many records of each. A record without a row hash never matches. */
struct golden_match golden_compare(const dump *golden, const dump *candidate, uint64_t n);
int golden_matches(const struct golden_match *m);
/* One sentence: where the rows leave each other, where the tokens fork, how close it was. */
void golden_explain(const dump *golden, const dump *candidate, const struct golden_match *m, char *out,
                    size_t room);

#endif
