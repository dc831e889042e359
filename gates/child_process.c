/* child_process.c - see child_process.h. */
#include "gates/child_process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define POLL_NS          5000000L /* how often a child with a deadline is looked at */
#define POLL_FIRST_NS    200000L  /* the first time; by as much later each further time */
#define EXIT_NOT_STARTED 127
#define RUNNING_MAX      64 /* children that a signal to us ends; one more runs on */
#define FOLDERS_MAX      8
#define DEPTH_MAX        6 /* below a folder of ours; a work folder has 3 */
#define PATH_BYTES       2048

/* ---- arguments ------------------------------------------------------------------------------------------------- */

void child_add(struct child_args *a, const char *text) {
    char *copy = a->n < CHILD_ARGS ? strdup(text) : NULL;
    if (copy == NULL) {
        a->overflow = 1;
        return;
    }
    a->argv[a->n++] = copy;
    a->argv[a->n] = NULL;
}

void child_add_pair(struct child_args *a, const char *option, const char *value) {
    child_add(a, option);
    child_add(a, value);
}

void child_add_number(struct child_args *a, const char *option, long value) {
    char text[24];
    (void)snprintf(text, sizeof text, "%ld", value);
    child_add_pair(a, option, text);
}

void child_args_free(struct child_args *a) {
    for (int i = 0; i < a->n; i++) free(a->argv[i]);
    memset(a, 0, sizeof *a);
}

/* ---- the child's side ------------------------------------------------------------------------------------------ */

static int redirect(const char *path, int flags, int fd) {
    int from = open(path != NULL ? path : "/dev/null", flags, 0600);
    if (from < 0 || dup2(from, fd) < 0) return 0;
    if (from != fd) (void)close(from);
    return 1;
}

static void set_variable(const char *pair) {
    char *name = strdup(pair);
    char *equals = name != NULL ? strchr(name, '=') : NULL;
    if (equals == NULL) return;
    *equals = '\0';
    (void)setenv(name, equals + 1, 1);
    free(name);
}

static void child_main(const struct child_request *r, int report) {
    int why = 0, write_flags = O_WRONLY | O_CREAT | O_TRUNC;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)setpgid(0, 0);
    if (redirect(NULL, O_RDONLY, STDIN_FILENO) && redirect(r->stdout_path, write_flags, STDOUT_FILENO) &&
        redirect(r->stderr_path, write_flags, STDERR_FILENO)) {
        for (int i = 0; r->env != NULL && r->env[i] != NULL; i++) set_variable(r->env[i]);
        (void)execv(r->args->argv[0], r->args->argv);
    }
    why = errno;
    (void)!write(report, &why, sizeof why);
    _exit(EXIT_NOT_STARTED);
}

/* ---- the parent's side ----------------------------------------------------------------------------------------- */

