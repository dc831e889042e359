/* dump_inputs.h - the model and the prompt that a dump names, found again and proved to be the ones; and who made it.
 * Source: ours. Exercise: ctest -R cli.explain */
#ifndef FORKGATE_DUMP_INPUTS_H
#define FORKGATE_DUMP_INPUTS_H

#include <stddef.h>

#include "gates/dump.h"

/* The prompt's bytes: of text when it is given, else of file, else of the prompt NAME that the dump names: an
 * entry of fixtures/battery.csv or a file of fixtures/prompts/. *out is
 * malloc'ed. STATUS_USAGE when they are not the bytes that the dump was made from. */
enum status dump_inputs_prompt(const dump *d, const char *file, const char *text, char **out, size_t *n,
                               struct err *err);

/* STATUS_USAGE when the file at path is not the model of the dump (by XXH3). */
enum status dump_inputs_model(const dump *d, const char *path, struct err *err);

/* 1 when forkgate made the stream (a CSV of it that was imported again says so too): there is an engine here that can go
 * along it again as its maker. Of another engine's stream there is none. */
int dump_inputs_ours(const dump *d);

#endif
