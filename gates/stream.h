/* stream.h - one stream in the making: its session, its sampler, its dump writer. Private to generate.c.
 * Source: ours. Exercise: ctest -R unit.generate */
#ifndef FORKGATE_STREAM_H
#define FORKGATE_STREAM_H

#include "gates/generate.h"

struct stream;

/* Encodes the prompt, prefills it and leaves the first row of logits in the session. */
enum status stream_open(engine *e, const struct generate_request *request, struct stream **out,
                        struct err *err);

/* The same, but prefills all prompt tokens but the last; *ids (malloc'ed) is what to score: that last token and the
 * followed tokens but their last, so that row i is the one token i was chosen from. */
enum status stream_open_forced(engine *e, const struct generate_request *request, struct stream **out,
                               int32_t **ids, size_t *n, struct err *err);

/* Chooses (or is told) the next token from the session's logits, writes its record, notices the end. */
enum status stream_take_logits(struct stream *st, struct err *err);
enum status stream_take_row(struct stream *st, const float *logits, const struct top2 *top, struct err *err);

session *stream_session(struct stream *st);
int32_t stream_last_token(const struct stream *st);
int stream_ended(const struct stream *st);

/* Completes the dump and frees the stream, whatever happens. */
enum status stream_finish(struct stream *st, dump **out, struct err *err);
void stream_abandon(struct stream *st); /* NULL is legal */

#endif
