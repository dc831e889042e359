/* cmd_occupancy.c - `forkgate occupancy`: how many blocks of each kernel live on a multiprocessor, each row with its grade. */
#include <stdio.h>
#include <string.h>

#include "engine/occupancy.h"
#include "gates/occupancy_device.h"
#include "gates/table.h"
#include "tools/cli_table.h"
#include "tools/commands.h"

struct occupancy_args {
    struct sm_limits sm;
    const char *kernel, *csv;
    int device;
};

static void take_shared(struct argp_state *state, void *args, char *arg) {
    struct occupancy_args *a = args;
    a->sm.shared = (size_t)cli_number(state, "--sm-smem", arg, 1, 4096) * 1024;
    (void)snprintf(a->sm.card, sizeof a->sm.card, "named (%s KB a multiprocessor)", arg);
}

static const struct cli_option options[] = {
    {"sm-smem", 0, "KB", "shared memory of a multiprocessor (default 228, an H100 or H200)", 1,
     CLI_BY(take_shared)},
    {"sm-registers", 0, "N", "its registers (default 65536)", 1,
     CLI_WITHIN(struct occupancy_args, sm.registers, 1024, 1 << 24)},
    {"sm-threads", 0, "N", "its threads (default 2048)", 1,
     CLI_WITHIN(struct occupancy_args, sm.threads, 32, 1 << 16)},
    {"kernel", 0, "NAME", "only this kernel", 1, CLI_AT(struct occupancy_args, kernel)},
    {"device", 0, NULL,
     "also launch every kernel here and ask the driver (rows graded queried), and count the blocks alive at "
     "once (measured: forkgate-probe)",
     1, CLI_AT(struct occupancy_args, device)},
    {"csv", 0, "FILE", "write the rows as CSV", 1, CLI_AT(struct occupancy_args, csv)},
    CLI_LAST};

static const struct cli_table arguments = {
    CLI_ARGP(NULL,
             "Print, per kernel and geometry, threads, registers, shared memory and the blocks that are "
             "resident on one multiprocessor.\v"
             "Grades: derived - from sizes, with 1 KB of shared memory a block for the system; registers are "
             "those of the sm_90a code. queried - the driver's answer for what was launched. measured - the "
             "most blocks of a "
             "launch that were seen alive at once on one multiprocessor, by counters in the kernels of the "
             "build forkgate-probe; registers are those of that code. Grades are never mixed in one row.\n\n"
             "Examples:\n"
             "  forkgate occupancy --kernel fa_prefill_f16kv\n"
             "  forkgate occupancy --sm-smem 100 --kernel fa_prefill_f16kv\n"
             "  forkgate occupancy --device --csv occupancy.csv\n"
             "Exit: 0 printed; 2 trouble, a kernel that is not there, or no device.\n",
             NULL),
    options, NULL, NULL};

/* ---- rows ------------------------------------------------------------------------------------------------------ */
struct rows {
    table_writer *csv;
    const char *only;
    int printed;
};

static void row(struct rows *o, const char *card, const struct block_needs *b, const struct residency *r,
                const char *grade) {
    if (o->only != NULL && strcmp(o->only, b->kernel) != 0) return;
    char limits[48] = "-";
    if (r->by_shared >= 0)
        (void)snprintf(limits, sizeof limits, "shared %d, registers %d, threads %d", r->by_shared,
                       r->by_registers, r->by_threads);
    printf("%-17s %-34s %5d threads %4d registers %7zu B shared  %2d resident  %-8s %s\n", b->kernel,
           b->geometry, b->threads, b->registers, b->shared + b->dynamic, r->resident, grade, limits);
    o->printed++;
    if (o->csv == NULL) return;
    table_put_text(o->csv, card);
    table_put_text(o->csv, b->kernel);
    table_put_text(o->csv, b->geometry);
    table_put_i64(o->csv, b->threads);
    table_put_i64(o->csv, b->registers);
    table_put_u64(o->csv, b->shared);
    table_put_u64(o->csv, b->dynamic);
    const int by[] = {r->by_shared, r->by_registers, r->by_threads};
    for (int i = 0; i < 3; i++) {
        if (by[i] >= 0)
            table_put_i64(o->csv, by[i]);
        else
            table_put_empty(o->csv);
    }
    table_put_i64(o->csv, r->resident);
    table_put_text(o->csv, grade);
    table_end_row(o->csv);
}

static void derived_rows(struct rows *o, const struct sm_limits *sm) {
    struct block_needs b;
    for (int i = 0; occupancy_instance(i, &b); i++) {
        struct residency r = occupancy_derive(sm, &b);
        row(o, sm->card, &b, &r, "derived");
    }
}

static enum status queried_rows(struct rows *o, struct err *err) {
    static struct occupancy_seen seen[OCCUPANCY_SEEN_MAX];
    struct device_info d;
    int n = 0;
    RETURN_IF_ERROR(backend_cuda_device(&d, err));
    RETURN_IF_ERROR(occupancy_seen_on_device(seen, &n, err));
    for (int i = 0; i < n; i++) {
        struct residency r = {-1, -1, -1, -1, seen[i].queried};
        row(o, d.name, &seen[i].needs, &r, "queried");
        r.resident = seen[i].measured;
        if (seen[i].measured > 0) row(o, d.name, &seen[i].needs, &r, "measured");
    }
    return STATUS_OK;
}

static enum status all_rows(const struct occupancy_args *a, struct rows *o, struct err *err) {
    static const char *const columns[] = {"card",         "kernel",     "geometry", "threads",
                                          "registers",    "shared",     "dynamic",  "by_shared",
                                          "by_registers", "by_threads", "resident", "grade"};
    if (a->csv != NULL)
        RETURN_IF_ERROR(table_writer_open(a->csv, NULL, TABLE_LF, columns,
                                          (int)(sizeof columns / sizeof columns[0]), &o->csv, err));
    derived_rows(o, &a->sm);
    enum status s = a->device ? queried_rows(o, err) : STATUS_OK;
    if (o->printed == 0 && s == STATUS_OK)
        s = err_set(err, STATUS_USAGE, "no kernel is called '%s'", a->kernel == NULL ? "" : a->kernel);
    if (o->csv == NULL) return s;
    if (s == STATUS_OK) return table_writer_finish(o->csv, err);
    table_writer_abandon(o->csv);
    return s;
}

static int run_occupancy(int argc, char **argv) {
    struct occupancy_args args;
    struct rows out;
    struct err err = {""};
    memset(&args, 0, sizeof args);
    memset(&out, 0, sizeof out);
    args.sm = occupancy_sm90();
    cli_parse(&arguments.argp, argc, argv, &args);
    out.only = args.kernel;
    if (all_rows(&args, &out, &err) != STATUS_OK) return cli_fail("occupancy", &err);
    return 0;
}

const struct command cmd_occupancy = {"occupancy",
                                      "blocks of each kernel on a multiprocessor: derived, queried, measured",
                                      &arguments.argp, run_occupancy};
