/* runtime.cc - the CUDA runtime over the emulated machine: every call is done when it returns, errors stick.
 * Not a device: it calls itself "emulated", so no report can pass for one of a GPU.
 * Idea: an allocation ends at a page that nobody may touch and starts as old bytes, never as zeros; what a process does
 * not give back is told at its end.
 * Source: CUDA Runtime API reference. Exercise: ctest -R emulator */
#include "machine.h"

#include <map>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <vector>

#include "engine/cuda/tensor_map.h"

#define PAGE            4096
#define OLD_BYTE        0x55
#define MULTIPROCESSORS 4
#define SM_SMEM         233472 /* bytes an sm_90 multiprocessor has; a block reserves 1 KB of them */
#define SM_THREADS      2048

struct launch {
    dim3 grid, block;
    size_t smem;
    std::function<void()> body;
};

static std::map<const void *, emulated_binder> kernels;
static std::map<void *, std::pair<void *, size_t>> allocations;
static bool capturing;
static std::vector<launch> captured;
static cudaError_t sticky = cudaSuccess;

/* What is handed out and must come back; at the end of the process a line on stderr says what did not. */
static struct census {
    long pinned, streams, events, graphs, execs;
    ~census() {
        long device = (long)allocations.size(), all = device + pinned + streams + events + graphs + execs;
        if (all != 0)
            fprintf(
                stderr,
                "emulator: not given back: %ld allocations, %ld page-locked, %ld streams, %ld events, %ld "
                "graphs, %ld executables\n",
                device, pinned, streams, events, graphs, execs);
    }
} census;

/* One more, or one less, of a kind. */
static cudaError_t take(long *kind, void *p) {
    *kind += p != NULL;
    return p != NULL ? cudaSuccess : cudaErrorMemoryAllocation;
}
static cudaError_t give(long *kind, void *p) {
    *kind -= p != NULL;
    free(p);
    return cudaSuccess;
}

void emulated_register(const void *kernel, emulated_binder bind) {
    kernels.emplace(kernel, bind);
}

static cudaError_t run(const launch &l) {
    cudaError_t e = emulated_run(l.grid, l.block, l.smem, l.body);
    if (e != cudaSuccess && e != cudaErrorInvalidValue) sticky = e;
    return e;
}

/* ---- device, errors ------------------------------------------------------------------------------------------ */

cudaError_t cudaGetLastError(void) {
    return sticky;
}
const char *cudaGetErrorString(cudaError_t e) {
    static const char *const text[] = {"no error",
                                       "invalid value",
                                       "out of memory",
                                       "too many resources requested",
                                       "an illegal access was stopped",
                                       "the kernel never ended",
                                       "not permitted while a stream is captured",
                                       "unknown error"};
    return text[e];
}
cudaError_t cudaGetDeviceCount(int *n) {
    *n = 1;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
    return device == 0 ? cudaSuccess : cudaErrorInvalidValue;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int) {
    memset(p, 0, sizeof *p);
    (void)snprintf(p->name, sizeof p->name, "emulated (no GPU)");
    const char *cc =
        getenv("EMULATED_CC"); /* another chip's name for the same machine: what does the engine say? */
    if (cc == NULL || sscanf(cc, "%d.%d", &p->major, &p->minor) != 2) p->major = 9;
    p->multiProcessorCount = MULTIPROCESSORS;
    p->totalGlobalMem = (size_t)1 << 34;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int) {
    *value = attr == cudaDevAttrMaxSharedMemoryPerBlockOptin ? EMULATED_SMEM_MAX : 0;
    return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int *version) {
    *version = 0;
    return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int *version) {
    *version = 0;
    return cudaSuccess;
}

