/* cmd_mutants.c - `forkgate mutants`: the fault matrix, and what it says about the gates. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "build_info.h"
#include "gates/file_out.h"
#include "gates/mutants.h"
#include "tools/cli_table.h"
#include "tools/commands.h"

struct mutants_args {
    struct cli_engine engine;
    int tiers[TIER_PERF + 1];
    int tiers_given, quick, named, list, timeout, jobs;
    const char *only, *csv;
};

static void take_tiers(struct argp_state *state, void *args, char *arg) {
    struct mutants_args *a = args;
    memset(a->tiers, 0, sizeof a->tiers);
    a->tiers_given = 1;
    if (*arg == '\0') argp_error(state, "--tier: want parity, identity or tolerance");
    for (const char *p = arg; *p != '\0';) {
        char name[16];
        size_t n = strcspn(p, ",");
        (void)snprintf(name, sizeof name, "%.*s", (int)(n < 15 ? n : 15), p);
        int tier = tier_from_name(name);
        if (tier != TIER_PARITY && tier != TIER_IDENTITY && tier != TIER_TOLERANCE)
            argp_error(state, "--tier %s: want parity, identity or tolerance", name);
        a->tiers[tier] = 1;
        p += n;
        if (*p == ',') p++;
    }
}

static const struct cli_option options[] = {
    {"only", 0, "ID[,ID]", "these faults", 1, CLI_AT(struct mutants_args, only)},
    {"quick", 0, NULL, "a fault's own gates first, and no more after the first kill", 1,
     CLI_AT(struct mutants_args, quick)},
    {"named", 0, NULL, "a fault's own gates, all of them, and no other", 1,
     CLI_AT(struct mutants_args, named)},
    {"jobs", 0, "N", "gates at a time, 1 to 64 (default 1); threads are divided among them", 1,
     CLI_WITHIN(struct mutants_args, jobs, 1, MUTANTS_JOBS)},
    {"tier", 0, "LIST",
     "parity,identity,tolerance (default: all three; with --quick or --named the first two)", 1,
     CLI_BY(take_tiers)},
    {"timeout", 0, "S",
     "seconds one gate may take (default: 20 times what it takes unharmed, 30 to 200 more; on cuda 4 times "
     "and 12 more)",
     1, CLI_WITHIN(struct mutants_args, timeout, 1, 100000)},
    {"csv", 0, "FILE", "write the matrix, one row per fault and tier", 1, CLI_AT(struct mutants_args, csv)},
    {"list", 0, NULL, "list the faults, run nothing", 1, CLI_AT(struct mutants_args, list)},
    CLI_LAST};

static const struct cli_table arguments = {
    CLI_ARGP("",
             "Turns on each fault of fixtures/mutants.csv in forkgate-faults (the binary beside this one) "
             "and runs the gates against it. killed: a gate turned red; survived: it stayed green although "
             "it ran the fault; not reached: it never did. A fault that no tier kills is a hole, a gate that "
             "kills nothing is BLIND, and a legal regrouping must be red in identity and green elsewhere.\v"
             "Examples:\n"
             "  forkgate mutants --quick                # minutes: does something kill each?\n"
             "  forkgate mutants --csv mutants_cpu.csv  # the whole matrix\n"
             "  forkgate mutants --only merge-order     # one fault against every gate\n"
             "  forkgate mutants --backend cuda --named --jobs 16   # the kernels, on a GPU\n"
             "Exit: 0 every fault reached here is killed; 1 a hole, a false alarm or a blind gate; 2 a gate "
             "could not judge, nothing was killed, bad usage.\n",
             cli_engine_children),
    options, NULL, NULL};

static void print_result(void *sink, const struct mutant_result *r, size_t done, size_t total) {
    (void)sink;
    cli_progress_end();
    if (done == 1) mutants_print_head(stdout);
    mutants_print_row(stdout, r);
    cli_progress("faults", done, total);
}

static void print_list(const struct mutant *m, size_t n) {
    for (size_t i = 0; i < n; i++)
        printf("%-17s %-7s %-16s %-8s %s\n", m[i].id, mutant_where_name(m[i].where), m[i].op,
               m[i].legal ? "legal" : mutant_size_name(m[i].size), m[i].description);
}

/* forkgate and forkgate-faults lie beside this binary, which is one of them. */
static void path_beside(const char *name, char *out, size_t room) {
    const char *self = cli_self(), *slash = strrchr(self, '/');
    int folder = slash == NULL ? 0 : (int)(slash - self) + 1;
    (void)snprintf(out, room, "%.*s%s", folder, self, name);
}

