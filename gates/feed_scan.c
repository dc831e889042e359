/* feed_scan.c - see feed_scan.h: finding where values begin and end. */
#include "gates/feed_scan.h"

#include <stdlib.h>
#include <string.h>

#define KEY_BYTES 32 /* of a key that is looked at; the arrays that matter have shorter names */

struct scan {
    struct feed_cursor *c;
    struct feed_text *to;  /* where bytes are kept */
    size_t limit;          /* of it */
    struct feed_doc *doc;  /* NULL: an element, nothing is left out */
    int depth, in_choices; /* of the value that is being read */
    int choice, in_logprobs;
    struct err *err;
};

/* ---- keeping ------------------------------------------------------------------------------------------------------ */

static enum status refuse(const struct scan *s, const char *what) {
    return feed_refuse(s->c->source, feed_cursor_place(s->c), s->err, "%s", what);
}

static enum status grow(struct feed_text *t, size_t n) {
    size_t room = t->room == 0 ? 1024 : t->room;
    while (room < t->n + n) room *= 2;
    char *bytes = room == t->room ? t->bytes : realloc(t->bytes, room);
    if (bytes == NULL) return STATUS_NOMEM;
    t->bytes = bytes;
    t->room = room;
    return STATUS_OK;
}

static enum status keep(struct scan *s, const void *bytes, size_t n) {
    if (n == 0) return STATUS_OK;
    if (s->to->n + n > s->limit)
        return refuse(s, "more than the reader holds at once: not an answer of a server");
    if (s->to->n + n > s->to->room && grow(s->to, n) != STATUS_OK)
        return err_set(s->err, STATUS_NOMEM, "%s: out of memory", s->c->source->name);
    memcpy(s->to->bytes + s->to->n, bytes, n);
    s->to->n += n;
    return STATUS_OK;
}

static enum status ended(const struct scan *s) {
    return refuse(s, feed_cursor_place(s->c).offset < s->c->source->size
                         ? "cannot be read here"
                         : "the file ends inside a JSON value: the stream was cut");
}

/* The skeleton goes on at the cursor, after something was left out. */
static enum status cut(struct scan *s) {
    struct feed_doc *d = s->doc;
    if (d->n_cuts == d->room_cuts) {
        int room = d->room_cuts == 0 ? 16 : d->room_cuts * 2;
        struct feed_cut *cuts = realloc(d->cuts, (size_t)room * sizeof *cuts);
        if (cuts == NULL) return err_set(s->err, STATUS_NOMEM, "%s: out of memory", s->c->source->name);
        d->cuts = cuts;
        d->room_cuts = room;
    }
    d->cuts[d->n_cuts].at = s->to->n;
    d->cuts[d->n_cuts++].place = feed_cursor_place(s->c);
    return STATUS_OK;
}

/* ---- strings and scalars ------------------------------------------------------------------------------------------ */

/* The bytes up to the next quote or backslash of the window; the cursor moves over them. */
static const uint8_t *run_of(struct feed_cursor *c, size_t *n, int *bad) {
    const uint8_t *from = c->at, *p = from;
    while (p < c->end && *p != '"' && *p != '\\' && *p >= 0x20) p++;
    *bad = p < c->end && *p < 0x20;
    *n = (size_t)(p - from);
    c->at = p;
    return from;
}

/* A string, the cursor on its first quote. What is longer than FEED_STRING_KEPT becomes "" in a skeleton. */
static enum status take_string(struct scan *s) {
    size_t begin = s->to->n, length = 0;
    int dropped = 0;
    feed_cursor_take(s->c);
    RETURN_IF_ERROR(keep(s, "\"", 1));
    for (;;) {
        size_t n = 0;
        int byte = feed_cursor_peek(s->c), control = 0;
        if (byte < 0) return ended(s);
        const uint8_t *run = run_of(s->c, &n, &control);
        length += n;
        if (!dropped && s->doc != NULL && length > FEED_STRING_KEPT) {
            dropped = 1;
            s->to->n = begin + 1;
        }
        if (!dropped && n > 0) RETURN_IF_ERROR(keep(s, run, n));
        if (control) return refuse(s, "a control byte inside a string");
        if (n > 0 && s->c->at == s->c->end) continue;
        if (*s->c->at == '"') break;
        feed_cursor_take(s->c); /* a backslash and what it escapes */
        int escaped = feed_cursor_peek(s->c);
        if (escaped < 0) return ended(s);
        char pair[2] = {'\\', (char)escaped};
        if (!dropped) RETURN_IF_ERROR(keep(s, pair, 2));
        length += 2;
        feed_cursor_take(s->c);
    }
    feed_cursor_take(s->c);
    RETURN_IF_ERROR(keep(s, "\"", 1));
    return dropped ? cut(s) : STATUS_OK;
}

