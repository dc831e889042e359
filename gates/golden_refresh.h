/* golden_refresh.h - changing goldens: a plan that refuses what was not named, and a commit that is one rename.
 * Not a way to turn red green: a plan with a refusal cannot be committed, and no bound is ever touched.
 * Idea: new dumps are written and synced under their content hash first; nothing refers to them until the manifest is
 * renamed over the old one. Killed at any moment, the old or the new set is there, whole. Files that no line names are
 * orphans; the next commit that writes to their folder removes them.
 * Source: DESIGN of forkgate, section 7. Exercise: ctest -R unit.golden_refresh */
#ifndef FORKGATE_GOLDEN_REFRESH_H
#define FORKGATE_GOLDEN_REFRESH_H

#include "gates/golden.h"

enum refresh_state {
    REFRESH_SAME,    /* every record equal: the golden stays, whatever else its provenance says */
    REFRESH_CHANGED, /* differs, and every difference lies in the named set */
    REFRESH_NEW,     /* no golden had this key, and it is named, or no name is given at all */
    REFRESH_REFUSED /* differs outside the named set, or is new or differs as a whole and no name is of the whole */
};

struct refresh_item {
    enum refresh_state state;
    const dump *candidate;          /* borrowed */
    struct golden_entry entry;      /* described from the candidate */
    const struct golden_entry *old; /* in the set, or NULL */
    uint64_t n_differ, first, last; /* records that differ; first and last of them */
    uint64_t outside;  /* first record outside the named range that differs; 0: the whole; UINT64_MAX: none */
    char summary[400]; /* golden_explain against the old dump */
};

struct refresh_plan {
    struct refresh_item *items;
    size_t n, counts[4];    /* by state */
    struct golden_set *set; /* borrowed */
};

/* A name as given on the command line: "sm_90-f16/holmes", with * and ? as in file names, and an optional ":FIRST-LAST". */
struct refresh_name {
    char pattern[96];
    uint64_t first, last;
};
/* STATUS_USAGE when malformed. */
enum status refresh_name_parse(const char *text, struct refresh_name *out, struct err *err);

/* Compares n dumps with the set. A name that matches no dump is STATUS_USAGE. Old dumps that cannot be opened are an
 * error: damage is repaired in git, not by a refresh. */
enum status refresh_plan_make(struct golden_set *set, const dump *const *dumps, size_t n,
                              const struct refresh_name *names, size_t n_names, struct refresh_plan *out,
                              struct err *err);
void refresh_plan_free(struct refresh_plan *p);

/* Two productions of the same streams must be equal, record by record, before either may become a golden. STATUS_INVALID
 * names the first stream and record that differ. */
enum status refresh_check_repeat(const dump *const *first, const dump *const *second, size_t n,
                                 struct err *err);

/* May a refresh with this reason happen at all? STATUS_USAGE: CI=true in the environment, a missing or blank reason. */
enum status refresh_permitted(const char *reason, struct err *err);

/* Can this folder be written, and is no other refresh at work (STATUS_LIMIT)? STATUS_IO: it cannot be written, or its file
 * system has no locks. Asked before minutes of work; refresh_commit asks again. */
enum status refresh_can_write(const char *dir, struct err *err);

/* Writes the plan's new and changed dumps, then the manifest. STATUS_USAGE: an empty reason, a refused item, CI=true in the
 * environment, nothing to do; STATUS_LIMIT: another refresh holds the lock, or the manifest on disk is not the one the
 * plan was made from. On any error the old set is intact, but for a folder that cannot be synced (file_out_publish). */
enum status refresh_commit(const struct refresh_plan *p, const char *reason, struct err *err);

/* Called before every step of a commit that touches the disk (open, write, sync, rename, unlink), with its number from 1.
 * For tests, which end the process there. NULL: off. */
extern void (*refresh_step_hook)(int step);

#endif
