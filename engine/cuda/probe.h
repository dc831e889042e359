/* probe.h - the host side of probe.cuh: reads what the last launch was seen to do. Only in target forkgate-probe.
 * Source: ours. Exercise: forkgate-probe occupancy --device */
#ifndef FORKGATE_CUDA_PROBE_H
#define FORKGATE_CUDA_PROBE_H

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PROBE_SMS 256

typedef cudaError_t probe_reader(unsigned most[PROBE_SMS]);

/* Called before main by every translation unit with counters. Returns 0. */
int cuda_probe_list(probe_reader *read);

/* Waits for the device; the most blocks alive at once on any multiprocessor since the last call. 0: no probed kernel ran. */
cudaError_t cuda_probe_take(int *most);

#ifdef __cplusplus
}
#endif
#endif