static int is_blank(int byte) {
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

/* Blanks are kept: positions in the skeleton are then positions in the file. */
static enum status take_blanks(struct scan *s) {
    for (int byte; is_blank(byte = feed_cursor_peek(s->c));) {
        char kept = (char)byte;
        RETURN_IF_ERROR(keep(s, &kept, 1));
        feed_cursor_take(s->c);
    }
    return STATUS_OK;
}

static int ends_scalar(int byte) {
    return byte <= ' ' || byte == ',' || byte == ':' || byte == ']' || byte == '}' || byte == '[' ||
           byte == '{' || byte == '"';
}

static enum status take_scalar(struct scan *s) {
    size_t n = 0;
    while (feed_cursor_peek(s->c) >= 0) { /* by runs: a number may cross the end of a window */
        const uint8_t *from = s->c->at;
        while (s->c->at < s->c->end && !ends_scalar(*s->c->at)) s->c->at++;
        n += (size_t)(s->c->at - from);
        RETURN_IF_ERROR(keep(s, from, (size_t)(s->c->at - from)));
        if (s->c->at < s->c->end) break;
    }
    return n > 0 ? STATUS_OK : refuse(s, "a value is missing");
}

/* ---- arrays that are left out ------------------------------------------------------------------------------------- */

static int array_here(const struct scan *s, const char *key) {
    static const struct {
        const char *key;
        int depth, in_logprobs;
        enum feed_array array;
    } known[] = {{"completion_probabilities", 1, 0, FEED_COMPLETION_PROBABILITIES},
                 {"tokens", 1, 0, FEED_TOKENS_NATIVE},
                 {"content", 4, 1, FEED_CONTENT},
                 {"tokens", 4, 1, FEED_TOKENS},
                 {"token_logprobs", 4, 1, FEED_TOKEN_LOGPROBS},
                 {"top_logprobs", 4, 1, FEED_TOP_LOGPROBS},
                 {"text_offset", 4, 1, FEED_TEXT_OFFSET},
                 {"token_ids", 3, 0, FEED_TOKEN_IDS}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(known[i].key, key) != 0 || known[i].depth != s->depth) continue;
        if (known[i].in_logprobs == s->in_logprobs && (s->depth == 1 || s->in_choices))
            return (int)known[i].array;
    }
    return -1;
}

static enum status take_value(struct scan *s, const char *key);

/* Steps over an array without keeping it; its bytes are read again by a walk. */
static enum status leave_out(struct scan *s, enum feed_array array) {
    struct feed_doc *d = s->doc;
    if (d->n_slots == FEED_SLOTS_MAX) return refuse(s, "too many choices in one answer");
    struct feed_slot *slot = &d->slots[d->n_slots++];
    slot->array = array;
    slot->choice = s->in_choices ? s->choice : -1;
    slot->from = feed_cursor_place(s->c);
    struct feed_text *to = s->to;
    size_t begin = to->n;
    int level = 0;
    s->doc = NULL;
    do { /* a flat loop: brackets are matched by the walk's parser, here only counted */
        int byte = feed_cursor_peek(s->c);
        enum status status = STATUS_OK;
        if (byte < 0) status = ended(s);
        if (status == STATUS_OK && byte == '"')
            status = take_string(s);
        else if (status == STATUS_OK) {
            level += (byte == '[' || byte == '{') - (byte == ']' || byte == '}');
            feed_cursor_take(s->c);
        }
        to->n = begin;
        if (status != STATUS_OK) return status;
    } while (level > 0);
    s->doc = d;
    slot->to = feed_cursor_place(s->c).offset;
    RETURN_IF_ERROR(keep(s, "[]", 2));
    return cut(s);
}