/* ---- memory -------------------------------------------------------------------------------------------------- */

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes) {
    *free_bytes = *total_bytes = (size_t)1 << 34;
    for (const auto &a : allocations) *free_bytes -= a.second.second;
    return cudaSuccess;
}
cudaError_t cudaMalloc(void **p, size_t bytes) {
    size_t used = (bytes + 15) / 16 * 16, pages = (used + PAGE - 1) / PAGE * PAGE, all = pages + 2 * PAGE;
    uint8_t *b = (uint8_t *)mmap(NULL, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (b == MAP_FAILED || mprotect(b + PAGE, pages, PROT_READ | PROT_WRITE) != 0)
        return cudaErrorMemoryAllocation;
    memset(b + PAGE, OLD_BYTE, pages);
    *p = b + PAGE + pages - used;
    allocations[*p] = {b, all};
    return cudaSuccess;
}
cudaError_t cudaFree(void *p) {
    auto it = allocations.find(p);
    if (it == allocations.end()) return p == NULL ? cudaSuccess : cudaErrorInvalidValue;
    (void)munmap(it->second.first, it->second.second);
    allocations.erase(it);
    return cudaSuccess;
}
cudaError_t cudaMallocHost(void **p, size_t bytes) {
    return take(&census.pinned, *p = malloc(bytes));
}
cudaError_t cudaFreeHost(void *p) {
    return give(&census.pinned, p);
}
cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind, cudaStream_t) {
    if (capturing) return cudaErrorStreamCaptureUnsupported;
    if (bytes > 0) memcpy(dst, src, bytes);
    return sticky;
}
cudaError_t cudaMemsetAsync(void *dst, int byte, size_t bytes, cudaStream_t) {
    if (capturing) return cudaErrorStreamCaptureUnsupported;
    if (bytes > 0) memset(dst, byte, bytes);
    return sticky;
}

/* ---- streams, events, graphs --------------------------------------------------------------------------------- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned) {
    return take(&census.streams, *s = (cudaStream_t)malloc(1));
}
cudaError_t cudaStreamDestroy(cudaStream_t s) {
    return give(&census.streams, s);
}
cudaError_t cudaStreamSynchronize(cudaStream_t) {
    return capturing ? cudaErrorStreamCaptureUnsupported : sticky;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned) {
    return take(&census.events, *e = (cudaEvent_t)malloc(1));
}
cudaError_t cudaEventDestroy(cudaEvent_t e) {
    return give(&census.events, e);
}
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) {
    return sticky;
}
cudaError_t cudaEventSynchronize(cudaEvent_t) {
    return sticky;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t, enum cudaStreamCaptureMode) {
    capturing = true;
    captured.clear();
    return sticky;
}
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t *graph) {
    capturing = false;
    *graph = (cudaGraph_t) new std::vector<launch>(captured);
    census.graphs++;
    return sticky;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long) {
    *exec = (cudaGraphExec_t) new std::vector<launch>(*(std::vector<launch> *)graph);
    census.execs++;
    return sticky;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    delete (std::vector<launch> *)graph;
    census.graphs--;
    return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
    delete (std::vector<launch> *)exec;
    census.execs--;
    return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t) {
    for (const launch &l : *(std::vector<launch> *)exec) {
        cudaError_t e = run(l);
        if (e != cudaSuccess) return e;
    }
    return sticky;
}

/* ---- kernels ------------------------------------------------------------------------------------------------- */

cudaError_t cudaLaunchKernel(const void *func, dim3 grid, dim3 block, void **args, size_t smem,
                             cudaStream_t) {
    auto it = kernels.find(func);
    if (it == kernels.end()) return cudaErrorInvalidValue;
    launch l = {grid, block, smem, it->second(args)};
    if (!capturing) return run(l);
    captured.push_back(l);
    return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void *, enum cudaFuncAttribute, int value) {
    return value <= EMULATED_SMEM_MAX ? cudaSuccess : cudaErrorInvalidValue;
}
/* PTX of sm_80: the engine then takes the instances that are emulated. */
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *out, const void *) {
    *out = {0, 0, 80, 80};
    return cudaSuccess;
}
/* By threads and dynamic shared memory only: registers are the compiler's, and no compiler for a GPU ran. */
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *, int threads,
                                                          size_t smem) {
    *blocks = min(SM_THREADS / threads, (int)(SM_SMEM / (smem + 1024)));
    return cudaSuccess;
}

extern "C" enum status cuda_tensor_map(struct cuda_context *, const struct tensor_shape *, CUtensorMap *,
                                       struct err *err) {
    return err_set(err, STATUS_UNSUPPORTED, "emulator: no bulk tensor copies");
}
