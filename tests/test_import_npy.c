/* test_import_npy.c - a NumPy array is read as its shape says, or refused with the byte where it stops being one. */
#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gates/import_npy.h"

TestSuite(import_npy, .timeout = 30);

static uint8_t file[4096];

/* Version major.0, the dictionary padded with blanks to `header` bytes and a line end, then n bytes of data. */
static size_t array(int major, const char *dictionary, size_t header, const void *data, size_t n) {
    size_t at = major == 1 ? 10 : 12, length = strlen(dictionary);
    cr_assert(length < header && at + header + n <= sizeof file);
    memcpy(file, IMPORT_NPY_MAGIC, 6);
    file[6] = (uint8_t)major;
    file[7] = 0;
    for (size_t i = 8; i < at; i++) file[i] = (uint8_t)(header >> 8 * (i - 8));
    memset(file + at, ' ', header);
    memcpy(file + at, dictionary, length);
    file[at + header - 1] = '\n';
    if (n > 0) memcpy(file + at + header, data, n);
    return at + header + n;
}

static enum status parse(size_t n, const struct import_npy_options *o, struct import_npy *out,
                         struct err *err) {
    uint8_t *exact = malloc(n + 1); /* so that a byte too far is seen by a sanitizer */
    cr_assert(exact != NULL);
    memcpy(exact, file, n);
    enum status s = import_npy_parse(exact, n, "x.npy", o, out, err);
    if (s == STATUS_OK) out->data = file + (out->data - exact);
    free(exact);
    return s;
}

static const struct import_npy_options strict = {0, 0}, words = {1, 0}, keep = {0, 1};
static const float six[6] = {1, 2, 3, 4, 5, 6};

static struct import_npy accepted(int major, const char *dictionary, const void *data, size_t n,
                                  const struct import_npy_options *o) {
    struct import_npy a;
    struct err err = {""};
    cr_assert_eq(parse(array(major, dictionary, 118, data, n), o, &a, &err), STATUS_OK, "%s", err.message);
    cr_assert(a.bytes == n && memcmp(a.data, data, n) == 0);
    return a;
}

Test(import_npy, shapes_and_dtypes_come_through) {
    struct import_npy a =
        accepted(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", six, 24, &strict);
    cr_assert(a.shape.dtype == DTYPE_F32 && a.shape.n_dims == 2);
    cr_assert(a.shape.ne[0] == 3 && a.shape.ne[1] == 2 && a.shape.ne[2] == 1, "rows are the first dimension");
    a = accepted(2, "{\"shape\":(6,),\"descr\":\"<f4\",\"fortran_order\":False}", six, 24, &strict);
    cr_assert(a.shape.n_dims == 1 && a.shape.ne[0] == 6);
    a = accepted(1, "{'descr': '<f2', 'fortran_order': False, 'shape': (1, 1, 2, 2), }", six, 8, &keep);
    cr_assert(a.shape.dtype == DTYPE_F16 && a.shape.n_dims == 4 && a.shape.ne[1] == 2);
    a = accepted(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (), }", six, 4, &strict);
    cr_assert(a.shape.n_dims == 1 && a.shape.ne[0] == 1);
    static const char *const of_words[] = {"<u2", "<i2", "|V2"};
    for (size_t i = 0; i < 3; i++) {
        char text[100];
        const uint16_t one[2] = {0x3f80, 0x3f81};
        (void)snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (2,), }",
                       of_words[i]);
        cr_assert_eq(accepted(1, text, one, 4, &words).shape.dtype, DTYPE_BF16);
    }
}

static void refused(const char *dictionary, const void *data, size_t n, const struct import_npy_options *o,
                    const char *says) {
    struct import_npy a;
    struct err err = {""};
    cr_assert_neq(parse(array(1, dictionary, 118, data, n), o, &a, &err), STATUS_OK, "accepted: %s",
                  dictionary);
    cr_assert(strncmp(err.message, "x.npy: ", 7) == 0 && strstr(err.message, says) != NULL, "%s: %s",
              dictionary, err.message);
}

