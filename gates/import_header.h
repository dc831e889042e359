/* import_header.h - what a server's answer says about itself beside its tokens: model, end, budget, sampler.
 * Not the tokens: import_answer.h.
 * Idea: each document adds what it knows; a contradiction between two documents is trouble.
 * Source: recorded answers (fixtures/peer/server). Exercise: ctest -R unit.import_json */
#ifndef FORKGATE_IMPORT_HEADER_H
#define FORKGATE_IMPORT_HEADER_H

#include <jansson.h>
#include <stdint.h>

#include "gates/import_blanks.h"
#include "gates/provenance.h"

struct import_header {
    char *model, *id, *tool; /* as the server names them; NULL: not told */
    const char *shape;       /* "llama.cpp-completion", "openai-completions", "openai-chat" */
    int choice;              /* index that is read; -1: none yet */
    int finished, finished_before;
    int ended;           /* the server says that the last listed token is the end token */
    char stop[16];       /* eos, length, stop, or what the server calls it */
    int64_t told, asked; /* tokens made, budget; -1: not told */
    int64_t prompt_tokens;
    char sampler[64], repeat_penalty[32]; /* "": not told */
    char prompt_hash[40];
    struct import_blanks text; /* of the answer, as far as it is kept */
    char trouble[256];         /* room for a sentence */
};

void import_header_init(struct import_header *h);
void import_header_free(struct import_header *h);

/* Each returns NULL, or one sentence that says what is wrong (valid until the next call on h). *has_text is set when the
 * document holds text of the stream. */
const char *import_header_root(struct import_header *h, const json_t *root);
const char *import_header_choice(struct import_header *h, const json_t *choice, int *has_text);
const char *import_header_native(struct import_header *h, const json_t *root, int *has_text);
int import_header_cut(const struct import_header *h); /* the server gave the answer up */
int import_header_index(const json_t *choice, int otherwise);

enum status import_header_provenance(const struct import_header *h, struct provenance *p, struct err *err);

#endif
