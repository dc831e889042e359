/* work_folder.h - a private folder for the files of one run: prompts to hand to other programs, dumps that come back.
 * Not a cache: it goes when the run ends.
 * Idea: it looks like a source tree (fixtures/prompts/), so that another forkgate binary finds a battery in it through
 * FORKGATE_ROOT, whatever prompts the run made up.
 * Source: ours. Exercise: ctest -R unit.side */
#ifndef FORKGATE_WORK_FOLDER_H
#define FORKGATE_WORK_FOLDER_H

#include "gates/battery.h"

#define WORK_PATH 512

struct work_folder {
    char root[WORK_PATH];
};

enum status work_folder_make(const char *name, struct work_folder *out, struct err *err);
/* Everything in it, too. Symbolic links are removed, not followed. */
void work_folder_remove(struct work_folder *w);

/* "ROOT/name", made when missing. */
enum status work_folder_sub(const struct work_folder *w, const char *name, char out[WORK_PATH],
                            struct err *err);

/* Writes every prompt to ROOT/fixtures/prompts/NAME and a battery of them to ROOT/list.csv. */
enum status work_folder_battery(const struct work_folder *w, const struct battery *b, const char *list,
                                char csv[WORK_PATH], struct err *err);
void work_folder_prompt(const struct work_folder *w, const struct battery_prompt *p, char out[WORK_PATH]);

#endif
