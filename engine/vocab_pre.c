/* vocab_pre.c - cuts text into the pieces that BPE merges inside, by the pattern published with each model family.
 * Not a regex engine: PCRE2 (UTF and UCP, JIT where there is one) does the matching.
 * Idea: every pattern matches at every position, so it is anchored and the pieces follow each other without a gap.
 * Bytes that are not UTF-8 are shown to the pattern as U+FFFD, one for each byte, and cut out as themselves: the bytes
 * survive. Whitespace is \p{White_Space}, because PCRE2's \s under UCP has U+180E too.
 * Source: the tokenizer.json of GPT-2, Qwen2, Llama 3 and SmolLM (patterns are data). Exercise: ctest -R unit.vocab */
#include "vocab_impl.h"

#include <stdlib.h>
#include <string.h>

#define WORDS_GPT2  "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+"
#define SYMBOLS     " ?[^\\p{White_Space}\\p{L}\\p{N}]+"
#define WORDS_CASED "'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define LINES       SYMBOLS "[\\r\\n]*|\\p{White_Space}*[\\r\\n]+"
#define SPACES      "\\p{White_Space}+(?!\\P{White_Space})|\\p{White_Space}+"
/* SmolLM first cuts out each digit, so a digit ends the text as far as the spaces before it can see. */
#define SPACES_DIGITS "\\p{White_Space}+(?![^\\p{White_Space}\\p{N}])|\\p{White_Space}+"

/* The contractions of qwen2 and llama-bpe ignore case in ASCII only: U+017F is not folded to s. */
static const struct pre_tokenizer {
    const char *name, *pattern;
    int ignore_merges, add_bos; /* what the family does unless the file says otherwise */
} pre_tokenizers[] = {
    {"gpt-2", WORDS_GPT2 "| ?\\p{N}+|" SYMBOLS "|" SPACES, 0, 0},
    {"qwen2", WORDS_CASED "|\\p{N}|" LINES "|" SPACES, 0, 0},
    {"llama-bpe", WORDS_CASED "|\\p{N}{1,3}|" LINES "|" SPACES, 1, 1},
    {"smollm", WORDS_GPT2 "|\\p{N}|" SYMBOLS "|" SPACES_DIGITS, 0, 0},
};

enum status vocab_pre_open(struct vocab *v, const char *name, size_t name_length, struct err *err) {
    const struct pre_tokenizer *pre = NULL;
    for (size_t i = 0; i < sizeof pre_tokenizers / sizeof pre_tokenizers[0]; i++) {
        const struct pre_tokenizer *p = &pre_tokenizers[i];
        if (strlen(p->name) == name_length && memcmp(p->name, name, name_length) == 0) pre = p;
    }
    if (pre == NULL)
        return err_set(err, STATUS_UNSUPPORTED,
                       "tokenizer.ggml.pre '%.*s' is not handled (gpt-2, qwen2, llama-bpe, smollm are)",
                       (int)(name_length < 64 ? name_length : 64), name);
    v->pre_name = pre->name;
    v->ignore_merges = pre->ignore_merges;
    v->add_bos = pre->add_bos;

    int code = 0;
    PCRE2_SIZE at = 0;
    v->pattern = pcre2_compile((PCRE2_SPTR)pre->pattern, PCRE2_ZERO_TERMINATED,
                               PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &code, &at, NULL);
    if (v->pattern == NULL)
        return err_set(err, STATUS_UNSUPPORTED,
                       "this PCRE2 cannot compile the %s pattern: error %d at offset %zu", pre->name, code,
                       at);
    /* Without a JIT for this machine the interpreter gives the same pieces, only slower. */
    (void)pcre2_jit_compile(v->pattern, PCRE2_JIT_COMPLETE);
    return STATUS_OK;
}