/* ---- containers --------------------------------------------------------------------------------------------------- */

static enum status take_char(struct scan *s, int want, const char *missing) {
    RETURN_IF_ERROR(take_blanks(s));
    int byte = feed_cursor_peek(s->c);
    if (byte < 0) return ended(s);
    if (byte != want) return refuse(s, missing);
    char kept = (char)byte;
    feed_cursor_take(s->c);
    return keep(s, &kept, 1);
}

/* A key as it is written; what is escaped or long is no name that matters here. */
static enum status take_key(struct scan *s, char key[KEY_BYTES]) {
    size_t begin = s->to->n + 1;
    if (feed_cursor_peek(s->c) < 0) return ended(s);
    if (feed_cursor_peek(s->c) != '"') return refuse(s, "a key is missing");
    RETURN_IF_ERROR(take_string(s));
    size_t n = s->to->n - 1 - begin;
    if (n >= KEY_BYTES) n = 0;
    memcpy(key, s->to->bytes + begin, n);
    key[n] = '\0';
    return take_char(s, ':', "a colon is missing");
}

static enum status take_members(struct scan *s, int close) {
    for (int n = 0;; n++) {
        char key[KEY_BYTES] = "";
        RETURN_IF_ERROR(take_blanks(s));
        int byte = feed_cursor_peek(s->c);
        if (byte < 0) return ended(s);
        if (byte == close && n == 0) break;
        if (close == '}') RETURN_IF_ERROR(take_key(s, key));
        if (s->in_choices && s->depth == 2 && close == ']') s->choice = n;
        RETURN_IF_ERROR(take_value(s, key));
        RETURN_IF_ERROR(take_blanks(s));
        if (feed_cursor_peek(s->c) == close) break;
        RETURN_IF_ERROR(take_char(s, ',', "a comma or a closing bracket is missing"));
    }
    char kept = (char)close;
    feed_cursor_take(s->c);
    return keep(s, &kept, 1);
}

static enum status take_container(struct scan *s, int open, const char *key) {
    int was_choices = s->in_choices, was_logprobs = s->in_logprobs;
    if (s->depth == FEED_DEPTH_MAX) return refuse(s, "nested too deep");
    if (s->depth == 1) s->in_choices = strcmp(key, "choices") == 0;
    if (s->depth == 3) s->in_logprobs = s->in_choices && strcmp(key, "logprobs") == 0;
    char kept = (char)open;
    RETURN_IF_ERROR(keep(s, &kept, 1));
    feed_cursor_take(s->c);
    s->depth++;
    RETURN_IF_ERROR(take_members(s, open == '{' ? '}' : ']'));
    s->depth--;
    s->in_choices = was_choices;
    s->in_logprobs = was_logprobs;
    return STATUS_OK;
}

static enum status take_value(struct scan *s, const char *key) {
    RETURN_IF_ERROR(take_blanks(s));
    int byte = feed_cursor_peek(s->c);
    if (byte < 0) return ended(s);
    int array = byte == '[' && s->doc != NULL ? array_here(s, key) : -1;
    if (array >= 0) return leave_out(s, (enum feed_array)array);
    if (byte == '{' || byte == '[') return take_container(s, byte, key);
    return byte == '"' ? take_string(s) : take_scalar(s);
}

enum status feed_take(struct feed_cursor *c, struct feed_text *to, size_t limit, struct err *err) {
    struct scan s = {c, to, limit, NULL, 0, 0, -1, 0, err};
    return take_value(&s, "");
}

enum status feed_scan(struct feed_cursor *c, struct feed_doc *d, struct err *err) {
    struct scan s = {c, &d->text, FEED_SKELETON_MAX, d, 0, 0, -1, 0, err};
    d->text.n = 0;
    d->n_slots = d->n_cuts = 0;
    d->start = feed_cursor_place(c);
    RETURN_IF_ERROR(take_value(&s, ""));
    d->end = feed_cursor_place(c).offset;
    return STATUS_OK;
}

void feed_doc_free(struct feed_doc *d) {
    free(d->text.bytes);
    free(d->cuts);
    memset(&d->text, 0, sizeof d->text);
    d->cuts = NULL;
    d->n_cuts = d->room_cuts = 0;
}
