/* golden_print.h - what `forkgate golden` shows. Source: ours. Exercise: forkgate golden list */
#ifndef FORKGATE_GOLDEN_PRINT_H
#define FORKGATE_GOLDEN_PRINT_H

#include "gates/golden_refresh.h"

void golden_print_list(const struct golden_set *s);
void golden_print_entry(const struct golden_entry *e, const dump *d);
/* States, changed and new streams, refusals; the last line stands alone. */
void golden_print_plan(const struct refresh_plan *p);
/* One line of warning where this build has local changes; nothing where it has none. */
void golden_print_modified(void);

#endif