Test(import_npy, what_is_not_read_is_refused_by_name) {
    static const struct {
        const char *dictionary, *says;
    } bad[] = {
        {"{'descr': '>f4', 'fortran_order': False, 'shape': (6,), }", "dtype >f4: only little-endian"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }", "dtype <f8: only little-endian"},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (3,), }", "dtype |O: only"},
        {"{'descr': '<u2', 'fortran_order': False, 'shape': (12,), }", "say --bf16"},
        {"{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (6,), }", "byte 20: a structured dtype"},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", "Fortran order"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (5,), }",
         "24 bytes of data at byte 128 where the shape needs 20"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (7,), }", "where the shape needs 28"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (0,), }", "dimension 0 is 0"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,6), }", "more than 4 dimensions"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296,4294967296), }", "more than 2^40"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (18446744073709551622,), }",
         "more than 15 digits"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-6,), }", "want a dimension"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (6), }", "want a comma"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2 3), }", "want a comma"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (6,)", "want a comma"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': [6], }", "want the shape in parentheses"},
        {"{'descr': '<f4', 'fortran_order': 0, 'shape': (6,), }", "want True or False"},
        {"{'descr': '<f4', 'shape': (6,), }", "descr, fortran_order or shape is missing"},
        {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (6,), }",
         "unknown or there twice"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (6,), 'x': 1, }", "unknown or there twice"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (6,), } x", "the header does not end here"},
        {"{'descr': '<f4, 'fortran_order': False, 'shape': (6,), }", "want a comma"},
        {"{'descr': '\\x3cf4', 'fortran_order': False, 'shape': (6,), }", "too long or not plain"},
        {"", "want the header's dictionary"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        refused(bad[i].dictionary, six, 24, &strict, bad[i].says);
    refused("{'descr': '<f4', 'fortran_order': False, 'shape': (6,), }", six, 24, &words,
            "--bf16 is for 16-bit");
    const float nan[2] = {1.0f, NAN}, inf[2] = {-INFINITY, 1.0f};
    static const char pair[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
    refused(pair, nan, 8, &strict, "element 1 is NaN or infinite");
    refused(pair, inf, 8, &strict, "element 0 is NaN or infinite");
    (void)accepted(1, pair, nan, 8, &keep);
}

Test(import_npy, a_file_that_is_cut_or_lies_about_its_header_is_refused) {
    struct import_npy a;
    struct err err = {""};
    size_t n = array(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (6,), }", 118, six, 24);
    for (size_t cut = 0; cut < n; cut++)
        cr_assert_neq(parse(cut, &strict, &a, &err), STATUS_OK, "accepted with %zu bytes", cut);
    for (size_t at = 0; at < 8; at++) {
        file[at] ^= 0x40;
        cr_assert_neq(parse(n, &strict, &a, &err), STATUS_OK, "accepted with byte %zu changed", at);
        file[at] ^= 0x40;
    }
    for (int length = 0; length < 65536; length += 7) { /* 118 is none of them */
        file[8] = (uint8_t)(length & 255);
        file[9] = (uint8_t)(length >> 8);
        cr_assert_neq(parse(n, &strict, &a, &err), STATUS_OK, "accepted with a header of %d", length);
    }
    n = array(2, "{'descr': '<f4', 'fortran_order': False, 'shape': (6,), }", 116, six, 24);
    file[11] = 0xff;
    cr_assert_neq(parse(n, &strict, &a, &err), STATUS_OK);
    cr_assert(strstr(err.message, "byte 8: a header longer than the file") != NULL, "%s", err.message);
    file[6] = 3;
    cr_assert_neq(parse(n, &strict, &a, &err), STATUS_OK);
    cr_assert(strstr(err.message, "a version that is not 1.0 or 2.0") != NULL, "%s", err.message);
}
