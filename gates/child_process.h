/* child_process.h - run another program, wait for it, and know exactly how it ended.
 * Not a shell: arguments are passed as they are, nothing is split or expanded, and a program is a path, never looked up.
 * Idea: a build that crashes, hangs or refuses is an answer too; it must never be taken for a result.
 * Source: ours. Exercise: ctest -R unit.bisect */
#ifndef FORKGATE_CHILD_PROCESS_H
#define FORKGATE_CHILD_PROCESS_H

#include "engine/status.h"

#define CHILD_ARGS 48

/* An argument vector that owns its text. */
struct child_args {
    char *argv[CHILD_ARGS + 1]; /* NULL-terminated */
    int n;
    int overflow; /* an argument did not fit: child_run refuses */
};

struct child_request {
    const struct child_args *args;
    const char *const *env;  /* "NAME=VALUE" beside the inherited ones, NULL-terminated; may be NULL */
    const char *stdout_path; /* NULL: discarded */
    const char *stderr_path; /* NULL: discarded, and last_line stays empty */
    double timeout_s;        /* 0: none */
};

struct child_end {
    int exit_code; /* -1: did not exit by itself */
    int signal;    /* 0: none */
    int timed_out;
    char last_line[256]; /* of stderr, printable; "" when there is none */
};

void child_add(struct child_args *a, const char *text);
void child_add_pair(struct child_args *a, const char *option, const char *value);
void child_add_number(struct child_args *a, const char *option, long value);
void child_args_free(struct child_args *a);

/* A child that runs beside others: child_begin, then child_poll until it says 1. */
struct child_job {
    int pid;         /* 0: none */
    double deadline; /* 0: none */
    int timed_out;
};

/* STATUS_IO when the program could not be started (the message names it); how it ended is in *out, whatever that is. The
 * child gets an empty standard input and a process group of its own, and dies with its parent; what it leaves behind in its
 * group dies with it. */
enum status child_run(const struct child_request *r, struct child_end *out, struct err *err);

/* The same without waiting. r->stdout_path and r->stderr_path as in child_run; last_line stays empty. */
enum status child_begin(const struct child_request *r, struct child_job *job, struct err *err);
/* 1: it has ended, *out is how, and the job is free. Past its deadline it is killed (its group, and only that). */
int child_poll(struct child_job *job, struct child_end *out);

/* For a main: SIGINT, SIGTERM and SIGHUP, where they are not ignored, end the children's groups, remove the folders of
 * child_folder_make and then end this process. The kernel ends a child whose parent dies, but not what that child started. */
void child_die_with_us(void);
/* After a fork that goes on as this program: the children of its parent are not its own to end. */
void child_forget_parent(void);

/* "exit 2: message", "killed by signal 11", "timed out": one phrase. */
void child_end_text(const struct child_end *end, char out[320]);

/* A fresh private folder ("$TMPDIR/NAME-XXXXXX") for a child's files; remove: it and all that is in it. */
enum status child_folder_make(const char *name, char out[256], struct err *err);
void child_folder_remove(const char *folder);

#endif
