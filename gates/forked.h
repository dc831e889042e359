/* forked.h - streams that left their golden during a run, kept in a folder until its reports are written.
 * Not goldens, and not evidence: the rows say what failed; this lets a report show the texts and the gaps.
 * Idea: gates run in processes of their own, so what they keep are files: NAME.fgd and the path of its golden.
 * Source: ours. Exercise: ctest -R cli.run_reports */
#ifndef FORKGATE_FORKED_H
#define FORKGATE_FORKED_H

#include "gates/dump.h"

#define FORKED_PATH 4200

struct forked_stream {
    char name[128]; /* "stream.golden.f16 night.txt" */
    char golden[FORKED_PATH], candidate[FORKED_PATH];
    int n; /* streams in the folder */
};

/* Keeps `got` of this gate and prompt, beside the path of the golden it left. folder NULL: keeps nothing. */
enum status forked_keep(const char *folder, const char *gate, const char *prompt, const dump *golden,
                        const dump *got, struct err *err);

/* The stream to show: another token before other logits only, route f16 before q8 (where a moved ULP stays one), then the
 * earliest fork. out->n is 0 when the folder has none. */
enum status forked_first(const char *folder, struct forked_stream *out, struct err *err);

#endif
