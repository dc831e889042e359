/* import_json.c - see import_json.h: the documents of an answer, one after the other, and what they say about the stream. */
#include "gates/import_json.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gates/feed_walk.h"
#include "gates/import.h"
#include "gates/import_answer.h"
#include "gates/import_header.h"
#include "gates/table.h"

struct run {
    struct feed_source source;
    struct feed_cursor c;
    struct feed_doc *doc;
    struct import_header header;
    struct import_sink sink;
    struct provenance provenance;
    const struct import_json_options *options;
    struct err *err;
};

/* ---- one document -------------------------------------------------------------------------------------------------- */

static enum status refuse(const struct run *r, struct feed_place at, const char *what) {
    return feed_refuse(&r->source, at, r->err, "%s", what);
}

/* Tokens of one choice (-1: llama.cpp's own); what there is of text must have its logprobs. */
static enum status read_tokens(struct run *r, int choice, int has_text) {
    uint64_t before = r->sink.count;
    int was_finished = r->header.finished_before;
    RETURN_IF_ERROR(import_answer(&r->sink, &r->c, r->doc, choice, r->err));
    if (r->sink.count > before && was_finished)
        return refuse(r, r->doc->start, "tokens behind the end of the answer: a second one begins");
    if (has_text && !r->options->partial && !import_answer_has(r->doc, choice))
        return refuse(r, r->doc->start,
                      "text without logprobs: ask the server for them (n_probs, logprobs, top_logprobs)");
    return STATUS_OK;
}

static enum status read_choices(struct run *r, const json_t *choices) {
    int chosen = -1, has_text = 0;
    for (size_t i = 0; i < json_array_size(choices); i++) {
        const json_t *choice = json_array_get(choices, i);
        const char *trouble = NULL;
        int index = import_header_index(choice, (int)i);
        if (r->options->choice >= 0 && index != r->options->choice) continue;
        if (r->header.choice >= 0 && index != r->header.choice)
            return refuse(r, r->doc->start, "the answer has several choices: name one with --choice");
        r->header.choice = index;
        chosen = (int)i;
        trouble = import_header_choice(&r->header, choice, &has_text);
        if (trouble != NULL) return refuse(r, r->doc->start, trouble);
    }
    /* Without a choice of ours the arrays are walked all the same: they must be JSON. */
    return read_tokens(r, chosen >= 0 ? chosen : IMPORT_NO_CHOICE, has_text);
}

static enum status read_root(struct run *r, const json_t *root) {
    const char *trouble = import_header_root(&r->header, root);
    if (trouble != NULL) return refuse(r, r->doc->start, trouble);
    const json_t *choices = json_object_get(root, "choices");
    if (choices != NULL) return read_choices(r, choices);
    int has_text = 0;
    trouble = import_header_native(&r->header, root, &has_text);
    return trouble != NULL ? refuse(r, r->doc->start, trouble) : read_tokens(r, -1, has_text);
}

static enum status read_document(struct run *r) {
    json_t *root = NULL;
    feed_cursor_settle(&r->c);
    RETURN_IF_ERROR(feed_scan(&r->c, r->doc, r->err));
    RETURN_IF_ERROR(feed_doc_parse(r->doc, &r->source, &root, r->err));
    r->header.finished_before = r->header.finished;
    enum status s = read_root(r, root);
    json_decref(root);
    return s;
}

/* ---- documents behind each other, or lines of an event stream ----------------------------------------------------- */

static int skip_blanks(struct feed_cursor *c, const char *blanks) {
    int byte;
    while ((byte = feed_cursor_peek(c)) > 0 && strchr(blanks, byte) != NULL) feed_cursor_take(c);
    return byte;
}

static enum status read_documents(struct run *r) {
    for (;;) {
        int byte = skip_blanks(&r->c, " \t\r\n");
        if (byte < 0) return STATUS_OK;
        if (byte != '{') return refuse(r, feed_cursor_place(&r->c), "want a JSON object");
        RETURN_IF_ERROR(read_document(r));
    }
}

