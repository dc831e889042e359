/* fault.h - planted faults and injected failures: compiled into forkgate-faults only, off until named.
 * Not a debugging aid: in a normal build FAULT(id) is the constant 0 and no symbol, text or code of this file is left.
 * Idea: one or two lines at the place where the real mistake was made; FORKGATE_FAULT=<id>[,<id>] turns them on, and
 * FORKGATE_FAULT_LOG=<file> gets one line "id pid" per process the first time a site acts, which is how `forkgate
 * mutants` knows that a gate reached it. Ask for a fault last (`cond && FAULT(ID)`): asking counts as reaching.
 * Source: ours. Exercise: FORKGATE_FAULT=merge-order forkgate-faults run --keep-going */
#ifndef FORKGATE_FAULT_H
#define FORKGATE_FAULT_H

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Every plant of the catalogue (fixtures/mutants.csv describes them) and the name that turns it on. The ones that exist
 * in a kernel only are marked; the CPU build knows their names, so that a list of faults means the same everywhere. */
#define FAULT_LIST(X)                                                                                        \
    X(FA_TAIL_GUARD, "fa-tail-guard")                                                                        \
    X(FA_SMEM_STAGE, "fa-smem-stage") /* kernel */                                                           \
    X(FA_SMEM_OVER, "fa-smem-over")   /* kernel */                                                           \
    X(FA_MAJOR, "fa-major")                                                                                  \
    X(FA_WAIT, "fa-wait") /* kernel */                                                                       \
    X(FA_STRIDE, "fa-stride")                                                                                \
    X(FA_PROW_ALIAS, "fa-prow-alias") /* kernel */                                                           \
    X(FA_MASKED_TILE, "fa-masked-tile")                                                                      \
    X(FA_INIT_INF, "fa-init-inf")                                                                            \
    X(FA_UNWRITTEN_KV, "fa-unwritten-kv")                                                                    \
    X(FA_WINDOW, "fa-window")                                                                                \
    X(FA_SCALE, "fa-scale")                                                                                  \
    X(FA_NOSYNC, "fa-nosync")     /* kernel */                                                               \
    X(DEC_SHUFFLE, "dec-shuffle") /* kernel */                                                               \
    X(DEC_COMBINE, "dec-combine")                                                                            \
    X(DEC_STRIPE, "dec-stripe")                                                                              \
    X(DEC_SPLITS, "dec-splits")                                                                              \
    X(MERGE_ORDER, "merge-order")                                                                            \
    X(TC_24BIT, "tc-24bit") /* twin */                                                                       \
    X(ROPE_PAIRS, "rope-pairs")                                                                              \
    X(ROPE_FAST, "rope-fast")                                                                                \
    X(SUM_SKIP_LAST, "sum-skip-last")                                                                        \
    X(GQA_HEAD, "gqa-head")                                                                                  \
    X(MV_BOUND, "mv-bound")                                                                                  \
    X(MM_STRIDE, "mm-stride")                                                                                \
    X(MM_WRONGKEY, "mm-wrongkey") /* kernel */                                                               \
    X(MM_CHUNK, "mm-chunk")       /* kernel */                                                               \
    X(MM_ROTATE, "mm-rotate")                                                                                \
    X(MM_SMEMFAIL, "mm-smemfail") /* kernel */                                                               \
    X(MM_FALLBACK, "mm-fallback") /* kernel */                                                               \
    X(MM_KHALF, "mm-khalf")                                                                                  \
    X(MM_SKIP, "mm-skip")                                                                                    \
    X(MM_CELLS, "mm-cells")                                                                                  \
    X(MM_SCALE16, "mm-scale16")                                                                              \
    X(MM_MINTERM, "mm-minterm")                                                                              \
    X(MM_TNT, "mm-tnt")                                                                                      \
    X(MM_MISALIGN, "mm-misalign") /* kernel */                                                               \
    X(Q_AMAX126, "q-amax126")                                                                                \
    X(Q_PAD, "q-pad")                                                                                        \
    X(EMB_OFFSET, "emb-offset")                                                                              \
    X(FU_SKIPWRITE, "fu-skipwrite")                                                                          \
    X(FU_STALEKEY, "fu-stalekey")                                                                            \
    X(KV_STALE, "kv-stale")                                                                                  \
    X(KV_SLOT, "kv-slot")                                                                                    \
    X(KV_Q8BASE, "kv-q8base")                                                                                \
    X(KV_REWIND, "kv-rewind")                                                                                \
    X(NORM_TAIL, "norm-tail")                                                                                \
    X(SW_TAIL, "sw-tail")                                                                                    \
    X(ADD_TAIL, "add-tail")                                                                                  \
    X(RT_CAPTURE, "rt-capture")             /* kernel */                                                     \
    X(RT_NOLAUNCHCHECK, "rt-nolaunchcheck") /* kernel */                                                     \
    X(RT_HIDDENPENALTY, "rt-hiddenpenalty")                                                                  \
    X(RT_TIE, "rt-tie")                                                                                      \
    X(RT_NAN, "rt-nan")                                                                                      \
    X(RT_PAD_VOCAB, "rt-pad-vocab")                                                                          \
    X(RT_ATOMICS, "rt-atomics")                                                                              \
    X(RT_OBSERVER, "rt-observer")

