/* battery.h - a named list of prompts, each a slice of a file of fixtures/prompts/.
 * Not a corpus: the bytes live once, in the prompt files; a battery only points at them.
 * Source: ours. Exercise: ctest -R unit.battery */
#ifndef FORKGATE_BATTERY_H
#define FORKGATE_BATTERY_H

#include <stddef.h>

#include "engine/status.h"

struct battery_prompt {
    char name[64];       /* "pepys-1k-0512": also the dump's file name, with .fgd */
    char *bytes;         /* the slice */
    size_t n;
};

struct battery {
    struct battery_prompt *prompts;
    int n;
};

/* csv: columns name, file, offset, bytes; files are relative to prompt_dir. Errors name record, file and field. */
enum status battery_open(const char *csv, const char *prompt_dir, struct battery *out, struct err *err);
void battery_close(struct battery *b);

#endif
