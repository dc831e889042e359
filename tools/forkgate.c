/* forkgate.c - the one binary: a table of commands, --help, --version.
 * Not where anything is decided: a command parses, calls a library function and exits with its verdict.
 * Source: ours. Exercise: forkgate --help */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "build_info.h"
#include "engine/fault.h"
#include "gates/child_process.h"
#include "gates/generate.h"
#include "tools/cli.h"
#include "tools/commands.h"
#include "tools/manual.h"

static int print_help(void) {
    printf("Usage: forkgate COMMAND [OPTION...]\n"
           "May this kernel change land? Gates, goldens and fork reports for an LLM inference engine.\n\n");
    for (int i = 0; commands[i] != NULL; i++) printf("  %-10s %s\n", commands[i]->name, commands[i]->summary);
    printf("\nforkgate COMMAND --help shows options and examples.\n"
           "Exit: 0 may land / identical, 1 failed / forked, 2 trouble (bad usage, damaged input, "
           "nothing judged).\n"
           "forkgate --version, --man (roff), --completion bash.\n"
           "Environment: FORKGATE_ROOT (tree with fixtures/ and golden/), NO_COLOR; more in --man.\n");
    return 0;
}

static int print_version(void) {
    struct device_info device;
    struct err err;
    printf("forkgate 0.1.0 (%s%s)\n", FORKGATE_COMMIT, FORKGATE_DIRTY[0] == '1' ? ", modified" : "");
    if (backend_cuda_device(&device, &err) == STATUS_OK)
        printf("cuda: %s, compute capability %d.%d, driver %d, runtime %d\n", device.name, device.cc_major,
               device.cc_minor, device.driver, device.runtime);
    else
        printf("cuda: none (%s)\n", err.message);
    return 0;
}

/* Which planted faults are on, in the binary that has them; the other one says that it has none. 0: go on. */
static int start_faults(void) {
#ifdef FORKGATE_FAULTS
    struct err err;
    const char *named = getenv("FORKGATE_FAULT");
    if (named != NULL && named[0] != '\0') generate_note_faults(named);
    if (fault_start(&err) == STATUS_OK) return 0;
    fprintf(stderr, "forkgate: %s\n", err.message);
    return EXIT_TROUBLE;
#else
    if (getenv("FORKGATE_FAULT") != NULL)
        fprintf(stderr, "forkgate: FORKGATE_FAULT is ignored: this binary has no planted faults\n");
    return 0;
#endif
}

/* A binary that can be told to compute wrong numbers never writes what others are judged by. */
static int is_refused(const char *name, int argc, char **argv) {
#ifdef FORKGATE_FAULTS
    for (int i = 2; strcmp(name, "golden") == 0 && i < argc; i++) {
        if (strcmp(argv[i], "refresh") != 0) continue;
        fprintf(stderr, "forkgate: golden refresh is refused: this is forkgate-faults\n");
        return 1;
    }
#else
    (void)name, (void)argc, (void)argv;
#endif
    return 0;
}

/* --man, --completion bash: hidden from --help, for packagers; made from the option tables. -1: none of them. */
static int print_manual(int argc, char **argv) {
    if (strcmp(argv[1], "--man") == 0)
        manual_print_man(stdout);
    else if (strcmp(argv[1], "--completion") == 0 && argc > 2 && strcmp(argv[2], "bash") == 0)
        manual_print_bash(stdout);
    else
        return -1;
    return cli_finish(NULL, 0);
}

/* A descriptor that is closed (a job of cron) would become the number of a pipe or a file that is opened here. What is put
 * in its place can be read from no more than before, and written to no more: results that reach nobody stay trouble. */
static void hold_standard(void) {
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0) (void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

int main(int argc, char **argv) {
    hold_standard();
    (void)signal(SIGXFSZ, SIG_IGN); /* a file-size limit is a write error with a message, not a death */
    child_die_with_us();
    if (start_faults() != 0) return EXIT_TROUBLE;
    if (argc < 2) {
        fprintf(stderr, "forkgate: give a command (forkgate --help lists them)\n");
        return EXIT_TROUBLE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0)
        return cli_finish(NULL, print_help());
    if (strcmp(name, "--version") == 0) return cli_finish(NULL, print_version());
    int printed = print_manual(argc, argv);
    if (printed >= 0) return printed;
    for (int i = 0; commands[i] != NULL; i++) {
        if (strcmp(commands[i]->name, name) != 0) continue;
        if (is_refused(name, argc, argv)) return EXIT_TROUBLE;
        static char program[64];
        (void)snprintf(program, sizeof program, "forkgate %s", name);
        argv[1] = program;
        return cli_finish(name, commands[i]->run(argc - 1, argv + 1));
    }
    fprintf(stderr, "forkgate: unknown command '%s' (forkgate --help lists them)\n", name);
    return EXIT_TROUBLE;
}
