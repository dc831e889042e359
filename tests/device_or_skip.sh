#!/usr/bin/env bash
# Runs a device program where there is a GPU; elsewhere says why not and exits 77 (ctest SKIP, never a pass).
# usage: device_or_skip.sh FORKGATE PROGRAM [ARGUMENTS...]
forkgate=$1
shift
reason=$("$forkgate" --version | sed -n 's/^cuda: none (\(.*\))$/\1/p')
if [ -n "$reason" ]; then
  echo "SKIP: $reason"
  exit 77
fi
exec "$@"
