/* bench.h - how fast one engine is: prefill and decode of one prompt, round by round, with its logits checked while it runs.
 * Not a comparison (ab.h): two numbers taken one after the other say nothing about each other.
 * Idea: one call is one round, so that a caller can interleave the rounds of two engines; a round whose logits are not those
 * of the first is an error, not a time.
 * Source: ours. Exercise: forkgate bench ; ctest -R unit.ab */
#ifndef FORKGATE_BENCH_H
#define FORKGATE_BENCH_H

#include "engine/engine.h"
#include "gates/hash.h"
#include "gates/op_timer.h"

struct bench_work {
    const char *prompt_name;
    const void *prompt; /* bytes */
    size_t prompt_bytes;
    int n_decode; /* greedy steps after the prompt; an end token does not stop them */
    int n_tokens; /* > 0: this many pseudo-random tokens are the prompt, whatever the text */
};

struct bench_round {
    double prefill;        /* tokens a second */
    double decode;         /* NaN when n_decode is 0 */
    struct hash128 logits; /* chain over the rows of the prompt's end and of every step */
    size_t device_bytes;   /* in use at the end, by anyone: the most a generation needs; 0 on the CPU */
};

typedef struct bench bench;

/* Opens the engine and encodes the prompt. The bytes of w are borrowed until bench_close. */
enum status bench_start(const char *model, const struct engine_config *config, const struct bench_work *w,
                        bench **out, struct err *err);
void bench_close(bench *b);
size_t bench_prompt_tokens(const bench *b);
engine *bench_engine(bench *b);

/* Rounds that are not counted, until `seconds` have passed (at least one). */
enum status bench_warm(bench *b, double seconds, struct err *err);

/* One round in a fresh session. Time is taken around the engine's calls only; hashing the rows is outside. STATUS_INVALID
 * when the rows differ from the first round's. */
enum status bench_run(bench *b, struct bench_round *out, struct err *err);

/* The same round with every op timed (slower in sum: op_timer.h); prefill and decode apart. Graphs must be off. */
enum status bench_ops(bench *b, struct op_times *prefill, struct op_times *decode, struct err *err);

/* "2000.000 MHz" (the fastest core now), or "unknown". */
void bench_clock(char *out, size_t room);

#endif
