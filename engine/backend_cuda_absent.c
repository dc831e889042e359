/* backend_cuda_absent.c - the CUDA entry points of a build without nvcc: each says why it cannot. */
#include <string.h>

#include "backend.h"

enum status backend_cuda_open(const struct backend_config *config, struct backend **out, struct err *err) {
    (void)config;
    *out = NULL;
    return err_set(err, STATUS_UNSUPPORTED,
                   "backend cuda: this forkgate was built without CUDA (no nvcc at configure time)");
}

enum status backend_cuda_device(struct device_info *out, struct err *err) {
    memset(out, 0, sizeof *out);
    return err_set(err, STATUS_UNSUPPORTED, "no CUDA device: this forkgate was built without CUDA");
}
