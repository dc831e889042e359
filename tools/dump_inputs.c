/* dump_inputs.c - see dump_inputs.h. */
#include "tools/dump_inputs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gates/battery.h"
#include "gates/file_hash.h"
#include "tools/cli.h"
#include "gates/slurp.h"

/* NAME as an entry of fixtures/battery.csv; *out stays NULL when there is none. */
static enum status read_battery_prompt(const char *name, char **out, size_t *n, struct err *err) {
    char csv[4096], prompts[4096];
    struct battery b;
    (void)snprintf(csv, sizeof csv, "%s/fixtures/battery.csv", cli_source_dir());
    (void)snprintf(prompts, sizeof prompts, "%s/fixtures/prompts", cli_source_dir());
    if (access(csv, F_OK) != 0) return STATUS_OK;
    RETURN_IF_ERROR(battery_open(csv, prompts, &b, err));
    for (int i = 0; i < b.n; i++) {
        if (strcmp(b.prompts[i].name, name) != 0) continue;
        *out = b.prompts[i].bytes;
        *n = b.prompts[i].n;
        b.prompts[i].bytes = NULL; /* the caller's now */
    }
    battery_close(&b);
    return STATUS_OK;
}

static enum status read_prompt(const dump *d, const char *file, const char *text, char **out, size_t *n,
                               struct err *err) {
    char path[4096];
    const char *recorded = provenance_get(dump_provenance(d), "prompt");
    if (text != NULL) {
        *out = strdup(text);
        *n = strlen(text);
        return *out != NULL ? STATUS_OK : err_set(err, STATUS_NOMEM, "out of memory");
    }
    if (file != NULL) return slurp_file(file, out, n, err);
    if (recorded == NULL || strchr(recorded, '/') != NULL || strcmp(recorded, "-p") == 0)
        return err_set(err, STATUS_USAGE, "%s does not name a prompt of fixtures/prompts: give -f or -p",
                       dump_name(d));
    RETURN_IF_ERROR(read_battery_prompt(recorded, out, n, err));
    if (*out != NULL) return STATUS_OK;
    (void)snprintf(path, sizeof path, "%s/fixtures/prompts/%s", cli_source_dir(), recorded);
    return slurp_file(path, out, n, err);
}

enum status dump_inputs_prompt(const dump *d, const char *file, const char *text, char **out, size_t *n,
                               struct err *err) {
    *out = NULL;
    RETURN_IF_ERROR(read_prompt(d, file, text, out, n, err));
    struct hash128 h = hash_bytes(*out, *n);
    char hex[HASH_TEXT_BYTES];
    hash_format(&h, hex);
    const char *want = provenance_get(dump_provenance(d), "prompt.xxh3");
    if (want == NULL || strcmp(want, hex) == 0) return STATUS_OK;
    free(*out);
    *out = NULL;
    return err_set(err, STATUS_USAGE, "that is not the prompt of %s (xxh3 %s, the dump says %s)",
                   dump_name(d), hex, want);
}

enum status dump_inputs_model(const dump *d, const char *path, struct err *err) {
    struct hash128 h;
    char hex[HASH_TEXT_BYTES];
    const char *want = provenance_get(dump_provenance(d), "model.xxh3");
    if (want == NULL) return STATUS_OK;
    RETURN_IF_ERROR(file_hash(path, &h, err));
    hash_format(&h, hex);
    if (strcmp(want, hex) == 0) return STATUS_OK;
    return err_set(err, STATUS_USAGE, "%s is not the model of %s (xxh3 %s, the dump says %s)", path,
                   dump_name(d), hex, want);
}

int dump_inputs_ours(const dump *d) {
    const char *tool = provenance_get(dump_provenance(d), "tool");
    return tool != NULL && strncmp(tool, "forkgate", 8) == 0;
}
