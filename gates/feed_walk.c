/* feed_walk.c - see feed_walk.h. */
#include "gates/feed_walk.h"

#include <stdlib.h>
#include <string.h>

#include "gates/table.h"

#define STRICT (JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL)

/* jansson's sentence without what it quotes from the file: foreign bytes are not for terminals. */
static void sentence_of(const json_error_t *e, char out[160]) {
    char text[JSON_ERROR_TEXT_LENGTH];
    size_t n = strcspn(e->text, "\n");
    memcpy(text, e->text, n);
    char *near_what = strstr(e->text, " near ");
    if (near_what != NULL && (size_t)(near_what - e->text) < n) n = (size_t)(near_what - e->text);
    (void)table_escape(text, n, 0, 0, out, 160);
}

/* The place of byte `at` of a text that starts at `from`. */
static struct feed_place moved(struct feed_place from, const char *text, size_t at) {
    for (size_t i = 0; i < at; i++) from.line += text[i] == '\n';
    from.offset += at;
    return from;
}

/* NaN and Infinity are common in answers of Python servers and have a sentence of their own. */
static enum status refuse(const struct feed_source *s, struct feed_place at, const char *rest, size_t n,
                          const json_error_t *e, struct err *err) {
    char sentence[160];
    if ((n >= 3 && memcmp(rest, "NaN", 3) == 0) || (n >= 8 && memcmp(rest, "Infinity", 8) == 0))
        return feed_refuse(s, at, err, "%s is no JSON number, and no logprob that can be judged",
                           *rest == 'N' ? "NaN" : "Infinity");
    sentence_of(e, sentence);
    return feed_refuse(s, at, err, "not JSON: %s", sentence);
}

/* A NaN just before the position: jansson stops behind the token that it refuses. */
static const char *nan_before(const struct feed_text *t, size_t position) {
    const char *found = NULL;
    for (size_t i = position < 12 ? 0 : position - 12; i + 3 <= t->n && i <= position; i++)
        if (memcmp(t->bytes + i, "NaN", 3) == 0 || memcmp(t->bytes + i, "Inf", 3) == 0) found = t->bytes + i;
    return found;
}

static enum status parse(const struct feed_text *t, const struct feed_cut *cuts, int n_cuts,
                         struct feed_place place, const struct feed_source *s, json_t **out,
                         struct err *err) {
    json_error_t e;
    *out = json_loadb(t->bytes, t->n, STRICT, &e);
    if (*out != NULL) return STATUS_OK;
    size_t position = e.position < 0 ? 0 : (size_t)e.position, from = 0;
    if (position > t->n) position = t->n;
    for (int i = 0; i < n_cuts && cuts[i].at <= position; i++) {
        from = cuts[i].at;
        place = cuts[i].place;
    }
    const char *nan = nan_before(t, position), *rest = nan != NULL ? nan : t->bytes + position;
    place = moved(place, t->bytes + from, position - from);
    return refuse(s, place, rest, t->n - (size_t)(rest - t->bytes), &e, err);
}

enum status feed_doc_parse(const struct feed_doc *d, const struct feed_source *s, json_t **out,
                           struct err *err) {
    return parse(&d->text, d->cuts, d->n_cuts, d->start, s, out, err);
}

void feed_walk_open(struct feed_walk *w, const struct feed_cursor *host, const struct feed_slot *slot) {
    memset(w, 0, sizeof *w);
    feed_cursor_borrow(&w->c, host, slot->from, slot->to);
    w->place = slot->from;
}

void feed_walk_close(struct feed_walk *w) {
    feed_cursor_close(&w->c);
    free(w->text.bytes);
    memset(w, 0, sizeof *w);
}

static int skip_blanks(struct feed_cursor *c) {
    int byte;
    while ((byte = feed_cursor_peek(c)) == ' ' || byte == '\t' || byte == '\n' || byte == '\r')
        feed_cursor_take(c);
    return byte;
}

enum status feed_walk_next(struct feed_walk *w, json_t **out, struct err *err) {
    *out = NULL;
    if (w->over) return STATUS_OK;
    int first = !w->started;
    w->started = 1;
    if (first && feed_cursor_peek(&w->c) == '[') feed_cursor_take(&w->c);
    if (skip_blanks(&w->c) == ']' && first) {
        w->over = 1;
        return STATUS_OK;
    }
    w->text.n = 0;
    w->place = feed_cursor_place(&w->c);
    RETURN_IF_ERROR(feed_take(&w->c, &w->text, FEED_ELEMENT_MAX, err));
    RETURN_IF_ERROR(parse(&w->text, NULL, 0, w->place, w->c.source, out, err));
    int byte = skip_blanks(&w->c);
    w->over = byte == ']';
    if (!w->over && byte == ',') feed_cursor_take(&w->c);
    if (w->over || byte == ',') return STATUS_OK;
    json_decref(*out);
    *out = NULL;
    return feed_refuse(w->c.source, feed_cursor_place(&w->c), err, "a comma or a closing bracket is missing");
}
