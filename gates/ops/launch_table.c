/* launch_table.c - see launch_table.h. */
#include "gates/ops/launch_table.h"

#include <stdio.h>
#include <string.h>

int launch_table_has_wgmma(const struct engine_config *config) {
    struct device_info d;
    struct err ignored;
    return config->compute.arch == ARCH_SM90 && backend_cuda_device(&d, &ignored) == STATUS_OK &&
           strncmp(d.name, "emulated", 8) != 0;
}

void launch_table_product(enum route route, const char *dtype, int64_t rows, int wgmma, char out[48]) {
    if (route == ROUTE_Q8)
        (void)snprintf(out, 48, "%s_%s", rows <= DECODE_ROWS ? "mmvq" : "mmq", dtype);
    else if (rows <= DECODE_ROWS)
        (void)snprintf(out, 48, "gemv_f16");
    else
        (void)snprintf(out, 48, "%s", rows > SMALL_TILE_ROWS && wgmma ? "gemm_f16_wgmma" : "gemm_f16");
}

void launch_table_attention(enum kv_dtype kv, int prefill, int head_dim, int wgmma, char out[48]) {
    if (prefill && kv == KV_F16 && head_dim <= WGMMA_HEAD_DIM && wgmma)
        (void)snprintf(out, 48, "fa_prefill_wgmma");
    else
        (void)snprintf(out, 48, "fa_%s_%s", prefill ? "prefill" : "decode", kv == KV_F16 ? "f16kv" : "q8kv");
}
