/* runner_child.c - see runner_child.h. */
#include "gates/runner_child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "gates/child_process.h"
#include "gates/file_hash.h"
#include "gates/generate.h"
#include "gates/repro.h"
#include "gates/shell_word.h"
#include "gates/under.h"

struct frame_head {
    uint32_t kind, size;
};

#define GRACE_NAPS 100 /* of 10 ms: what a gate has to end its own children in */

double runner_clock(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- the child's side ---- */
struct child_sink {
    int fd;
    const struct gate *gate;
    const struct gate_context *ctx;
    char provenance[40];
    size_t sent, passed_over; /* rows */
};

static int write_all(int fd, const void *data, size_t n) {
    const uint8_t *p = data;
    while (n > 0) {
        ssize_t w = write(fd, p, n);
        if (w < 0 && errno == EINTR) continue;
        if (w <= 0) return 0;
        p += w;
        n -= (size_t)w;
    }
    return 1;
}

static void send_frame(int fd, enum frame_kind kind, const void *data, size_t n) {
    struct frame_head head = {(uint32_t)kind, (uint32_t)n};
    if (!write_all(fd, &head, sizeof head) || !write_all(fd, data, n)) _exit(3); /* the runner is gone */
}

/* Of a row that has none of its own (a stream has): the build, its options, and the tables that rows are judged by. */
static void write_provenance(const struct gate_context *ctx, char out[40]) {
    static const char *const tables[] = {"golden/budgets.csv", "fixtures/op_cases.csv"};
    struct provenance p;
    struct hash128 h;
    char path[4096], hex[HASH_TEXT_BYTES], *text = NULL;
    size_t n = 0;
    provenance_init(&p);
    enum status s = generate_build_provenance(&ctx->config, &p, NULL);
    for (size_t i = 0; ctx->source_dir != NULL && i < sizeof tables / sizeof tables[0] && s == STATUS_OK;
         i++) {
        (void)snprintf(path, sizeof path, "%.3000s/%s", ctx->source_dir, tables[i]);
        if (file_hash(path, &h, NULL) != STATUS_OK) continue; /* the gates that need it say so */
        hash_format(&h, hex);
        s = provenance_set(&p, i == 0 ? "budgets" : "op_cases", hex, NULL);
    }
    if (s == STATUS_OK) s = provenance_format(&p, &text, &n, NULL);
    if (s == STATUS_OK) {
        h = hash_bytes(text, n);
        hash_format(&h, out);
    }
    free(text);
    provenance_free(&p);
}

static void child_emit(void *sink, const struct evidence *row) {
    struct child_sink *s = sink;
    struct evidence out = *row;
    /* --only GATE/CASE, where a gate makes more rows than those of its case; a tool's rows are of all it saw */
    if (s->ctx->under == NULL && !runner_selects_case(s->ctx->only, s->gate->id, row->test_case)) {
        s->passed_over++;
        return;
    }
    s->sent++;
    out.tier = s->gate->tier;
    (void)snprintf(out.gate, sizeof out.gate, "%s", s->gate->id);
    if (out.provenance[0] == '\0') memcpy(out.provenance, s->provenance, sizeof out.provenance);
    repro_complete(s->ctx, out.repro, sizeof out.repro);
    send_frame(s->fd, FRAME_ROW, &out, sizeof out);
}

static void child_main(int fd, const struct gate *g, const struct gate_context *ctx) {
    (void)setpgid(0, 0);
    /* caught (child_die_with_us): the children of a gate have groups of their own, which the handler ends */
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    child_forget_parent();
    int null = open("/dev/null", O_RDWR);
    if (null >= 0) { /* stdout belongs to the runner's report */
        (void)dup2(null, STDIN_FILENO);
        (void)dup2(null, STDOUT_FILENO);
        (void)close(null);
    }
    struct child_sink sink = {fd, g, ctx, "", 0, 0};
    write_provenance(ctx, sink.provenance);
    struct gate_context own = *ctx;
    own.emit = child_emit;
    own.sink = &sink;
    struct frame_done done;
    memset(&done, 0, sizeof done);
    done.status = own.under != NULL ? under_run(g, &own, &done.err) : g->run(&own, &done.err);
    if (done.status == STATUS_OK && sink.sent == 0 && sink.passed_over > 0)
        done.status =
            err_set(&done.err, STATUS_USAGE, "none of its %zu checks is of a case with '%.100s' in it",
                    sink.passed_over, strchr(ctx->only, '/') + 1);
    send_frame(fd, FRAME_DONE, &done, sizeof done);
    _exit(0);
}

/* ---- the runner's side ---- */
enum status runner_child_start(struct runner_child *c, const struct gate *g, const struct gate_context *ctx,
                               double timeout_s, struct err *err) {
    int fds[2];
    if (pipe(fds) != 0) return err_set(err, STATUS_IO, "run: pipe: %s", strerror(errno));
    (void)fcntl(fds[0], F_SETFD, FD_CLOEXEC);
    (void)fcntl(fds[1], F_SETFD, FD_CLOEXEC);
    pid_t pid = fork();
    if (pid < 0) {
        (void)close(fds[0]);
        (void)close(fds[1]);
        return err_set(err, STATUS_IO, "run: fork: %s", strerror(errno));
    }
    if (pid == 0) {
        (void)close(fds[0]);
        child_main(fds[1], g, ctx);
    }
    (void)close(fds[1]);
    (void)setpgid(pid, pid); /* whichever of the two comes first */
    (void)fcntl(fds[0], F_SETFL, O_NONBLOCK);
    c->ctx = ctx;
    c->pid = pid;
    c->fd = fds[0];
    c->started = c->last_row = runner_clock();
    c->deadline = c->started + timeout_s;
    c->used = 0;
    c->done = c->lost = 0;
    return STATUS_OK;
}

void runner_add_row(struct gate_result *r, const struct evidence *row) {
    struct evidence *rows = NULL;
    if (r->n_rows < SIZE_MAX / sizeof *rows) rows = realloc(r->rows, (r->n_rows + 1) * sizeof *rows);
    if (rows == NULL) {
        r->lost = 1;
        return;
    }
    r->rows = rows;
    rows[r->n_rows] = *row;
    if (r->backend != NULL) (void)snprintf(rows[r->n_rows].backend, sizeof rows->backend, "%s", r->backend);
    r->n_rows++;
}

/* The command that asks for `only` of this row's tier; a tier that is not run by default is named. */
static void ask_again(struct evidence *row, const char *only) {
    (void)snprintf(row->repro, sizeof row->repro, "forkgate run");
    if (row->tier == TIER_TOLERANCE || row->tier == TIER_PERF)
        (void)snprintf(row->repro, sizeof row->repro, "forkgate run --tier %s", tier_name(row->tier));
    (void)shell_word_add(row->repro, sizeof row->repro, "--only");
    (void)shell_word_add(row->repro, sizeof row->repro, only);
}

void runner_add_note(struct gate_result *r, enum verdict v, const char *note) {
    struct evidence row;
    memset(&row, 0, sizeof row);
    row.tier = r->gate->tier;
    (void)snprintf(row.gate, sizeof row.gate, "%s", r->gate->id);
    (void)snprintf(row.arm, sizeof row.arm, "run");
    (void)snprintf(row.metric, sizeof row.metric, "none");
    (void)snprintf(row.grade, sizeof row.grade, "measured");
    ask_again(&row, r->gate->id);
    (void)snprintf(row.note, sizeof row.note, "%s", note);
    row.value = row.bound = strtod("nan", NULL);
    row.verdict = v;
    runner_add_row(r, &row);
}

static void parse_frames(struct runner_child *c, struct gate_result *r) {
    size_t at = 0;
    struct frame_head head;
    while (c->used - at >= sizeof head) {
        memcpy(&head, c->buffer + at, sizeof head);
        if (c->used - at - sizeof head < head.size) break;
        const uint8_t *body = c->buffer + at + sizeof head;
        if (head.kind == FRAME_ROW && head.size == sizeof(struct evidence)) {
            struct evidence row;
            memcpy(&row, body, sizeof row);
            double now = runner_clock();
            if (!(row.ms > 0)) row.ms = (now - c->last_row) * 1e3;
            c->last_row = now;
            runner_add_row(r, &row);
        } else if (head.kind == FRAME_DONE && head.size == sizeof c->result) {
            memcpy(&c->result, body, sizeof c->result);
            c->done = 1;
        }
        at += sizeof head + head.size;
    }
    memmove(c->buffer, c->buffer + at, c->used - at);
    c->used -= at;
}

int runner_child_read(struct runner_child *c, struct gate_result *r) {
    for (;;) {
        if (c->room - c->used < 65536) {
            uint8_t *grown = realloc(c->buffer, c->room + (1u << 18));
            if (grown == NULL) {
                c->lost = 1;
                return 0;
            }
            c->buffer = grown;
            c->room += 1u << 18;
        }
        ssize_t n = read(c->fd, c->buffer + c->used, c->room - c->used);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
        if (n == 0) return 0;
        c->used += (size_t)n;
        parse_frames(c, r);
    }
}

/* Why the child's end is no verdict, or NULL when it ended well. */
static const char *child_trouble(const struct runner_child *c, int wait_status, int timed_out, char *out,
                                 size_t n) {
    if (c->lost)
        (void)snprintf(out, n, "out of memory: its evidence could not be read");
    else if (timed_out)
        (void)snprintf(out, n, "time-out: no end after %.0f s", c->deadline - c->started);
    else if (WIFSIGNALED(wait_status))
        (void)snprintf(out, n, "crashed: signal %d (%s)", WTERMSIG(wait_status),
                       strsignal(WTERMSIG(wait_status)));
    else if (!c->done)
        (void)snprintf(out, n, "ended early: exit %d without a verdict", WEXITSTATUS(wait_status));
    else if (c->result.status != STATUS_OK)
        (void)snprintf(out, n, "%.300s", c->result.err.message);
    else
        return NULL;
    return out;
}

/* The gate's end and that of its whole group, which is killed before its leader is reaped: until then the number is theirs.
 * One that must end gets a SIGTERM first: its handler ends the groups that the gate itself has started. */
static int end_gate(pid_t pid, int must_end) {
    const struct timespec nap = {0, 10 * 1000 * 1000};
    siginfo_t info;
    int wait_status = 0;
    memset(&info, 0, sizeof info);
    if (must_end) (void)kill(pid, SIGTERM);
    for (int i = 0; must_end && i < GRACE_NAPS && info.si_pid != pid; i++) {
        (void)nanosleep(&nap, NULL);
        if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0) break;
    }
    if (must_end) (void)kill(-pid, SIGKILL);
    while (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
    }
    (void)kill(-pid, SIGKILL);
    while (waitpid(pid, &wait_status, 0) < 0 && errno == EINTR) {
    }
    return wait_status;
}

/* Of the row about a gate's end: what was picked of it is what did not end well. */
static void write_repro(const struct gate_context *ctx, struct evidence *row) {
    if (ctx->only != NULL) ask_again(row, ctx->only);
    repro_complete(ctx, row->repro, sizeof row->repro);
}

/* A case of a gate, or what a tool says of it, has not all of its arms. */
static int is_whole(const struct gate_context *ctx) {
    return ctx->under == NULL && (ctx->only == NULL || strchr(ctx->only, '/') == NULL);
}

void runner_child_finish(struct runner_child *c, struct gate_result *r, int timed_out) {
    char note[320];
    int wait_status = end_gate(c->pid, timed_out || c->lost);
    (void)close(c->fd);
    const char *trouble = child_trouble(c, wait_status, timed_out, note, sizeof note);
    if (trouble == NULL) trouble = runner_rows_trouble(r, is_whole(c->ctx), note, sizeof note);
    if (trouble != NULL) runner_add_note(r, VERDICT_ERROR, trouble);
    if (trouble != NULL && r->n_rows > 0) write_repro(c->ctx, &r->rows[r->n_rows - 1]);
    r->ms = (runner_clock() - c->started) * 1e3;
    c->pid = 0;
    c->fd = -1;
}
