/* import_header.c - see import_header.h. */
#include "gates/import_header.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gates/hash.h"
#include "gates/table.h"

void import_header_init(struct import_header *h) {
    memset(h, 0, sizeof *h);
    h->choice = -1;
    h->told = h->asked = h->prompt_tokens = -1;
}

void import_header_free(struct import_header *h) {
    free(h->model);
    free(h->id);
    free(h->tool);
    h->model = h->id = h->tool = NULL;
}

/* A text that every document of one answer repeats. NULL, or what changed. */
static const char *agree(struct import_header *h, char **known, const json_t *v, const char *what) {
    if (!json_is_string(v)) return NULL;
    const char *text = json_string_value(v);
    if (*known == NULL) {
        size_t n = strlen(text);
        *known = malloc(n + 1);
        if (*known != NULL) memcpy(*known, text, n + 1);
        return *known == NULL ? "out of memory" : NULL;
    }
    if (strcmp(*known, text) == 0) return NULL;
    char before[64], now[64];
    (void)table_escape(*known, strlen(*known), 0, 0, before, sizeof before);
    (void)table_escape(text, strlen(text), 0, 0, now, sizeof now);
    (void)snprintf(h->trouble, sizeof h->trouble, "%s was '%s' and is '%s' here: not one answer", what,
                   before, now);
    return h->trouble;
}

static void read_count(const json_t *holder, const char *key, int64_t *out) {
    const json_t *v = json_object_get(holder, key);
    if (json_is_integer(v) && json_integer_value(v) >= 0) *out = json_integer_value(v);
}

static const char *server_error(struct import_header *h, const json_t *error) {
    const json_t *message = json_is_object(error) ? json_object_get(error, "message") : error;
    char shown[160] = "";
    if (json_is_string(message))
        (void)table_escape(json_string_value(message), json_string_length(message), 0, 0, shown,
                           sizeof shown);
    (void)snprintf(h->trouble, sizeof h->trouble, "the server answered with an error: %s", shown);
    return h->trouble;
}

const char *import_header_root(struct import_header *h, const json_t *root) {
    const json_t *error = json_object_get(root, "error"), *usage = json_object_get(root, "usage");
    const json_t *choices = json_object_get(root, "choices");
    const char *object = json_string_value(json_object_get(root, "object"));
    if (error != NULL && !json_is_null(error)) return server_error(h, error);
    if (object != NULL && strcmp(object, "error") == 0) return server_error(h, root);
    const char *trouble = agree(h, &h->model, json_object_get(root, "model"), "model");
    if (trouble == NULL) trouble = agree(h, &h->id, json_object_get(root, "id"), "id");
    if (trouble == NULL)
        trouble = agree(h, &h->tool, json_object_get(root, "system_fingerprint"), "system_fingerprint");
    if (trouble != NULL) return trouble;
    read_count(usage, "completion_tokens", &h->told);
    read_count(usage, "prompt_tokens", &h->prompt_tokens);
    return choices != NULL && !json_is_array(choices) ? "choices: want a list" : NULL;
}

/* ---- OpenAI-style ---------------------------------------------------------------------------------------------------- */

int import_header_index(const json_t *choice, int otherwise) {
    const json_t *v = json_object_get(choice, "index");
    return json_is_integer(v) && json_integer_value(v) >= 0 && json_integer_value(v) <= INT32_MAX
               ? (int)json_integer_value(v)
               : otherwise;
}

static const char *finish(struct import_header *h, const char *stop) {
    if (h->finished) return "the answer is finished twice: a second one begins";
    h->finished = 1;
    (void)snprintf(h->stop, sizeof h->stop, "%s", stop);
    return NULL;
}

/* How vLLM, SGLang and TensorRT-LLM name an answer that they did not bring to its end. */
int import_header_cut(const struct import_header *h) {
    static const char *const words[] = {"abort", "cancelled", "timeout", "error", "not_finished"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(words[i], h->stop) == 0) return 1;
    return 0;
}

static int is_text(const json_t *v) {
    return json_is_string(v) && json_string_length(v) > 0;
}

/* 1 when there is some. */
static int take_text(struct import_header *h, const json_t *v) {
    if (!is_text(v)) return 0;
    import_blanks_add(&h->text, json_string_value(v), json_string_length(v));
    return 1;
}

