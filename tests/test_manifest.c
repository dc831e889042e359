/* test_manifest.c - fixtures/MANIFEST.csv lists every fixture, and every file is what the list says.
 * After a wanted change: tools/manifest, and review the diff. */
#include <criterion/criterion.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "gates/table.h"

#define PATH_ROOM 2048

static table *read_manifest(void) {
    table *t;
    struct err err = {""};
    cr_assert_eq(table_read(FORKGATE_SOURCE_DIR "/fixtures/MANIFEST.csv", &t, &err), STATUS_OK, "%s",
                 err.message);
    cr_assert_eq(table_columns(t), 5, "the manifest has %d columns", table_columns(t));
    return t;
}

static void hash_file(const char *path, char hex[40], long *bytes) {
    static char block[1 << 16];
    FILE *f = fopen(path, "rb");
    cr_assert(f != NULL, "listed but missing: %s", path);
    XXH3_state_t *state = XXH3_createState();
    XXH3_128bits_reset(state);
    size_t n;
    *bytes = 0;
    while ((n = fread(block, 1, sizeof block, f)) > 0) {
        XXH3_128bits_update(state, block, n);
        *bytes += (long)n;
    }
    fclose(f);
    XXH128_hash_t h = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    snprintf(hex, 40, "%016llx%016llx", (unsigned long long)h.high64, (unsigned long long)h.low64);
}

Test(manifest, every_listed_file_is_what_the_list_says) {
    table *rows = read_manifest();
    cr_assert(table_rows(rows) > 30, "only %zu rows", table_rows(rows));
    for (size_t r = 0; r < table_rows(rows); r++) {
        char path[PATH_ROOM], hex[40];
        long bytes;
        snprintf(path, sizeof path, "%s/%s", FORKGATE_SOURCE_DIR, table_cell(rows, r, 0, NULL));
        hash_file(path, hex, &bytes);
        cr_assert_eq(bytes, atol(table_cell(rows, r, 1, NULL)), "%s has %ld bytes",
                     table_cell(rows, r, 0, NULL), bytes);
        cr_assert_str_eq(hex, table_cell(rows, r, 2, NULL), "%s has another hash",
                         table_cell(rows, r, 0, NULL));
        cr_assert(*table_cell(rows, r, 3, NULL) != '\0' && *table_cell(rows, r, 4, NULL) != '\0',
                  "%s: origin or licence missing", table_cell(rows, r, 0, NULL));
    }
    table_close(rows);
}

static int is_listed(const table *rows, const char *name) {
    for (size_t r = 0; r < table_rows(rows); r++)
        if (strcmp(table_cell(rows, r, 0, NULL), name) == 0) return 1;
    return 0;
}

static void check_folder(const table *rows, const char *folder) {
    char path[PATH_ROOM];
    snprintf(path, sizeof path, "%s/%s", FORKGATE_SOURCE_DIR, folder);
    DIR *d = opendir(path);
    cr_assert(d != NULL, "cannot read %s", folder);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        char name[PATH_ROOM];
        struct stat about;
        if (e->d_name[0] == '.') continue;
        snprintf(name, sizeof name, "%.500s/%.255s", folder, e->d_name);
        snprintf(path, sizeof path, "%s/%.800s", FORKGATE_SOURCE_DIR, name);
        cr_assert_eq(stat(path, &about), 0, "cannot stat %s", name);
        if (strcmp(name, "fixtures/models/downloaded") == 0 || strcmp(name, "fixtures/MANIFEST.csv") == 0)
            continue;
        if (S_ISDIR(about.st_mode))
            check_folder(rows, name);
        else
            cr_assert(is_listed(rows, name), "not listed: %s", name);
    }
    closedir(d);
}

Test(manifest, every_fixture_is_listed_and_so_are_the_bounds_and_the_counts) {
    table *rows = read_manifest();
    check_folder(rows, "fixtures");
    cr_assert(is_listed(rows, "golden/budgets.csv"), "a run could be judged by looser bounds");
    cr_assert(is_listed(rows, "golden/suite.csv"), "a suite that has shrunk could be called whole");
    table_close(rows);
}
