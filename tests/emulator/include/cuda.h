/* cuda.h - the one driver type the launchers name, for the emulated build: bulk tensor copies are not emulated.
 * Source: CUDA Driver API reference. Exercise: ctest -R emulator */
#ifndef EMULATOR_CUDA_H
#define EMULATOR_CUDA_H

typedef struct CUtensorMap {
    alignas(64) unsigned long long opaque[16];
} CUtensorMap;

#endif
