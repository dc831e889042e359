/* vocab.h - text to token ids and ids to bytes: byte-level BPE and SPM.
 * Not a template engine: no chat formatting, no normalisation the model file does not ask for.
 * Idea: bytes are the currency. encode takes bytes (invalid UTF-8 included), vocab_bytes gives each id's own bytes, and
 * concatenating them gives back the text exactly (SPM: with one space before text that starts the input or follows a
 * special token, unless the file says add_space_prefix = false). A literal U+2581 stays itself in SPM.
 * Source: Sennrich et al. 2016 (BPE); pre-tokenizer patterns as published with each model. Exercise: ctest -R unit.vocab */
#ifndef FORKGATE_VOCAB_H
#define FORKGATE_VOCAB_H

#include <stddef.h>
#include <stdint.h>

#include "gguf.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vocab vocab;

/* Reads tokenizer.ggml.* of g (copies what it keeps). A tokenizer or pre-tokenizer without recorded test data
 * (anything but gpt-2, qwen2, llama-bpe, smollm and SPM "llama") is refused by name: STATUS_UNSUPPORTED. */
enum status vocab_open(const gguf *g, vocab **out, struct err *err);
void vocab_close(vocab *v);

int32_t vocab_size(const vocab *v);
int32_t vocab_bos(const vocab *v); /* -1 when there is none */
int32_t vocab_eos(const vocab *v);
int vocab_is_end(const vocab *v, int32_t id); /* EOS, EOT or another end-of-generation id */
const char *vocab_pre_name(const vocab *v);   /* "gpt-2", "qwen2", "llama-bpe", "smollm", "spm" */

/* Ids of text[0..length). add_bos: as the file asks (add_bos_token) when 1, never when 0. parse_special: special
 * tokens written out in the text become their ids; otherwise they are plain text (user-defined tokens become ids always).
 * *ids is malloc'ed, the caller frees; it may be NULL when *n is 0. Errors: STATUS_INVALID when the vocabulary has no
 * token for a byte of the text (which byte, at which offset), STATUS_LIMIT beyond 512 MiB, STATUS_NOMEM. Time grows as
 * n log n for any text. add_eos_token is not applied: a prompt is to be continued. */
enum status vocab_encode(const vocab *v, const char *text, size_t length, int add_bos, int parse_special,
                         int32_t **ids, size_t *n, struct err *err);

/* The bytes of one id. Special tokens give their literal text. The pointer lives as long as v. id must be in range. */
void vocab_bytes(const vocab *v, int32_t id, const uint8_t **bytes, size_t *length);
int vocab_is_special(const vocab *v, int32_t id);

#ifdef __cplusplus
}
#endif
#endif
