/* occupancy.h - how many blocks of a kernel live on one multiprocessor: derived from sizes, for any card, without one.
 * Not a measurement: what the driver says (queried) and what was seen alive at once (measured) come from a device.
 * Idea: shared memory of an instance comes from the functions of launch.h that its launcher uses; registers are recorded
 * from the compiled sm_90a code; where nvcc is, ctest compiles again and compares (tests/occupancy_registers.sh).
 * Source: CUDA programming guide, occupancy; 1 KB of shared memory a block is the system's. Exercise: forkgate occupancy */
#ifndef FORKGATE_OCCUPANCY_H
#define FORKGATE_OCCUPANCY_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define OCCUPANCY_RESERVED 1024 /* shared memory of a block that the system takes */

/* What a multiprocessor has. */
struct sm_limits {
    char card[64];
    size_t shared; /* bytes for all blocks */
    int registers, threads, blocks;
};

/* What a block of an instance needs. */
struct block_needs {
    char kernel[32], geometry[64];
    int threads;
    int registers;          /* of a thread, as compiled */
    size_t shared, dynamic; /* static and dynamic shared memory */
};

/* Blocks that each resource alone would allow, and together. */
struct residency {
    int by_shared, by_registers, by_threads, by_blocks;
    int resident;
};

/* An H100 or H200 (compute capability 9.0): 228 KB, 65536 registers, 2048 threads, 32 blocks. */
struct sm_limits occupancy_sm90(void);

/* by_shared = shared / (round_up(static + dynamic, 128) + OCCUPANCY_RESERVED); registers are given to warps in units of
 * 256, and to four warps at a time. A block that no resource allows gives 0. */
struct residency occupancy_derive(const struct sm_limits *sm, const struct block_needs *b);

/* Fills *out with instance i of the table; 0 when there are no more. */
int occupancy_instance(int i, struct block_needs *out);

#ifdef __cplusplus
}
#endif
#endif
