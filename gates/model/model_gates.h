/* model_gates.h - the gates that run whole models; registry.c lists them.
 * Source: ours. Exercise: forkgate run --tier identity */
#ifndef FORKGATE_MODEL_GATES_H
#define FORKGATE_MODEL_GATES_H

#include "gates/gate.h"

#endif
