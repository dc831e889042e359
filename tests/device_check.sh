#!/usr/bin/env bash
# Runs the device programs of devbin/ (tests/build_device.sh) on a machine with a GPU and leaves their CSVs in $OUT.
# usage: OUT=DIR tests/device_check.sh [device_parity arguments]
# exit: 0 all agree, 1 a mismatch, 2 something could not be judged (2 only when nothing mismatched)
set -uo pipefail
cd "$(dirname "$0")/.."
out=${OUT:?set OUT to a folder for the CSVs}
mkdir -p "$out"
nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.max.sm,memory.total --format=csv >"$out/device.csv" 2>&1
worst=0
run() {
  local name=$1 start rc
  shift
  start=$(date +%s.%N)
  "$@" >"$out/$name.csv" 2>"$out/$name.log"
  rc=$?
  echo "$name: exit $rc, $(echo "$(date +%s.%N) - $start" | bc 2>/dev/null || echo '?') s, $(tail -n 1 "$out/$name.csv")"
  grep -E ',(FAIL|BLIND|ERROR)$' "$out/$name.csv" | grep -v '^summary' | head -n 20
  head -n 5 "$out/$name.log"
  if [ $rc -eq 1 ] || { [ $rc -ne 0 ] && [ $worst -eq 0 ]; }; then worst=$rc; fi
}
run device_tc devbin/device_tc
run device_parity devbin/device_parity "$@"
if [ "$worst" -gt 2 ]; then worst=2; fi
exit "$worst"