static double seconds(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* What the signal handler ends and puts away: children that run, folders that exist, each of the process that made it (a
 * gate is a fork and has its parent's tables). A slot whose pid or text is empty is free. */
static volatile pid_t running[RUNNING_MAX];
static const int endings[] = {SIGINT, SIGTERM, SIGHUP}; /* the signals that end us */
static struct {
    volatile pid_t owner;
    char path[256];
} folders[FOLDERS_MAX];

static void note_running(pid_t pid, pid_t instead) {
    for (int i = 0; i < RUNNING_MAX; i++)
        if (running[i] == pid) {
            running[i] = instead;
            return;
        }
}

static void note_folder(const char *folder) {
    for (int i = 0; i < FOLDERS_MAX; i++)
        if (folders[i].owner != getpid()) { /* free, or our parent's */
            (void)snprintf(folders[i].path, sizeof folders[i].path, "%s", folder);
            folders[i].owner = getpid();
            return;
        }
}

static void forget_folder(const char *folder) {
    for (int i = 0; i < FOLDERS_MAX; i++)
        if (folders[i].owner == getpid() && strcmp(folders[i].path, folder) == 0) folders[i].owner = 0;
}

void child_forget_parent(void) {
    for (int i = 0; i < RUNNING_MAX; i++) running[i] = 0;
}

/* Only what a signal handler may call: a folder is removed by rm, not by us. */
static void on_signal(int number) {
    for (int i = 0; i < RUNNING_MAX; i++)
        if (running[i] > 0) (void)kill(-running[i], SIGKILL);
    for (int i = 0; i < FOLDERS_MAX; i++) {
        pid_t pid = folders[i].owner == getpid() ? fork() : -1;
        if (pid == 0) {
            (void)execl("/bin/rm", "rm", "-rf", "--", folders[i].path, (char *)NULL);
            _exit(EXIT_NOT_STARTED);
        }
        if (pid > 0) (void)waitpid(pid, NULL, 0);
    }
    (void)raise(number); /* the default action is back in force: SA_RESETHAND */
}

void child_die_with_us(void) {
    struct sigaction own, was;
    memset(&own, 0, sizeof own);
    own.sa_handler = on_signal;
    own.sa_flags = (int)SA_RESETHAND;
    (void)sigemptyset(&own.sa_mask);
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++)
        if (sigaction(endings[i], NULL, &was) == 0 && was.sa_handler == SIG_DFL)
            (void)sigaction(endings[i], &own, NULL);
}

static void hold_signals(sigset_t *was) {
    sigset_t held;
    (void)sigemptyset(&held);
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) (void)sigaddset(&held, endings[i]);
    (void)sigprocmask(SIG_BLOCK, &held, was);
}

/* 1: the child has ended, and what it started in its group with it; 0: it runs on; -1: it is lost. The group is ended
 * before its leader is reaped: until then no other group can have its number. */
static int reap(pid_t pid, int *status) {
    siginfo_t info;
    memset(&info, 0, sizeof info);
    if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0) return errno == EINTR ? 0 : -1;
    if (info.si_pid != pid) return 0;
    (void)kill(-pid, SIGKILL);
    note_running(pid, 0);
    pid_t got = 0;
    while ((got = waitpid(pid, status, 0)) < 0 && errno == EINTR) {
    }
    return got == pid ? 1 : -1;
}

static void last_line_of(const char *path, char out[256]) {
    char line[256];
    FILE *f = path == NULL ? NULL : fopen(path, "rb");
    out[0] = '\0';
    while (f != NULL && fgets(line, (int)sizeof line, f) != NULL) {
        size_t n = strcspn(line, "\r\n");
        line[n] = '\0';
        for (size_t i = 0; i < n; i++)
            if (line[i] < ' ' || line[i] > '~') line[i] = '?';
        if (n > 0) memcpy(out, line, n + 1);
    }
    if (f != NULL) (void)fclose(f);
}

static enum status start(const struct child_request *r, pid_t *pid, struct err *err) {
    int fds[2], why = 0;
    sigset_t was;
    if (pipe(fds) != 0) return err_set(err, STATUS_IO, "pipe: %s", strerror(errno));
    (void)fcntl(fds[0], F_SETFD, FD_CLOEXEC);
    (void)fcntl(fds[1], F_SETFD, FD_CLOEXEC);
    hold_signals(&was); /* a child must not be seen to run before the handler knows it */
    *pid = fork();
    if (*pid == 0) {
        child_forget_parent();
        (void)sigprocmask(SIG_SETMASK, &was, NULL);
        child_main(r, fds[1]);
    }
    int forked = errno;
    if (*pid > 0) {
        (void)setpgid(*pid, *pid); /* whichever of the two comes first */
        note_running(0, *pid);
    }
    (void)sigprocmask(SIG_SETMASK, &was, NULL);
    (void)close(fds[1]);
    ssize_t n = *pid < 0 ? 0 : read(fds[0], &why, sizeof why); /* the end of the pipe: exec took place */
    (void)close(fds[0]);
    if (*pid < 0) return err_set(err, STATUS_IO, "fork: %s", strerror(forked));
    if (n != (ssize_t)sizeof why) return STATUS_OK;
    note_running(*pid, 0);
    (void)waitpid(*pid, NULL, 0);
    return err_set(err, STATUS_IO, "%s: cannot be run: %s", r->args->argv[0], strerror(why));
}