/* The rest of a line, which may hold `want` and blanks only (NULL: anything). */
static enum status end_line(struct run *r, const char *want) {
    if (want != NULL) {
        for (const char *p = want; *p != '\0'; p++) {
            if (feed_cursor_peek(&r->c) != *p)
                return refuse(r, feed_cursor_place(&r->c), "an event holds neither a JSON object nor [DONE]");
            feed_cursor_take(&r->c);
        }
        int byte = skip_blanks(&r->c, " \t\r");
        if (byte >= 0 && byte != '\n')
            return refuse(r, feed_cursor_place(&r->c), "something stands behind the JSON of an event");
    }
    for (int byte; (byte = feed_cursor_peek(&r->c)) >= 0;) {
        feed_cursor_take(&r->c);
        if (byte == '\n') break;
    }
    return STATUS_OK;
}

/* "data", "event", "id", "retry", or "" for a comment; the cursor behind the colon. */
static enum status read_field(struct run *r, char name[8]) {
    size_t n = 0;
    struct feed_place at = feed_cursor_place(&r->c);
    for (;;) {
        int byte = feed_cursor_peek(&r->c);
        if (byte != ':' && (byte < 'a' || byte > 'z' || n == 7))
            return refuse(r, at, "neither JSON nor a line of an event stream (data: {..})");
        feed_cursor_take(&r->c);
        if (byte == ':') break;
        name[n++] = (char)byte;
    }
    name[n] = '\0';
    static const char *const fields[] = {"", "data", "event", "id", "retry", "error"};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (strcmp(fields[i], name) == 0) return STATUS_OK;
    return refuse(r, at, "neither JSON nor a line of an event stream (data: {..})");
}

static enum status read_events(struct run *r) {
    int done = 0;
    for (;;) {
        char field[8];
        int byte = skip_blanks(&r->c, "\r\n");
        if (byte < 0) return STATUS_OK;
        RETURN_IF_ERROR(read_field(r, field));
        if (strcmp(field, "error") == 0)
            return refuse(r, feed_cursor_place(&r->c), "the server reports an error");
        int is_data = strcmp(field, "data") == 0;
        if (is_data && done) return refuse(r, feed_cursor_place(&r->c), "data behind [DONE]");
        if (is_data && skip_blanks(&r->c, " ") == '{') {
            RETURN_IF_ERROR(read_document(r));
            RETURN_IF_ERROR(end_line(r, ""));
            continue;
        }
        done |= is_data;
        RETURN_IF_ERROR(end_line(r, is_data ? "[DONE]" : NULL));
    }
}

/* A byte order mark is stepped over. */
static int first_byte(struct feed_cursor *c) {
    for (int i = 0; i < 3; i++)
        if (feed_cursor_peek(c) == (const uint8_t[]){0xef, 0xbb, 0xbf}[i]) feed_cursor_take(c);
    return skip_blanks(c, " \t\r\n");
}

static enum status read_stream(struct run *r) {
    RETURN_IF_ERROR(first_byte(&r->c) == '{' ? read_documents(r) : read_events(r));
    struct feed_place end = feed_cursor_place(&r->c);
    if (r->sink.count == 0) return refuse(r, end, "no token in it");
    if (!r->header.finished)
        return refuse(r, end, "the answer does not say that it is finished: the stream was cut");
    if (import_header_cut(&r->header) && !r->options->partial)
        return feed_refuse(&r->source, end, r->err,
                           "the server gave up (%s): the stream was cut (--partial accepts it)",
                           r->header.stop);
    int64_t told = r->header.told;
    /* A stop word takes its tokens away, and many servers do not list the end token: only a full budget must be full. */
    if (told >= 0 && (uint64_t)told > r->sink.count && strcmp(r->header.stop, "length") == 0 &&
        !r->options->partial)
        return feed_refuse(&r->source, end, r->err,
                           "the server made %" PRId64 " tokens and lists %" PRIu64
                           " (a character cut between tokens loses one; --partial accepts it)",
                           told, r->sink.count);
    uint64_t lost = import_blanks_lost(&r->header.text, &r->sink.blanks);
    if (lost > 0 && r->sink.ids != NULL)
        return feed_refuse(&r->source, end, r->err,
                           "%" PRIu64
                           " blanks of the text are in no token: the server's decoder drops them, and a text "
                           "without its blank is another token's (ask for ids: return_tokens_as_token_ids)",
                           lost);
    return import_sink_end(&r->sink, r->header.ended, r->err);
}

