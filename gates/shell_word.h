/* shell_word.h - names in commands that people paste: what a shell would take apart is quoted.
 * Not a parser of shell text.
 * Idea: no backslash is ever written, because a CSV cell doubles it: a quote inside is '"'"'.
 * Source: POSIX sh, 2.2 "Quoting". Exercise: ctest -R unit.diff_hostile */
#ifndef FORKGATE_SHELL_WORD_H
#define FORKGATE_SHELL_WORD_H

#include <stddef.h>

/* Adds one space and word, quoted where it must be, to the command in text[room]. 0: it did not fit, text is as it was. */
int shell_word_add(char *text, size_t room, const char *word);

/* Adds "OPTION VALUE" for each of n pairs that has a value. 0: not all fitted. */
int shell_word_add_pairs(char *text, size_t room, const char *const pairs[][2], int n);

#endif