const char *import_header_choice(struct import_header *h, const json_t *choice, int *has_text) {
    if (!json_is_object(choice)) return "choices: want objects";
    const json_t *message = json_object_get(choice, "message"), *delta = json_object_get(choice, "delta");
    const json_t *reason = json_object_get(choice, "finish_reason");
    h->shape = message != NULL || delta != NULL ? "openai-chat" : "openai-completions";
    *has_text |= take_text(h, json_object_get(choice, "text")) |
                 take_text(h, json_object_get(message, "content")) |
                 take_text(h, json_object_get(delta, "content"));
    if (!json_is_string(reason)) return NULL;
    return finish(h, json_string_value(reason));
}

/* ---- llama.cpp ------------------------------------------------------------------------------------------------------- */

static double number_of(const json_t *settings, const char *key, double otherwise) {
    const json_t *v = json_object_get(settings, key);
    return json_is_number(v) ? json_number_value(v) : otherwise;
}

static int is_zero(double x) {
    return x <= 0.0 && x >= 0.0;
}

static void read_settings(struct import_header *h, const json_t *settings) {
    static const char *const others[] = {"presence_penalty", "frequency_penalty", "dry_multiplier",
                                         "mirostat", "xtc_probability"};
    if (!json_is_object(settings)) return;
    int plain = 1;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        plain &= is_zero(number_of(settings, others[i], 0.0));
    double temperature = number_of(settings, "temperature", 1.0);
    if (temperature <= 0.0)
        (void)snprintf(h->sampler, sizeof h->sampler, plain ? "greedy" : "greedy, with other penalties");
    else
        (void)snprintf(h->sampler, sizeof h->sampler, "temp=%.9g,seed=%.0f", temperature,
                       number_of(settings, "seed", 0.0));
    double window = number_of(settings, "repeat_last_n", 0.0);
    (void)snprintf(h->repeat_penalty, sizeof h->repeat_penalty, "%.9g",
                   is_zero(window) ? 1.0 : number_of(settings, "repeat_penalty", 1.0));
    read_count(settings, "n_predict", &h->asked);
}

const char *import_header_native(struct import_header *h, const json_t *root, int *has_text) {
    const json_t *stop = json_object_get(root, "stop"), *type = json_object_get(root, "stop_type");
    const json_t *prompt = json_object_get(root, "prompt");
    if (json_object_get(root, "meta_info") != NULL)
        return "SGLang's own /generate is not read here: ask its /v1/completions or /v1/chat/completions";
    if (json_object_get(root, "content") == NULL && json_object_get(root, "completion_probabilities") == NULL)
        return "neither choices nor completion_probabilities: not an answer that is known here";
    h->shape = "llama.cpp-completion";
    *has_text = take_text(h, json_object_get(root, "content"));
    read_count(root, "tokens_predicted", &h->told);
    read_count(root, "tokens_evaluated", &h->prompt_tokens);
    read_settings(h, json_object_get(root, "generation_settings"));
    if (is_text(prompt)) {
        struct hash128 hash = hash_bytes(json_string_value(prompt), json_string_length(prompt));
        hash_format(&hash, h->prompt_hash);
    }
    if (!json_is_true(stop)) return NULL;
    const char *why = json_is_string(type) ? json_string_value(type) : "unknown";
    h->ended = strcmp(why, "eos") == 0;
    return finish(h, strcmp(why, "limit") == 0 ? "length" : why);
}

/* ---- provenance ------------------------------------------------------------------------------------------------------ */

enum status import_header_provenance(const struct import_header *h, struct provenance *p, struct err *err) {
    const struct {
        const char *key, *value;
    } texts[] = {{"import", h->shape},
                 {"tool", h->tool},
                 {"model", h->model},
                 {"stop", h->stop},
                 {"sampler", h->sampler},
                 {"repeat_penalty", h->repeat_penalty},
                 {"prompt.xxh3", h->prompt_hash}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (texts[i].value != NULL && texts[i].value[0] != '\0')
            RETURN_IF_ERROR(provenance_set(p, texts[i].key, texts[i].value, err));
    if (h->prompt_tokens >= 0)
        RETURN_IF_ERROR(provenance_setf(p, err, "prompt.tokens", "%" PRId64, h->prompt_tokens));
    if (h->asked >= 0) RETURN_IF_ERROR(provenance_setf(p, err, "n_requested", "%" PRId64, h->asked));
    if (h->told >= 0) RETURN_IF_ERROR(provenance_setf(p, err, "import.tokens_told", "%" PRId64, h->told));
    return STATUS_OK;
}
