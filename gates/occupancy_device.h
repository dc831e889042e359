/* occupancy_device.h - what the driver says about every kernel, and what was seen: each is launched once per geometry with
 * more blocks than the device holds, then asked about.
 * Not a formula (engine/occupancy.h). What is seen needs the instrumented build, forkgate-probe (engine/cuda/probe.cuh).
 * Source: CUDA occupancy API. Exercise: forkgate occupancy --device ; forkgate-probe occupancy --device */
#ifndef FORKGATE_OCCUPANCY_DEVICE_H
#define FORKGATE_OCCUPANCY_DEVICE_H

#include "engine/backend.h"
#include "engine/occupancy.h"

#define OCCUPANCY_SEEN_MAX 512

struct occupancy_seen {
    struct block_needs needs;
    int queried;  /* resident blocks */
    int measured; /* the most seen alive at once on one multiprocessor; 0: nothing was counted */
};

/* Distinct launches of all ops over both routes and every attention geometry. STATUS_UNSUPPORTED without a
 * device, STATUS_LIMIT beyond OCCUPANCY_SEEN_MAX. */
enum status occupancy_seen_on_device(struct occupancy_seen out[OCCUPANCY_SEEN_MAX], int *n, struct err *err);

#endif