/* Table 3-7 of the Unicode standard: no overlong forms, no surrogates, nothing beyond U+10FFFF. */
size_t utf8_length(const uint8_t *text, size_t left) {
    uint8_t first = text[0], low = 0x80, high = 0xbf;
    size_t n;
    if (first < 0x80) return 1;
    if (first >= 0xc2 && first <= 0xdf) {
        n = 2;
    } else if (first >= 0xe0 && first <= 0xef) {
        n = 3;
        if (first == 0xe0) low = 0xa0;
        if (first == 0xed) high = 0x9f;
    } else if (first >= 0xf0 && first <= 0xf4) {
        n = 4;
        if (first == 0xf0) low = 0x90;
        if (first == 0xf4) high = 0x8f;
    } else {
        return 0;
    }
    if (left < n || text[1] < low || text[1] > high) return 0;
    for (size_t i = 2; i < n; i++)
        if (text[i] < 0x80 || text[i] > 0xbf) return 0;
    return n;
}

static size_t count_invalid(const uint8_t *text, size_t length) {
    size_t n = 0;
    for (size_t i = 0; i < length;) {
        size_t step = utf8_length(text + i, length - i);
        n += step == 0;
        i += step == 0 ? 1 : step;
    }
    return n;
}

static const uint8_t replacement[3] = {0xef, 0xbf, 0xbd}; /* U+FFFD */

/* A copy of text in which each byte that is not UTF-8 is U+FFFD; *length becomes the copy's. NULL: no memory. */
static uint8_t *readable_copy(const uint8_t *text, size_t *length, size_t invalid) {
    uint8_t *copy = malloc(*length + 2 * invalid);
    if (copy == NULL) return NULL;
    size_t at = 0;
    for (size_t i = 0; i < *length;) {
        size_t step = utf8_length(text + i, *length - i);
        if (step == 0) {
            memcpy(copy + at, replacement, sizeof replacement);
            at += sizeof replacement;
            i++;
        } else {
            memcpy(copy + at, text + i, step);
            at += step;
            i += step;
        }
    }
    *length = at;
    return copy;
}

/* Bytes of text that the first n bytes of its readable copy stand for. */
static size_t original_length(const uint8_t *text, size_t left, size_t n) {
    size_t taken = 0;
    for (size_t seen = 0; seen < n;) {
        size_t step = utf8_length(text + taken, left - taken);
        seen += step == 0 ? sizeof replacement : step;
        taken += step == 0 ? 1 : step;
    }
    return taken;
}

static enum status split(const struct vocab *v, pcre2_match_data *match, const uint8_t *shown, size_t n_shown,
                         const uint8_t *text, size_t length, piece_fn emit, void *context, struct err *err) {
    size_t at = 0, text_at = 0;
    while (at < n_shown) {
        int rc = pcre2_match(v->pattern, shown, n_shown, at, PCRE2_NO_UTF_CHECK, match, NULL);
        size_t end = rc > 0 ? pcre2_get_ovector_pointer(match)[1] : at;
        if (end <= at)
            return err_set(err, STATUS_LIMIT, "the %s pattern failed at byte %zu: PCRE2 error %d",
                           v->pre_name, text_at, rc);
        size_t n = shown == text ? end - at : original_length(text + text_at, length - text_at, end - at);
        RETURN_IF_ERROR(emit(context, text + text_at, n, err));
        text_at += n;
        at = end;
    }
    return STATUS_OK;
}

enum status vocab_pre_split(const struct vocab *v, const uint8_t *text, size_t length, piece_fn emit,
                            void *context, struct err *err) {
    size_t invalid = count_invalid(text, length), n_shown = length;
    uint8_t *copy = NULL;
    if (invalid > 0) {
        copy = readable_copy(text, &n_shown, invalid);
        if (copy == NULL) return err_set(err, STATUS_NOMEM, "no memory for a text of %zu bytes", length);
    }
    enum status s;
    pcre2_match_data *match = pcre2_match_data_create(1, NULL);
    if (match == NULL) {
        s = err_set(err, STATUS_NOMEM, "no memory to match a pattern");
    } else {
        s = split(v, match, copy != NULL ? copy : text, n_shown, text, length, emit, context, err);
    }
    pcre2_match_data_free(match);
    free(copy);
    return s;
}
