/* suite_parse.c - see suite.h. The file is ctest's own, so a scan for its fixed attribute order is enough; anything that
 * does not fit is refused, never guessed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gates/suite.h"
#include "gates/table.h"

static enum status add(struct suite *s, const char *name, size_t length, struct suite_module **out,
                       struct err *err) {
    struct suite_module *grown = realloc(s->modules, (s->n + 1) * sizeof *grown);
    if (grown == NULL) return err_set(err, STATUS_NOMEM, "suite: out of memory");
    s->modules = grown;
    *out = &s->modules[s->n];
    memset(*out, 0, sizeof **out);
    (*out)->committed = -1;
    if (length == 0 || length >= sizeof(*out)->name)
        return err_set(err, STATUS_FORMAT, "suite: a test without a usable name");
    memcpy((*out)->name, name, length);
    s->n++;
    return STATUS_OK;
}

/* The value of attribute key inside [p, end), or NULL. */
static const char *attribute(const char *p, const char *end, const char *key, size_t *length) {
    size_t n = strlen(key);
    for (; p + n < end; p++) {
        if (memcmp(p, key, n) != 0) continue;
        const char *close = memchr(p + n, '"', (size_t)(end - p) - n);
        if (close == NULL) return NULL;
        *length = (size_t)(close - p) - n;
        return p + n;
    }
    return NULL;
}

/* The last "N passed, N failed, N skipped" line of a test's output. */
static void find_counts(const char *p, const char *end, struct suite_module *m) {
    static const char mark[] = " passed, ";
    for (; p + sizeof mark < end; p++) {
        if (memcmp(p, mark, sizeof mark - 1) != 0) continue;
        const char *start = p;
        while (start[-1] >= '0' && start[-1] <= '9') start--;
        long passed, failed, skipped;
        if (sscanf(start, "%ld passed, %ld failed, %ld skipped", &passed, &failed, &skipped) != 3) continue;
        m->counted = 1;
        m->passed = passed;
        m->failed = failed;
        m->skipped = skipped;
    }
}

enum status suite_parse(const char *xml, size_t n, struct suite *out, struct err *err) {
    const char *end = xml + n;
    memset(out, 0, sizeof *out);
    if (n == 0 || xml[n - 1] == '\0' || strstr(xml, "<testsuite") == NULL ||
        strstr(xml, "</testsuite>") == NULL)
        return err_set(err, STATUS_FORMAT, "suite: ctest left no complete JUnit file");
    for (const char *p = strstr(xml, "<testcase "); p != NULL;) {
        const char *next = strstr(p + 1, "<testcase "), *stop = next == NULL ? end : next;
        const char *tag_end = memchr(p, '>', (size_t)(stop - p));
        size_t length = 0, status_length = 0;
        if (tag_end == NULL) return err_set(err, STATUS_FORMAT, "suite: a testcase without an end");
        const char *name = attribute(p, tag_end, " name=\"", &length);
        const char *status = attribute(p, tag_end, " status=\"", &status_length);
        struct suite_module *m = NULL;
        if (name == NULL || status == NULL)
            return err_set(err, STATUS_FORMAT, "suite: a testcase without name or status");
        RETURN_IF_ERROR(add(out, name, length, &m, err));
        m->ran = !(status_length == 6 && memcmp(status, "notrun", 6) == 0);
        m->failed_exit = !(status_length == 3 && memcmp(status, "run", 3) == 0);
        find_counts(tag_end, stop, m);
        p = next;
    }
    return out->n > 0 ? STATUS_OK : err_set(err, STATUS_FORMAT, "suite: ctest ran no test");
}

static struct suite_module *find(struct suite *s, const char *name) {
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->modules[i].name, name) == 0) return &s->modules[i];
    return NULL;
}

static enum status read_counts(const table *t, struct suite *s, struct err *err) {
    int module, tests;
    RETURN_IF_ERROR(table_need(t, "module", &module, err));
    RETURN_IF_ERROR(table_need(t, "tests", &tests, err));
    for (size_t r = 0; r < table_rows(t); r++) {
        int64_t count;
        size_t length;
        const char *name = table_cell(t, r, module, &length);
        RETURN_IF_ERROR(table_integer(t, r, tests, 1, 1 << 20, &count, err));
        struct suite_module *m = find(s, name);
        if (m == NULL) RETURN_IF_ERROR(add(s, name, length, &m, err));
        m->committed = (long)count;
    }
    return STATUS_OK;
}

enum status suite_commit_counts(const char *path, struct suite *s, struct err *err) {
    table *t = NULL;
    RETURN_IF_ERROR(table_read(path, &t, err));
    enum status status = read_counts(t, s, err);
    table_close(t);
    return status;
}

void suite_free(struct suite *s) {
    free(s->modules);
    s->modules = NULL;
    s->n = 0;
}
