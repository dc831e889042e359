/* ops.c - names and small tables of ops.h. */
#include "ops.h"

#include <string.h>

static const char *const route_names[] = {"f16", "q8", "f32"};
static const char *const kv_names[] = {"f16", "q8_0", "f32"};
static const char *const act_names[] = {"f32", "f16", "q8_32", "q8_256"};

enum act_kind act_kind_for(enum route route, enum dtype weight_dtype) {
    if (route == ROUTE_F32) return ACT_F32;
    if (route == ROUTE_F16) return ACT_F16;
    const struct dtype_info *info = dtype_info((int)weight_dtype);
    return info != NULL && info->block == QK_256 ? ACT_Q8_256 : ACT_Q8_32;
}

int act_block(enum act_kind kind) {
    if (kind == ACT_Q8_32) return ACT_BLOCK_32;
    return kind == ACT_Q8_256 ? ACT_BLOCK_256 : 1;
}

const char *route_name(enum route r) {
    return route_names[r];
}
const char *kv_dtype_name(enum kv_dtype k) {
    return kv_names[k];
}
const char *act_kind_name(enum act_kind k) {
    return act_names[k];
}
const char *arch_name(enum arch a) {
    return a == ARCH_SM80 ? "sm_80" : "sm_90";
}

static int index_of(const char *const *names, int n, const char *s) {
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], s) == 0) return i;
    return -1;
}

int route_from_name(const char *s) {
    return index_of(route_names, 3, s);
}
int kv_dtype_from_name(const char *s) {
    return index_of(kv_names, 3, s);
}
int arch_from_name(const char *s) {
    if (strcmp(s, "sm_80") == 0) return ARCH_SM80;
    return strcmp(s, "sm_90") == 0 ? ARCH_SM90 : -1;
}
