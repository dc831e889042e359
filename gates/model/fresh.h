/* fresh.h - a stream made by a fresh process of this very binary. Private to gates/model.
 * Source: ours. Exercise: forkgate run --only stream.repeat.f16 */
#ifndef FORKGATE_FRESH_H
#define FORKGATE_FRESH_H

#include "gates/model/streams.h"

/* Runs `self generate` with this configuration on one prompt file and opens what it wrote. */
enum status fresh_stream(const struct gate_context *ctx, const struct engine_config *config,
                         const struct stream_prompt *p, dump **out, struct err *err);

#endif
