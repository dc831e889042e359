/* device_tc_inputs.h - the operand families of device_tc: random and adversarial tiles for one tensor-core shape.
 * Not a distribution of real models: each family aims at one rule of the accumulate model.
 * Idea: counter-based, so a failing vector is named by (family, type, index). Source: ours. Exercise: device_tc */
#ifndef FORKGATE_DEVICE_TC_INPUTS_H
#define FORKGATE_DEVICE_TC_INPUTS_H

#include <stdint.h>

#include "../engine/tcmodel.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TC_TEST_M     64   /* rows of a tile: one wgmma */
#define TC_TEST_N     16   /* columns */
#define TC_TEST_TILES 1024 /* 64 * 16 * 1024 = 1,048,576 vectors a family */
#define TC_TEST_CHAIN 64   /* K of the chained cases: four steps */

enum tc_family {
    FAMILY_NORMAL,     /* N(0,1) */
    FAMILY_WIDE,       /* exponents over most of the type's range */
    FAMILY_SUBNORMAL,  /* input subnormals beside the smallest normals */
    FAMILY_ZEROS,      /* half of the operands are zeros of either sign */
    FAMILY_CANCELLING, /* products in pairs of opposite sign, C against the rest of the sum */
    FAMILY_SPECIAL,    /* normal values with an Inf or NaN here and there */
    FAMILY_ANY_BITS,   /* any bit pattern */
    FAMILY_TINY, /* bf16: products and C around the floor of the alignment; f16: the smallest products */
    FAMILY_COUNT
};

const char *tc_family_name(enum tc_family f);

/* One tile: a [TC_TEST_M, k], b [TC_TEST_N, k] (rows of B^T), c [TC_TEST_M, TC_TEST_N]. */
void tc_family_tile(enum tc_family f, enum tc_type type, int tile, int k, uint16_t *a, uint16_t *b, float *c);

#ifdef __cplusplus
}
#endif
#endif
