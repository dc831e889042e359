/* fault.c - see fault.h. Part of forkgate-faults only. */
#include "fault.h"

#include <fcntl.h>
#include <stdint.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NAMED_MAX 8 /* failures of named launches and attributes in one list */

_Static_assert(FAULTS <= 64, "a mask holds one bit for each");

#define FAULT_TEXT(id, name) name,
static const char *const fault_names[FAULTS] = {FAULT_LIST(FAULT_TEXT)};
static const char *const call_names[FAULT_CALLS] = {"alloc", "copy", "call"};

struct failing {
    char text[80]; /* "launch:swiglu" */
};

static struct {
    int on[FAULTS];
    atomic_int reached[FAULTS];
    struct failing named[NAMED_MAX];
    int n_named;
    long fail_at[FAULT_CALLS]; /* 0: none */
    atomic_long calls[FAULT_CALLS];
} state;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_int was_set;

const char *fault_name(enum fault id) {
    return fault_names[id];
}

/* ---- the list -------------------------------------------------------------------------------------------------- */
static enum status add_counted(const char *item, size_t n, enum fault_call call, struct err *err) {
    const char *digits = item + sizeof "fail:" - 1 + strlen(call_names[call]) + 1;
    char *end = NULL;
    long at = strtol(digits, &end, 10);
    if (end != item + n || digits[0] < '0' || digits[0] > '9' || at < 1)
        return err_set(err, STATUS_USAGE, "FORKGATE_FAULT: '%.*s': want fail:%s:N with N of 1 or more",
                       (int)n, item, call_names[call]);
    state.fail_at[call] = at;
    return STATUS_OK;
}

static enum status add_failure(const char *item, size_t n, struct err *err) {
    const char *what = item + sizeof "fail:" - 1;
    for (int call = 0; call < FAULT_CALLS; call++) {
        size_t k = strlen(call_names[call]);
        if (strncmp(what, call_names[call], k) == 0 && what[k] == ':')
            return add_counted(item, n, (enum fault_call)call, err);
    }
    size_t rest = n - (size_t)(what - item);
    int known =
        (strncmp(what, "launch:", 7) == 0 && rest > 7) || (strncmp(what, "attr:", 5) == 0 && rest > 5);
    if (!known || rest >= sizeof state.named[0].text || state.n_named == NAMED_MAX)
        return err_set(err, STATUS_USAGE,
                       "FORKGATE_FAULT: '%.*s': want fail:launch:KERNEL, fail:attr:KERNEL, fail:alloc:N, "
                       "fail:copy:N or fail:call:N",
                       (int)n, item);
    memcpy(state.named[state.n_named].text, what, rest);
    state.named[state.n_named++].text[rest] = '\0';
    return STATUS_OK;
}

static enum status add_item(const char *item, size_t n, struct err *err) {
    if (n >= 5 && strncmp(item, "fail:", 5) == 0) return add_failure(item, n, err);
    for (int i = 0; i < FAULTS; i++) {
        if (strlen(fault_names[i]) != n || memcmp(fault_names[i], item, n) != 0) continue;
        state.on[i] = 1;
        return STATUS_OK;
    }
    return err_set(err, STATUS_USAGE, "FORKGATE_FAULT: no fault '%.*s' (forkgate mutants --list has them)",
                   (int)n, item);
}

enum status fault_set(const char *list, struct err *err) {
    atomic_store(&was_set, 1);
    memset(&state, 0, sizeof state);
    enum status s = STATUS_OK;
    for (const char *p = list == NULL ? "" : list; *p != '\0' && s == STATUS_OK;) {
        size_t n = strcspn(p, ",");
        s = add_item(p, n, err);
        p += n;
        if (*p == ',' && *++p == '\0')
            s = err_set(err, STATUS_USAGE, "FORKGATE_FAULT: '%s' ends early", list);
    }
    if (s != STATUS_OK) memset(&state, 0, sizeof state); /* half a list would be another experiment */
    return s;
}

enum status fault_start(struct err *err) {
    return fault_set(getenv("FORKGATE_FAULT"), err);
}

static void start_late(void) {
    struct err ignored;
    if (atomic_load(&was_set) == 0) (void)fault_start(&ignored);
}

/* ---- sites ----------------------------------------------------------------------------------------------------- */
/* Written at once: a gate's process ends by _exit, a crash or a time-out. One short append is one line. */
static void append(const char *variable, const char *line) {
    const char *path = getenv(variable);
    if (path == NULL || path[0] == '\0') return;
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) return;
    (void)!write(fd, line, strlen(line));
    (void)close(fd);
}

static void report(enum fault id) {
    char line[96];
    (void)snprintf(line, sizeof line, "%s %ld\n", fault_names[id], (long)getpid());
    append("FORKGATE_FAULT_LOG", line);
}

/* A call that could have been told to fail: "launch:swiglu", "alloc:". */
static void report_call(const char *what, const char *name) {
    char line[96];
    (void)snprintf(line, sizeof line, "%s:%s\n", what, name);
    append("FORKGATE_FAULT_CALLS", line);
}

int fault_on(enum fault id) {
    (void)pthread_once(&once, start_late);
    if (!state.on[id]) return 0;
    if (atomic_exchange(&state.reached[id], 1) == 0) report(id);
    return 1;
}

void fault_reach(unsigned long long bits) {
    for (int i = 0; i < FAULTS; i++)
        if (bits >> i & 1) (void)fault_on((enum fault)i);
}

unsigned long long fault_mask(void) {
    unsigned long long mask = 0;
    (void)pthread_once(&once, start_late);
    for (int i = 0; i < FAULTS; i++) mask |= (unsigned long long)(state.on[i] != 0) << i;
    return mask;
}

unsigned fault_arrival(void) {
    static atomic_uint calls;
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    uint64_t x = (uint64_t)t.tv_nsec * 0x9e3779b97f4a7c15u + (uint64_t)getpid() + atomic_fetch_add(&calls, 1);
    x = (x ^ x >> 31) * 0xbf58476d1ce4e5b9u;
    return (unsigned)(x >> 33);
}

int fault_fails_named(const char *what, const char *name) {
    (void)pthread_once(&once, start_late);
    size_t n = strlen(what);
    report_call(what, name);
    for (int i = 0; i < state.n_named; i++) {
        const char *text = state.named[i].text;
        if (strncmp(text, what, n) == 0 && text[n] == ':' && strcmp(text + n + 1, name) == 0) return 1;
    }
    return 0;
}

int fault_fails_counted(enum fault_call call, const char *name) {
    (void)pthread_once(&once, start_late);
    report_call(call_names[call], name);
    return state.fail_at[call] != 0 && atomic_fetch_add(&state.calls[call], 1) + 1 == state.fail_at[call];
}
