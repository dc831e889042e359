/* fixtures_check.c - see fixtures_check.h. */
#include "gates/fixtures_check.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "gates/file_hash.h"
#include "gates/table.h"

#define MANIFEST    "fixtures/MANIFEST.csv"
#define TIER_BIT(t) (1u << (unsigned)(t))
#define EVERY_TIER                                                                                           \
    (TIER_BIT(TIER_PARITY) | TIER_BIT(TIER_IDENTITY) | TIER_BIT(TIER_TOLERANCE) | TIER_BIT(TIER_PERF))
#define STREAM_TIERS (EVERY_TIER & ~TIER_BIT(TIER_PARITY))

/* Which tiers read what; the suite's tests look at all fixtures themselves (unit.manifest). */
static const struct {
    const char *path; /* a file, or a folder with its slash */
    unsigned tiers;
} uses[] = {{"fixtures/op_cases.csv", TIER_BIT(TIER_PARITY) | TIER_BIT(TIER_TOLERANCE)},
            {"fixtures/golden_prompts.csv", TIER_BIT(TIER_IDENTITY)},
            {"fixtures/battery.csv", TIER_BIT(TIER_TOLERANCE)},
            {"fixtures/prompts/", STREAM_TIERS},
            {"fixtures/reference/", TIER_BIT(TIER_PARITY)},
            {"fixtures/peer/", TIER_BIT(TIER_PARITY)},
            {"fixtures/models/", EVERY_TIER},
            {"golden/budgets.csv", TIER_BIT(TIER_PARITY) | TIER_BIT(TIER_TOLERANCE)},
            {"golden/suite.csv", TIER_BIT(TIER_SUITE)}};
#define USES (sizeof uses / sizeof uses[0])

struct findings {
    unsigned tiers; /* selected */
    size_t wrong;
    char first[200];
    unsigned listed; /* bit i: uses[i] was seen in the list */
};

static void find(struct findings *f, const char *file, const char *what) {
    if (f->wrong++ == 0) (void)snprintf(f->first, sizeof f->first, "%.100s %.90s", file, what);
}

static int use_of(const char *file) {
    for (size_t i = 0; i < USES; i++) {
        size_t n = strlen(uses[i].path);
        int folder = uses[i].path[n - 1] == '/';
        if (folder ? strncmp(file, uses[i].path, n) == 0 : strcmp(file, uses[i].path) == 0) return (int)i;
    }
    return -1;
}

static enum status look_at(const table *t, size_t row, const int at[2], const char *dir, struct findings *f,
                           struct err *err) {
    const char *file = table_cell(t, row, at[0], NULL);
    int use = use_of(file);
    char path[4096];
    struct hash128 want, got;
    if (use < 0) return STATUS_OK;
    f->listed |= 1u << (unsigned)use;
    if ((uses[use].tiers & f->tiers) == 0) return STATUS_OK;
    if (!hash_parse(table_cell(t, row, at[1], NULL), &want))
        return table_refuse(t, row, err, "xxh3: not 32 hex digits");
    (void)snprintf(path, sizeof path, "%.3000s/%.1000s", dir, file);
    if (file_hash(path, &got, NULL) != STATUS_OK)
        find(f, file, "cannot be read");
    else if (!hash_equal(&want, &got))
        find(f, file, "is not what " MANIFEST " lists");
    return STATUS_OK;
}

static int is_listed(const table *t, int column, const char *file) {
    for (size_t row = 0; row < table_rows(t); row++)
        if (strcmp(table_cell(t, row, column, NULL), file) == 0) return 1;
    return 0;
}

/* A line that was deleted leaves a file that nobody looks at. Folders below are not read by a tier. */
static void find_unlisted(const table *t, int column, const char *dir, const char *folder,
                          struct findings *f) {
    char path[4096], file[512];
    struct stat about;
    (void)snprintf(path, sizeof path, "%.3000s/%.1000s", dir, folder);
    DIR *d = opendir(path);
    if (d == NULL) return; /* not there: the lines that list its files say so */
    for (const struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        (void)snprintf(file, sizeof file, "%.200s%.255s", folder, e->d_name);
        (void)snprintf(path, sizeof path, "%.3000s/%.600s", dir, file);
        if (e->d_name[0] == '.' || stat(path, &about) != 0 || !S_ISREG(about.st_mode)) continue;
        if (!is_listed(t, column, file)) find(f, file, "is not listed in " MANIFEST);
    }
    (void)closedir(d);
}

static enum status look_at_all(const char *dir, struct findings *f, struct err *err) {
    char path[4096];
    int at[2];
    table *t = NULL;
    (void)snprintf(path, sizeof path, "%.4000s/" MANIFEST, dir);
    RETURN_IF_ERROR(table_read(path, &t, err));
    enum status s = table_need(t, "file", &at[0], err);
    if (s == STATUS_OK) s = table_need(t, "xxh3", &at[1], err);
    for (size_t r = 0; s == STATUS_OK && r < table_rows(t); r++) s = look_at(t, r, at, dir, f, err);
    for (size_t i = 0; s == STATUS_OK && i < USES; i++) {
        const char *used = uses[i].path;
        if ((uses[i].tiers & f->tiers) == 0) continue;
        if ((f->listed & 1u << i) == 0)
            find(f, used, "is not listed in " MANIFEST);
        else if (used[strlen(used) - 1] == '/')
            find_unlisted(t, at[0], dir, used, f);
    }
    table_close(t);
    return s;
}

static const struct gate gate_fixtures = {
    .id = "fixtures.manifest",
    .tier = TIER_PARITY,
    .claim = "the fixtures and the bounds that this run relies on are those of " MANIFEST,
};

enum status fixtures_check(const struct runner_options *o, struct run_result *r, struct err *err) {
    struct findings f = {0, 0, "", 0};
    struct evidence row;
    struct err trouble = {""};
    for (size_t i = 0; i < r->n; i++) f.tiers |= TIER_BIT(r->gates[i].gate->tier);
    enum status s = look_at_all(o->context.source_dir, &f, &trouble);
    if (s == STATUS_OK && f.wrong == 0) return STATUS_OK;
    memset(&row, 0, sizeof row);
    row.tier = gate_fixtures.tier;
    row.verdict = VERDICT_ERROR;
    row.value = f.wrong > 0 ? (double)f.wrong : (double)NAN;
    row.bound = row.value >= 0 ? 0 : (double)NAN;
    (void)snprintf(row.gate, sizeof row.gate, "%s", gate_fixtures.id);
    (void)snprintf(row.arm, sizeof row.arm, "manifest");
    (void)snprintf(row.metric, sizeof row.metric, "files");
    (void)snprintf(row.grade, sizeof row.grade, "measured");
    (void)snprintf(row.repro, sizeof row.repro, "ctest -R unit.manifest");
    if (s != STATUS_OK)
        (void)snprintf(row.note, sizeof row.note, "%.300s", trouble.message);
    else if (f.wrong == 1)
        (void)snprintf(row.note, sizeof row.note, "%s (tools/manifest lists a wanted change)", f.first);
    else
        (void)snprintf(row.note, sizeof row.note, "%s; %zu files in all", f.first, f.wrong);
    return runner_append(r, &gate_fixtures, r->n > 0 ? r->gates[0].backend : "cpu", &row, err);
}
