/* shell_word.c - see shell_word.h. */
#include "gates/shell_word.h"

#include <string.h>

#define PLAIN "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./=,:+-"

static int put(char *text, size_t room, size_t *used, const char *bytes, size_t n) {
    if (*used + n + 1 > room) return 0;
    memcpy(text + *used, bytes, n);
    *used += n;
    return 1;
}

int shell_word_add(char *text, size_t room, const char *word) {
    size_t before = strlen(text), used = before;
    int plain = word[0] != '\0' && word[strspn(word, PLAIN)] == '\0';
    int fits = put(text, room, &used, plain ? " " : " '", plain ? 1 : 2);
    for (const char *p = word; *p != '\0' && fits; p++)
        fits = *p == '\'' ? put(text, room, &used, "'\"'\"'", 5) : put(text, room, &used, p, 1);
    if (fits && !plain) fits = put(text, room, &used, "'", 1);
    text[fits ? used : before] = '\0';
    return fits;
}

int shell_word_add_pairs(char *text, size_t room, const char *const pairs[][2], int n) {
    int fits = 1;
    for (int i = 0; i < n; i++)
        if (pairs[i][1] != NULL)
            fits = fits && shell_word_add(text, room, pairs[i][0]) && shell_word_add(text, room, pairs[i][1]);
    return fits;
}
