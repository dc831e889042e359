/* machine.cc - see machine.h. x86-64 only: a fiber is switched by its callee-saved registers. */
#include "machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <vector>

#define STACK_BYTES  (256 * 1024)
#define WARPS_MAX    32
#define CANARY_BYTES 4096

enum waiting { RUNNING, AT_BLOCK, AT_WARP, RETURNED };

struct copy {
    uint32_t dst;
    const void *src; /* NULL: zeros */
};
struct fiber {
    void *sp;
    struct emulated_thread at;
    enum waiting waiting;
    long ticket; /* the barrier it waits for is open once its count of openings is beyond this */
    std::vector<copy> open;
    std::vector<std::vector<copy>> groups; /* committed, oldest first */
};
struct barrier {
    int members, arrived;
    long openings;
};

/* The dynamic shared memory under the names by which kernels declare it: one block, one host thread, one buffer each. */
#define SMEM_BYTES (EMULATED_SMEM_MAX + CANARY_BYTES)
alignas(1024) thread_local uint8_t smem[SMEM_BYTES];
alignas(1024) thread_local uint16_t fa_smem[SMEM_BYTES / sizeof(uint16_t)];
alignas(1024) thread_local float2 mmvq_smem[SMEM_BYTES / sizeof(float2)];

thread_local struct emulated_thread *emulated_self;

static thread_local struct machine {
    std::vector<fiber> fibers;
    std::vector<uint8_t *> stacks;
    void *main_sp;
    int current;
    struct barrier block, warp[WARPS_MAX];
    struct emulated_slot slots[WARPS_MAX][32];
    size_t smem_bytes;
    uint8_t *smem_used; /* which of the buffers: the first one a kernel takes the address of */
    const std::function<void()> *body;
    cudaError_t failed;
    bool progress;
} m;

/* ---- fibers -------------------------------------------------------------------------------------------------- */

extern "C" void emulated_switch(void **save, void *to);
asm(R"(
.text
.globl emulated_switch
emulated_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
)");

static void yield() {
    emulated_switch(&m.fibers[m.current].sp, m.main_sp);
}

[[noreturn]] void emulated_stop(const char *what) {
    const struct emulated_thread *t = emulated_self;
    fprintf(stderr, "emulator: %s (block %u,%u,%u thread %u)\n", what, t->bid.x, t->bid.y, t->bid.z,
            t->tid.x);
    m.failed = cudaErrorIllegalAddress;
    yield(); /* and is never resumed */
    abort();
}

static void open_if_all_came(struct barrier *b) {
    if (b->members == 0 || b->arrived < b->members) return;
    b->arrived = 0;
    b->openings++;
    m.progress = true;
}

static void wait_at(struct barrier *b, enum waiting where) {
    struct fiber *f = &m.fibers[m.current];
    f->ticket = b->openings;
    f->waiting = where;
    b->arrived++;
    open_if_all_came(b);
    if (b->openings == f->ticket) yield();
    m.fibers[m.current].waiting = RUNNING;
}

void emulated_sync_block() {
    wait_at(&m.block, AT_BLOCK);
}
void emulated_sync_warp() {
    wait_at(&m.warp[emulated_self->warp], AT_WARP);
}
struct emulated_slot *emulated_slots() {
    return m.slots[emulated_self->warp];
}

/* A thread that returns is no longer waited for. */
static void fiber_main() {
    (*m.body)();
    struct fiber *f = &m.fibers[m.current];
    f->waiting = RETURNED;
    m.progress = true;
    m.block.members--;
    m.warp[f->at.warp].members--;
    open_if_all_came(&m.block);
    open_if_all_came(&m.warp[f->at.warp]);
    yield();
    abort();
}

static void fiber_start(int i, uint3 bid, dim3 block, dim3 grid) {
    struct fiber *f = &m.fibers[i];
    f->at = {{(unsigned)i, 0, 0}, bid, block, grid, i % 32, i / 32};
    f->waiting = RUNNING;
    f->open.clear();
    f->groups.clear();
    void **sp = (void **)(m.stacks[i] + STACK_BYTES - 64);
    *--sp = NULL; /* fiber_main's return address: it never returns */
    *--sp = (void *)fiber_main;
    for (int k = 0; k < 6; k++) *--sp = NULL;
    f->sp = sp;
    m.warp[i / 32].members++;
}

static bool can_run(const struct fiber *f) {
    return f->waiting == RUNNING || (f->waiting == AT_BLOCK && m.block.openings > f->ticket) ||
           (f->waiting == AT_WARP && m.warp[f->at.warp].openings > f->ticket);
}

/* ---- blocks -------------------------------------------------------------------------------------------------- */

