/* machine.h - the emulated multiprocessor behind emulator.h: blocks, fibers, barriers, shared memory.
 * Source: ours. Exercise: ctest -R emulator */
#ifndef EMULATOR_MACHINE_H
#define EMULATOR_MACHINE_H

#include "emulator.h"

#define EMULATED_SMEM_MAX 232448 /* opt-in limit of an sm_90 block */

/* Runs every block of a grid, in order. Returns cudaSuccess, or why it stopped. */
cudaError_t emulated_run(dim3 grid, dim3 block, size_t smem, const std::function<void()> &body);

/* The running block's dynamic shared memory; a range outside it stops the launch. */
uint8_t *emulated_smem(uint32_t address, size_t bytes, size_t alignment);

#endif