/* A site on the host: `if (tail && FAULT(FA_TAIL_GUARD)) continue;`
 *
 * A site in a kernel: `if (!FAULT_TOLD(FA_NOSYNC)) __syncthreads();` (cuda/fault.cuh). The device cannot say that it was
 * there, so its launcher does, as far as the host knows the shape:
 *     FAULT_SITES(FAULT_BIT(FA_NOSYNC) | (n_rows % 16 != 0 ? FAULT_BIT(FA_TAIL_GUARD) : 0));
 *
 * Injected failures: FAULT_FAILS_NAMED("launch", kernel name) and ("attr", kernel name) are true at every call of that
 * name; FAULT_FAILS_COUNTED(FAULT_ALLOC, "") at the n-th call since the start, counted from 1. They are asked for by
 * FORKGATE_FAULT=fail:launch:<kernel>, fail:attr:<kernel>, fail:alloc:<n>, fail:copy:<n>, fail:call:<n> (any other call of
 * the device's runtime). FORKGATE_FAULT_CALLS=<file> gets a line for each call that could have been told to fail
 * ("launch:swiglu", "alloc:", "call:cudaGraphLaunch"). */
#ifndef FORKGATE_FAULTS

#define FAULT(id)                       0
#define FAULT_SITES(bits)               ((void)0)
#define FAULT_ARRIVAL()                 0u
#define FAULT_FAILS_NAMED(what, name)   0
#define FAULT_FAILS_COUNTED(call, name) 0

#else

#define FAULT_ENUM(id, name) FAULT_##id,
enum fault { FAULT_LIST(FAULT_ENUM) FAULTS };
#undef FAULT_ENUM
enum fault_call { FAULT_ALLOC, FAULT_COPY, FAULT_RUNTIME, FAULT_CALLS };

#define FAULT(id)                       fault_on(FAULT_##id)
#define FAULT_BIT(id)                   (1ull << FAULT_##id)
#define FAULT_SITES(bits)               fault_reach(bits)
#define FAULT_ARRIVAL()                 fault_arrival()
#define FAULT_FAILS_NAMED(what, name)   fault_fails_named(what, name)
#define FAULT_FAILS_COUNTED(call, name) fault_fails_counted(call, name)

/* Reads FORKGATE_FAULT; main calls it first. STATUS_USAGE names what is not a fault. Without this call the first question
 * reads the variable, and a bad one turns nothing on. */
enum status fault_start(struct err *err);

/* Turns on exactly what `list` names ("" or NULL: nothing) and forgets what was reached; counts start again. */
enum status fault_set(const char *list, struct err *err);

/* Is this fault on? If so, the site counts as reached. From any thread. */
int fault_on(enum fault id);

/* The same of every fault in `bits` (FAULT_BIT). */
void fault_reach(unsigned long long bits);

/* Bits of what is on; asking does not count. */
unsigned long long fault_mask(void);

/* Any number: the order in which something would have arrived. Differs from call to call and from run to run. */
unsigned fault_arrival(void);

int fault_fails_named(const char *what, const char *name);
/* name: which call it was, for the log only. */
int fault_fails_counted(enum fault_call call, const char *name);

const char *fault_name(enum fault id);

#endif

#ifdef __cplusplus
}
#endif
#endif
