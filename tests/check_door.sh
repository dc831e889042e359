#!/usr/bin/env bash
# Every call of the CUDA runtime in engine/ goes through the door (engine/cuda/check.h): it stands in CUDA_TRY or CUDA_CALL,
# in check.c itself, or is one of the exceptions that check.h names.
# usage: check_door.sh SOURCE_DIR
set -uo pipefail
cd "$1" || exit 2
bad=$(grep -rnE '\bcu(da)?[A-Z][A-Za-z0-9]*\(' engine --include='*.c' --include='*.cu' --include='*.cuh' --include='*.h' |
  grep -vE '^engine/cuda/(check\.[ch]|fault\.cuh|probe\.cuh?):' |                                # the door; not in a product build
  grep -vE ':[0-9]+:(/\*| \*)' |                                                                  # comments
  grep -vE 'cudaGetLastError\(\)|cudaGetErrorString\(' |                                          # no call to the device
  grep -vE '\(void\)cuda(Event|Stream|Graph|GraphExec)Destroy\(' |                                # gives back
  grep -vE 'CUDA_(TRY|CALL)\(' |
  grep -vE '^engine/cuda/(graph\.c|measure\.cu):.*cudaStreamEndCapture\(' |                       # a capture must end, refused or not
  grep -vE '^engine/cuda/graph\.c:.*cudaStreamSynchronize\(c->stream\); /\* on the way to a free' | # every result was fetched
  grep -vE 'CUDA_DATA_TYPE|cuda_|CU_|cuint')
[ -z "$bad" ] || { echo "$bad" | sed 's/^/door: around it: /'; exit 1; }
[ "$(grep -rcE 'CUDA_(TRY|CALL)\(' engine/backend_cuda.cu | cut -d: -f1)" -ge 8 ] || { echo "door: nothing was looked at"; exit 2; }
echo "door: every call of the runtime goes through check.h"
