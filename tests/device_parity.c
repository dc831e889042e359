/* device_parity.c - kernel = twin, exactly: every op of ops.h on both backends over tables of shapes.
 * Not a tolerance test and not Criterion: one program to ship to a machine with a GPU.
 * Idea: see parity_rig.h; shapes sit at tile-1, tile, tile+1 of the symbols in geometry.h and launch.h, at 1 and at primes.
 * Source: ours. Exercise: device_parity [--op NAME] [--quick] > parity.csv; exit 0 all equal, 1 not, 2 could not judge */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "parity_rig.h"

int main(int argc, char **argv) {
    struct rig r;
    memset(&r, 0, sizeof r);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0) {
            r.quick = 1;
        } else if (strcmp(argv[i], "--op") == 0 && i + 1 < argc) {
            r.only = argv[++i];
        } else {
            fprintf(stderr, "usage: device_parity [--op "
                            "embed|rmsnorm|..|attention|fused|scale|far|step|session] [--quick]\n");
            return 2;
        }
    }
    printf("op,dtype,shape,arm,mismatches,first,where,oracle,verdict\n");
    parity_rows(&r);
    parity_cache(&r);
    parity_matmul(&r);
    parity_attention(&r);
    parity_fused(&r);
    parity_scale(&r);
    parity_far(&r);
    parity_steps(&r);
    parity_session(&r);
    printf("summary,,%d cases,,%d,,,,%s\n", r.n_rows, r.n_bad,
           r.n_rows == 0 ? "ERROR"
           : r.n_bad     ? "FAIL"
                         : "PASS");
    if (r.n_rows == 0) return 2;
    return r.n_bad != 0;
}