enum status child_begin(const struct child_request *r, struct child_job *job, struct err *err) {
    pid_t pid = 0;
    memset(job, 0, sizeof *job);
    if (r->args->overflow || r->args->n == 0)
        return err_set(err, STATUS_LIMIT, "a command of more than %d arguments, or none", CHILD_ARGS);
    RETURN_IF_ERROR(start(r, &pid, err));
    job->pid = pid;
    job->deadline = r->timeout_s > 0.0 ? seconds() + r->timeout_s : 0.0;
    return STATUS_OK;
}

int child_poll(struct child_job *job, struct child_end *out) {
    int status = 0, ended = reap(job->pid, &status);
    if (ended == 0) {
        if (job->deadline > 0.0 && !job->timed_out && seconds() > job->deadline) {
            job->timed_out = 1;
            (void)kill(-job->pid, SIGKILL);
        }
        return 0;
    }
    memset(out, 0, sizeof *out);
    out->exit_code = -1;
    out->timed_out = job->timed_out;
    if (ended > 0 && WIFEXITED(status)) out->exit_code = WEXITSTATUS(status);
    if (ended > 0 && WIFSIGNALED(status)) out->signal = WTERMSIG(status);
    memset(job, 0, sizeof *job);
    return 1;
}

enum status child_run(const struct child_request *r, struct child_end *out, struct err *err) {
    struct child_job job;
    memset(out, 0, sizeof *out);
    out->exit_code = -1;
    RETURN_IF_ERROR(child_begin(r, &job, err));
    /* short naps at first: most children end within milliseconds, and tier 4 starts hundreds of them */
    for (struct timespec nap = {0, POLL_FIRST_NS}; !child_poll(&job, out);) {
        (void)nanosleep(&nap, NULL);
        nap.tv_nsec += nap.tv_nsec < POLL_NS ? POLL_FIRST_NS : 0;
    }
    last_line_of(r->stderr_path, out->last_line);
    return STATUS_OK;
}

void child_end_text(const struct child_end *end, char out[320]) {
    if (end->timed_out)
        (void)snprintf(out, 320, "timed out");
    else if (end->signal != 0)
        (void)snprintf(out, 320, "killed by signal %d", end->signal);
    else
        (void)snprintf(out, 320, "exit %d%s%s", end->exit_code, end->last_line[0] != '\0' ? ": " : "",
                       end->last_line);
}

enum status child_folder_make(const char *name, char out[256], struct err *err) {
    const char *tmp = getenv("TMPDIR");
    (void)snprintf(out, 256, "%.200s/%.40s-XXXXXX", tmp != NULL && tmp[0] != '\0' ? tmp : "/tmp", name);
    if (mkdtemp(out) == NULL) return err_set(err, STATUS_IO, "%s: %s", out, strerror(errno));
    note_folder(out);
    return STATUS_OK;
}

static void remove_tree(const char *path, int depth) {
    struct stat st;
    char inside[PATH_BYTES];
    if (depth == DEPTH_MAX || lstat(path, &st) != 0) return;
    DIR *d = S_ISDIR(st.st_mode) ? opendir(path) : NULL;
    const struct dirent *e;
    while (d != NULL && (e = readdir(d)) != NULL) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        int n = snprintf(inside, sizeof inside, "%s/%s", path, e->d_name);
        if (n > 0 && (size_t)n < sizeof inside) remove_tree(inside, depth + 1);
    }
    if (d != NULL) (void)closedir(d);
    (void)(S_ISDIR(st.st_mode) ? rmdir(path) : unlink(path));
}

void child_folder_remove(const char *folder) {
    remove_tree(folder, 0);
    forget_folder(folder);
}
