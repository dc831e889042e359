/* instructions.cc - warp-wide instructions on fragments: ldmatrix and the matrix products (layouts in engine/cuda/mma.cuh).
 * Not a second accumulate model: f16 products go through engine/tcmodel, which device_tc holds against the hardware.
 * Source: PTX ISA 8, mma, ldmatrix. Exercise: ctest -R emulator */
#include "machine.h"

#include "engine/tcmodel.h"

/* ---- ldmatrix ------------------------------------------------------------------------------------------------ */

/* Lane l gave the address of row l%8 of matrix l/8; register i of lane 4g+q receives a pair of matrix i. */
static void load_matrices(uint32_t *r, int n, uint32_t address, bool transposed) {
    struct emulated_slot *s = emulated_slots();
    int lane = emulated_self->lane;
    s[lane].w[0] = address;
    emulated_sync_warp();
    for (int i = 0; i < n; i++) {
        if (!transposed) {
            memcpy(&r[i], emulated_smem(s[8 * i + lane / 4].w[0], 16, 16) + lane % 4 * 4, 4);
            continue;
        }
        uint16_t pair[2];
        for (int e = 0; e < 2; e++)
            memcpy(&pair[e], emulated_smem(s[8 * i + lane % 4 * 2 + e].w[0], 16, 16) + lane / 4 * 2, 2);
        memcpy(&r[i], pair, 4);
    }
    emulated_sync_warp();
}
void ldmatrix_x4(uint32_t r[4], uint32_t address) {
    load_matrices(r, 4, address, false);
}
void ldmatrix_x2(uint32_t r[2], uint32_t address) {
    load_matrices(r, 2, address, false);
}
void ldmatrix_x2_trans(uint32_t r[2], uint32_t address) {
    load_matrices(r, 2, address, true);
}
void ldmatrix_x4_trans(uint32_t r[4], uint32_t address) {
    load_matrices(r, 4, address, true);
}

/* ---- f16 products -------------------------------------------------------------------------------------------- */

#define SLOT_B 4
#define SLOT_C 6
#define SLOT_D 10

/* One lane computes for the warp: it gathers A [16][16], B as rows of B^T [8][16] and C [16][8]. */
static void product_of_warp(struct emulated_slot s[32]) {
    static const int avx2 = tc_have_avx2();
    uint16_t a[16][16], b[8][16], packed[128];
    float c[16][8];
    for (int l = 0; l < 32; l++) {
        int g = l / 4, q = l % 4;
        for (int h = 0; h < 2; h++)
            for (int e = 0; e < 2; e++) {
                a[g + 8 * h][2 * q + e] = (uint16_t)(s[l].w[h] >> 16 * e);
                a[g + 8 * h][8 + 2 * q + e] = (uint16_t)(s[l].w[2 + h] >> 16 * e);
                b[g][8 * h + 2 * q + e] = (uint16_t)(s[l].w[SLOT_B + h] >> 16 * e);
                memcpy(&c[g + 8 * h][2 * q + e], &s[l].w[SLOT_C + 2 * h + e], 4);
            }
    }
    tc_pack_rows(&b[0][0], 16, 8, 16, packed);
    tc_gemm(ARCH_SM90, TC_F16, avx2, &a[0][0], 16, 16, packed, 16, 0, 8, &c[0][0], 8, 1);
    for (int l = 0; l < 32; l++)
        for (int i = 0; i < 4; i++)
            memcpy(&s[l].w[SLOT_D + i], &c[l / 4 + 8 * (i / 2)][l % 4 * 2 + i % 2], 4);
}

void mma_f16(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
    struct emulated_slot *s = emulated_slots(), *own = &s[emulated_self->lane];
    memcpy(own->w, a, 16);
    own->w[SLOT_B] = b0;
    own->w[SLOT_B + 1] = b1;
    memcpy(&own->w[SLOT_C], c, 16);
    emulated_sync_warp();
    if (emulated_self->lane == 0) product_of_warp(s);
    emulated_sync_warp();
    memcpy(c, &own->w[SLOT_D], 16);
    emulated_sync_warp();
}

/* ---- int8 products: exact, so each lane takes its own four --------------------------------------------------- */

/* Slot words: A rows g in 0 and 2, rows g+8 in 1 and 3 (k halves), B column g in 4 and 5. */
static void products_of_lane(int c[4], int k_halves) {
    const struct emulated_slot *s = emulated_slots();
    int g = emulated_self->lane / 4, q = emulated_self->lane % 4;
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 16 * k_halves; k++) {
            int half = k / 16, from = k % 16 / 4;
            int8_t x = (int8_t)(s[4 * g + from].w[2 * half + i / 2] >> 8 * (k % 4));
            int8_t y = (int8_t)(s[4 * (2 * q + i % 2) + from].w[SLOT_B + half] >> 8 * (k % 4));
            c[i] += x * y;
        }
}
void mma_s8_k32(int c[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
    struct emulated_slot *own = &emulated_slots()[emulated_self->lane];
    memcpy(own->w, a, 16);
    own->w[SLOT_B] = b0;
    own->w[SLOT_B + 1] = b1;
    emulated_sync_warp();
    products_of_lane(c, 2);
    emulated_sync_warp();
}
void mma_s8_k16(int c[4], uint32_t a0, uint32_t a1, uint32_t b) {
    struct emulated_slot *own = &emulated_slots()[emulated_self->lane];
    own->w[0] = a0;
    own->w[1] = a1;
    own->w[SLOT_B] = b;
    emulated_sync_warp();
    products_of_lane(c, 1);
    emulated_sync_warp();
}
