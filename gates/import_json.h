/* import_json.h - the answer of an inference server, with logprobs, becomes a .fgd dump that the comparisons can judge.
 * Not a client: it reads what was saved (curl -N > answer.sse), streamed or not.
 * Idea: every token with its two best candidates is asked for; what a server did not say is refused by name, with line and
 * byte, or marked absent when the caller said so. Logprobs are not logits: gaps survive, ULPs need a dtype that is declared.
 * Source: the servers' own documentation and recorded answers (fixtures/peer/server). Exercise: ctest -R unit.import_json */
#ifndef FORKGATE_IMPORT_JSON_H
#define FORKGATE_IMPORT_JSON_H

#include "gates/dump.h"

/* What is read, by its shape:
 *   llama.cpp /completion with n_probs       completion_probabilities[] of {id, token, bytes, logprob, top_logprobs[]}
 *   OpenAI-style /v1/chat/completions        choices[].logprobs.content[] of {token, bytes, logprob, top_logprobs[]}
 *   OpenAI-style /v1/completions             choices[].logprobs.{tokens, token_logprobs, top_logprobs, text_offset}
 * (vLLM, SGLang, TensorRT-LLM, llama.cpp, llama-cpp-python), as one JSON document, as JSON documents behind each other, or
 * as an event stream of "data: {..}" lines. Ids: from "id", from choices[].token_ids, from "token_id:N" texts, or from a
 * tokenizer. Memory does not grow with the file. */
struct import_json_options {
    const char
        *tokenizer; /* GGUF that resolves ids from bytes, and checks those that are given; NULL: none */
    const char
        *logits_dtype; /* f32, bf16 or f16: the dtype of the logits behind the logprobs; NULL: unknown */
    int choice;        /* index of the choice; -1: there must be one only */
    int partial; /* accept tokens without top-2, fewer tokens than the server counted, text without logprobs, an answer that
                  * the server gave up; what is missing is marked or counted */
};

/* extra stands beside the provenance that the answer implies (model, stop, n_requested, sampler when it is told); another
 * value of the same key is refused. out: path of
 * the dump, or NULL; *d (may be NULL): the finished dump. STATUS_FORMAT: "FILE: line L, byte B: what". */
enum status import_json(const char *path, const struct import_json_options *o, const struct provenance *extra,
                        const char *out, dump **d, struct err *err);
enum status import_json_memory(const void *bytes, size_t n, const char *name,
                               const struct import_json_options *o, const struct provenance *extra,
                               const char *out, dump **d, struct err *err);

/* 1 when the file starts as such an answer does (a brace, or a field of an event stream), 0 for anything else. */
int import_json_looks(const char *path);

#endif
