/* refuse_call.h - makes the kernel refuse one system call of this process, for error paths that no file system of a test has.
 * Not for the product. It cannot be undone: a test is a process of its own.
 * Idea: a seccomp filter that looks at the call's number and one argument's low half.
 * Source: seccomp(2). Exercise: ctest -R 'unit.(file_out|golden)' */
#ifndef FORKGATE_TESTS_REFUSE_CALL_H
#define FORKGATE_TESTS_REFUSE_CALL_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define REFUSE_ANY UINT32_MAX /* as `which`: whatever the arguments are */

/* Calls of `number` whose argument `which` is `value` fail with `error`. Returns 0 where the system has no such filters. */
static inline int refuse_call(int number, unsigned which, uint32_t value, int error) {
    const uint32_t argument = which == REFUSE_ANY ? 0 : which;
    const uint8_t otherwise = which == REFUSE_ANY ? 0 : 1; /* instructions to pass over */
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, args) + 8 * argument),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, otherwise),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ((uint32_t)error & SECCOMP_RET_DATA)),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    const struct sock_fprog filter = {sizeof program / sizeof program[0], program};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) == 0;
}

#endif