/* ---- from open to finish ------------------------------------------------------------------------------------------- */

static enum status describe(struct run *r, const struct provenance *extra) {
    struct provenance *p = &r->provenance;
    RETURN_IF_ERROR(import_header_provenance(&r->header, p, r->err));
    if (r->options->logits_dtype != NULL)
        RETURN_IF_ERROR(provenance_set(p, "logits", r->options->logits_dtype, r->err));
    if (r->sink.ids != NULL)
        RETURN_IF_ERROR(provenance_setf(p, r->err, "n_vocab", "%d", (int)import_ids_size(r->sink.ids)));
    const struct {
        const char *key;
        uint64_t n;
    } counts[] = {{"import.lossy", r->sink.lossy},
                  {"import.ambiguous", r->sink.ambiguous},
                  {"import.without_top2", r->sink.without_top2},
                  {"import.blanks_lost", import_blanks_lost(&r->header.text, &r->sink.blanks)}};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        if (counts[i].n > 0)
            RETURN_IF_ERROR(provenance_setf(p, r->err, counts[i].key, "%" PRIu64, counts[i].n));
    return import_add_provenance(p, extra, r->err);
}

static enum status import_source(struct run *r, const struct provenance *extra, const char *out, dump **d) {
    const struct feed_place start = {0, 1};
    if (r->options->tokenizer != NULL)
        RETURN_IF_ERROR(import_ids_open(r->options->tokenizer, &r->sink.ids, r->err));
    r->doc = calloc(1, sizeof *r->doc);
    if (r->doc == NULL) return err_set(r->err, STATUS_NOMEM, "%s: out of memory", r->source.name);
    feed_cursor_open(&r->c, &r->source, start);
    RETURN_IF_ERROR(dump_writer_open(out, &r->provenance, 0, 0, &r->sink.w, r->err));
    enum status s = read_stream(r);
    if (s == STATUS_OK) s = describe(r, extra);
    if (s == STATUS_OK) return dump_writer_finish(r->sink.w, &r->provenance, d, r->err);
    dump_writer_abandon(r->sink.w);
    return s;
}

static enum status import_any(struct run *r, const struct import_json_options *o,
                              const struct provenance *extra, const char *out, dump **d, struct err *err) {
    static const struct import_json_options none = {NULL, NULL, -1, 0};
    r->options = o != NULL ? o : &none;
    r->err = err;
    r->sink.source = &r->source;
    r->sink.options = r->options;
    import_header_init(&r->header);
    provenance_init(&r->provenance);
    enum status s = import_source(r, extra, out, d);
    feed_cursor_close(&r->c);
    if (r->doc != NULL) feed_doc_free(r->doc);
    free(r->doc);
    import_sink_free(&r->sink);
    import_ids_close(r->sink.ids);
    import_header_free(&r->header);
    provenance_free(&r->provenance);
    return s;
}

enum status import_json(const char *path, const struct import_json_options *o, const struct provenance *extra,
                        const char *out, dump **d, struct err *err) {
    struct run r;
    memset(&r, 0, sizeof r);
    if (d != NULL) *d = NULL;
    RETURN_IF_ERROR(feed_source_open(path, &r.source, err));
    enum status s = import_any(&r, o, extra, out, d, err);
    feed_source_close(&r.source);
    return s;
}

enum status import_json_memory(const void *bytes, size_t n, const char *name,
                               const struct import_json_options *o, const struct provenance *extra,
                               const char *out, dump **d, struct err *err) {
    struct run r;
    memset(&r, 0, sizeof r);
    if (d != NULL) *d = NULL;
    feed_source_memory(bytes, n, name, &r.source);
    return import_any(&r, o, extra, out, d, err);
}

int import_json_looks(const char *path) {
    static const char *const starts[] = {"{", "data:", "event:", "id:", "retry:", ":"};
    char head[256];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : pread(fd, head, sizeof head - 1, 0);
    if (fd >= 0) (void)close(fd);
    head[n > 0 ? n : 0] = '\0';
    const char *p = strncmp(head, "\xef\xbb\xbf", 3) == 0 ? head + 3 : head;
    p += strspn(p, " \t\r\n");
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++)
        if (strncmp(p, starts[i], strlen(starts[i])) == 0) return 1;
    return 0;
}