static cudaError_t run_block(uint3 bid, dim3 grid, dim3 block) {
    int n = (int)block.x;
    m.block = {n, 0, 0};
    memset(m.warp, 0, sizeof m.warp);
    for (int i = 0; i < n; i++) fiber_start(i, bid, block, grid);
    for (int left = n; left > 0;) {
        m.progress = false;
        left = 0;
        for (int i = 0; i < n && m.failed == cudaSuccess; i++) {
            if (can_run(&m.fibers[i])) {
                m.current = i;
                emulated_self = &m.fibers[i].at;
                emulated_switch(&m.main_sp, m.fibers[i].sp);
            }
            left += m.fibers[i].waiting != RETURNED;
        }
        if (m.failed != cudaSuccess) return m.failed;
        if (left > 0 && !m.progress) {
            fprintf(stderr, "emulator: threads wait for threads that never come (block %u,%u,%u)\n", bid.x,
                    bid.y, bid.z);
            return cudaErrorLaunchTimeout;
        }
    }
    return cudaSuccess;
}

static const std::vector<uint8_t> canary(CANARY_BYTES, 0x77);

/* Old contents must never help: NaN in every format of the engine. Behind it, bytes that nobody may touch. */
static void poison(uint8_t *buffer) {
    memset(buffer, 0xff, m.smem_bytes);
    memcpy(buffer + m.smem_bytes, canary.data(), CANARY_BYTES);
}
static bool overrun(const uint8_t *buffer) {
    return memcmp(buffer + m.smem_bytes, canary.data(), CANARY_BYTES) != 0;
}

cudaError_t emulated_run(dim3 grid, dim3 block, size_t bytes, const std::function<void()> &body) {
    uint8_t *const buffers[] = {smem, (uint8_t *)fa_smem, (uint8_t *)mmvq_smem};
    if (block.y != 1 || block.z != 1 || block.x > 32 * WARPS_MAX || bytes > EMULATED_SMEM_MAX)
        return cudaErrorInvalidValue;
    while (m.stacks.size() < block.x) m.stacks.push_back((uint8_t *)aligned_alloc(64, STACK_BYTES));
    m.fibers.resize(block.x);
    m.body = &body;
    m.smem_bytes = bytes;
    m.failed = cudaSuccess;
    for (unsigned z = 0; z < grid.z; z++)
        for (unsigned y = 0; y < grid.y; y++)
            for (unsigned x = 0; x < grid.x; x++) {
                for (uint8_t *b : buffers)
                    if (bytes > 0) poison(b);
                m.smem_used = NULL;
                cudaError_t e = run_block({x, y, z}, grid, block);
                for (uint8_t *b : buffers)
                    if (e == cudaSuccess && bytes > 0 && overrun(b)) {
                        fprintf(stderr,
                                "emulator: write behind %zu bytes of shared memory (block %u,%u,%u)\n", bytes,
                                x, y, z);
                        e = cudaErrorIllegalAddress;
                    }
                if (e != cudaSuccess) return e;
            }
    return cudaSuccess;
}

/* ---- shared memory by address -------------------------------------------------------------------------------- */

uint32_t smem_address(const void *p) {
    uint8_t *const buffers[] = {smem, (uint8_t *)fa_smem, (uint8_t *)mmvq_smem};
    for (uint8_t *b : buffers)
        if ((const uint8_t *)p >= b && (const uint8_t *)p <= b + m.smem_bytes) {
            m.smem_used = b;
            return (uint32_t)((const uint8_t *)p - b);
        }
    emulated_stop("an address outside shared memory");
}

uint8_t *emulated_smem(uint32_t address, size_t bytes, size_t alignment) {
    if (address % alignment != 0) emulated_stop("misaligned shared address");
    if (m.smem_used == NULL || address + bytes > m.smem_bytes) emulated_stop("shared address out of range");
    return m.smem_used + address;
}

/* ---- asynchronous copies: they land when the kernel waits for them, and not before ---------------------------- */

void copy_async_16(uint32_t dst, const void *src, int valid) {
    uint8_t *to = emulated_smem(dst, 16, 16);
    if (valid && (uintptr_t)src % 16 != 0) emulated_stop("misaligned asynchronous copy");
    memset(to, 0xff, 16);
    m.fibers[m.current].open.push_back({dst, valid ? src : NULL});
}
void copy_async_commit() {
    struct fiber *f = &m.fibers[m.current];
    f->groups.push_back(f->open);
    f->open.clear();
}
void emulated_copy_wait(int groups_left) {
    struct fiber *f = &m.fibers[m.current];
    while ((int)f->groups.size() > groups_left) {
        for (const copy &c : f->groups.front()) {
            uint8_t *to = emulated_smem(c.dst, 16, 16);
            if (c.src != NULL)
                memcpy(to, c.src, 16);
            else
                memset(to, 0, 16);
        }
        f->groups.erase(f->groups.begin());
    }
}
