/* test_hash.c - XXH3-128 in canonical form, NaN as one class, and text that parses back. */
#include <criterion/criterion.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gates/hash.h"

static void is_hex(struct hash128 h, const char *want) {
    char text[HASH_TEXT_BYTES];
    hash_format(&h, text);
    cr_assert_str_eq(text, want);
}

/* Values of `xxh128sum` (xxHash 0.8.1). */
Test(hash, equals_the_command_line_tool) {
    is_hex(hash_bytes(NULL, 0), "99aa06d3014798d86001c324468d497f");
    is_hex(hash_bytes("abc", 3), "06b05ab6733a618578af5f94892f3950");
}

Test(hash, streaming_in_any_pieces_equals_one_shot) {
    uint8_t data[3000];
    for (size_t i = 0; i < sizeof data; i++) data[i] = (uint8_t)(i * i + 3 * i);
    struct hash128 whole = hash_bytes(data, sizeof data);
    for (size_t piece = 1; piece < 700; piece += 13) {
        hash_stream *s = hash_open();
        for (size_t at = 0; at < sizeof data; at += piece) {
            hash_update(s, data + at, sizeof data - at < piece ? sizeof data - at : piece);
            (void)hash_peek(s); /* a look does not disturb */
        }
        struct hash128 h = hash_peek(s);
        cr_assert(hash_equal(&h, &whole) == 1, "piece %zu", piece);
        hash_close(s);
    }
    hash_close(NULL);
}

static float from_bits(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

Test(hash, every_nan_is_the_same_nan_and_zero_has_a_sign) {
    enum { N = 9001 };
    float *a = calloc(N, sizeof *a), *b = calloc(N, sizeof *b);
    const size_t places[] = {0, 4095, 4096, N - 1};
    for (size_t k = 0; k < 4; k++) {
        a[places[k]] = from_bits(0x7fc00000u);
        b[places[k]] = from_bits(0xffc01234u);
        struct hash128 ha = hash_logits(a, N), hb = hash_logits(b, N), raw = hash_bytes(a, N * sizeof *a);
        cr_assert(hash_equal(&ha, &hb) == 1, "NaN at %zu", places[k]);
        cr_assert(hash_equal(&ha, &raw) == 1, "the canonical NaN hashes as its bytes");
        a[places[k]] = b[places[k]] = 1.0f;
    }
    struct hash128 plus = hash_logits(a, N);
    a[7] = -0.0f;
    struct hash128 minus = hash_logits(a, N);
    cr_assert(hash_equal(&plus, &minus) == 0);
    a[7] = from_bits(0x7f800000u); /* Inf is not NaN */
    struct hash128 inf = hash_logits(a, N), inf_bytes = hash_bytes(a, N * sizeof *a);
    cr_assert(hash_equal(&inf, &inf_bytes) == 1);
    free(a);
    free(b);
}

Test(hash, text_parses_back_and_nothing_else_does) {
    struct hash128 h = hash_bytes("x", 1), back;
    char text[HASH_TEXT_BYTES + 2];
    hash_format(&h, text);
    cr_assert_eq(hash_parse(text, &back), 1);
    cr_assert(hash_equal(&h, &back) == 1);
    static const char *const bad[] = {"",
                                      "99",
                                      "99aa06d3014798d86001c324468d497",
                                      "99aa06d3014798d86001c324468d497f0",
                                      "99AA06D3014798D86001C324468D497F",
                                      "g9aa06d3014798d86001c324468d497f"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_assert_eq(hash_parse(bad[i], &back), 0, "%zu", i);
}
