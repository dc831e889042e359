/* battery.h - a named list of prompts (slices of the files in fixtures/prompts/), and running all of them into dumps.
 * Not a corpus: the bytes live once, in the prompt files; a battery only points at them.
 * Idea: one dump a prompt, NAME.fgd in one folder, so that two runs of a battery compare file by file.
 * Source: ours. Exercise: ctest -R unit.battery */
#ifndef FORKGATE_BATTERY_H
#define FORKGATE_BATTERY_H

#include <stddef.h>

#include "gates/generate.h"

struct battery_prompt {
    char name[64]; /* "pepys-1k-0512": also the dump's file name, with .fgd */
    char *bytes;   /* the slice */
    size_t n;
};

struct battery {
    struct battery_prompt *prompts;
    int n;
};

/* csv: columns name, file, offset, bytes; files are relative to prompt_dir; names are unique, of [A-Za-z0-9._-].
 * Errors name record, file and field. */
enum status battery_open(const char *csv, const char *prompt_dir, struct battery *out, struct err *err);
void battery_close(struct battery *b);

/* Greedy, n tokens each, BATCH_MAX streams at a time, into out_dir (made when missing). */
enum status battery_generate(engine *e, const struct battery *b, const struct sampler_config *sampler, int n,
                             const char *out_dir, generate_progress *progress, void *ctx, struct err *err);

/* Teacher-forced along follow_dir/NAME.fgd into out_dir: what a control is made of (diff --control). Records carry the
 * BATTERY_TOP_K largest logits, so that the followed dump's two candidates are still known where they fell from the top 2. */
#define BATTERY_TOP_K 8

enum status battery_replay(engine *e, const struct battery *b, const char *follow_dir, const char *out_dir,
                           generate_progress *progress, void *ctx, struct err *err);

#endif