/* The processor, as the system names it; "cpu" where it does not. */
static void name_processor(char *out, size_t room) {
    char line[256];
    FILE *f = fopen("/proc/cpuinfo", "r");
    (void)snprintf(out, room, "cpu");
    while (f != NULL && fgets(line, (int)sizeof line, f) != NULL) {
        const char *name = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || name == NULL) continue;
        name += 1 + strspn(name + 1, " \t");
        (void)snprintf(out, room, "%.*s", (int)strcspn(name, "\n"), name);
        break;
    }
    if (f != NULL) (void)fclose(f);
}

static enum status write_csv(const struct mutants_args *a, const char *command, const struct mutant_result *r,
                             size_t n, struct err *err) {
    struct device_info device;
    char date[16];
    time_t now = time(NULL);
    struct tm tm;
    if (a->csv == NULL) return STATUS_OK;
    int cuda = a->engine.config.backend == BACKEND_CUDA;
    name_processor(device.name, sizeof device.name);
    if (cuda) RETURN_IF_ERROR(backend_cuda_device(&device, err));
    if (gmtime_r(&now, &tm) == NULL || strftime(date, sizeof date, "%Y-%m-%d", &tm) == 0)
        return err_set(err, STATUS_IO, "no date");
    struct mutants_header h = {command,         date,
                               device.name,     arch_name(a->engine.config.compute.arch),
                               FORKGATE_COMMIT, cuda ? "cuda" : "cpu"};
    return mutants_write_csv(a->csv, &h, r, n, err);
}

/* list: where m was read from */
static int judge(const struct mutants_args *a, const struct mutant *m, size_t n, const char *list,
                 const char *command) {
    char faults[4096], base[4096];
    struct err err = {""};
    struct mutant_result *results = NULL;
    size_t n_results = 0;
    struct mutants_options o;
    memset(&o, 0, sizeof o);
    path_beside("forkgate-faults", faults, sizeof faults);
    path_beside("forkgate", base, sizeof base);
    o.faults = faults;
    o.base = base;
    o.model_path = a->engine.model;
    o.source_dir = cli_source_dir();
    o.config = a->engine.config;
    o.registry = gate_registry;
    memcpy(o.tiers, a->tiers, sizeof o.tiers);
    o.only = a->only;
    o.quick = a->quick;
    o.named = a->named;
    o.jobs = a->jobs;
    o.timeout_s = a->timeout;
    o.on_result = print_result;
    const char *const read[] = {o.model_path, faults, base, list};
    enum status s = a->csv == NULL ? STATUS_OK : file_out_check(a->csv, 1, &err); /* not after an hour */
    if (s == STATUS_OK) s = file_out_spares(a->csv, read, 4, &err);
    if (s == STATUS_OK) s = mutants_run(&o, m, n, &results, &n_results, &err);
    cli_progress_end();
    if (s == STATUS_OK) s = write_csv(a, command, results, n_results, &err);
    if (s != STATUS_OK) {
        mutants_free(results, n_results);
        return cli_fail("mutants", &err);
    }
    struct mutants_judgement judgement;
    mutants_judge(results, n_results, !a->quick && !a->named && a->only == NULL, &judgement);
    mutants_print_end(stdout, &judgement, results, n_results);
    mutants_free(results, n_results);
    return mutants_exit_code(&judgement);
}

/* The command as it was given, for the CSV; paths are shown by their last part. */
static void command_text(int argc, char **argv, char *out, size_t room) {
    size_t used = (size_t)snprintf(out, room, "%s", argv[0]);
    for (int i = 1; i < argc && used < room; i++) {
        const char *slash = strrchr(argv[i], '/');
        used += (size_t)snprintf(out + used, room - used, " %s", slash == NULL ? argv[i] : slash + 1);
    }
}

static int run(int argc, char **argv) {
    struct mutants_args a;
    struct mutant *m = NULL;
    size_t n = 0;
    char path[4096], command[512];
    struct err err = {""};
    memset(&a, 0, sizeof a);
    cli_engine_default(&a.engine);
    command_text(argc, argv, command, sizeof command);
    cli_parse(&arguments.argp, argc, argv, &a);
    if (!a.tiers_given) {
        a.tiers[TIER_PARITY] = a.tiers[TIER_IDENTITY] = 1;
        a.tiers[TIER_TOLERANCE] = !a.quick && !a.named;
    }
    (void)snprintf(path, sizeof path, "%s/fixtures/mutants.csv", cli_source_dir());
    if (mutants_load(path, &m, &n, &err) != STATUS_OK) return cli_fail("mutants", &err);
    int code = 0;
    if (a.list)
        print_list(m, n);
    else
        code = judge(&a, m, n, path, command);
    free(m);
    return code;
}

const struct command cmd_mutants = {"mutants", "run planted faults against the gates: can they fail?",
                                    &arguments.argp, run};
