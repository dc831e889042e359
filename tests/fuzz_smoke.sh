#!/usr/bin/env bash
# A short run of every fuzz target: RUNS inputs each, from the committed seeds; any finding is an exit 1 with its file.
# The long run is the same command with RUNS=1000000 (a minute or two a target on a quiet core).
# usage: [RUNS=20000] fuzz_smoke.sh SOURCE_DIR BUILD_DIR
set -euo pipefail
root=$(cd "$1" && pwd)
build=$(cd "$2" && pwd)
runs=${RUNS:-20000}
corpus=$(mktemp -d)
trap 'rm -rf "$corpus"' EXIT
passed=0
for target in gguf dump csv import vocab vocab_open; do
  mkdir -p "$corpus/$target"
  if [ -d "$root/fixtures/fuzz/$target" ]; then cp -r "$root/fixtures/fuzz/$target/." "$corpus/$target/"; fi
  case $target in vocab) limit=256 ;; dump) limit=4096 ;; *) limit=2048 ;; esac
  start=$SECONDS
  if ! (cd "$corpus" && timeout $((600 + runs / 250)) "$build/fuzz_$target" -runs="$runs" -max_len=$limit -seed=1 -rss_limit_mb=2048 -timeout=20 \
    "$target" >"$corpus/$target.log" 2>&1); then
    tail -n 30 "$corpus/$target.log"
    cp "$corpus"/crash-* "$corpus"/oom-* "$corpus"/timeout-* "$build" 2>/dev/null || true
    echo "fuzz $target: a finding (input kept in the build folder)"
    exit 1
  fi
  echo "fuzz $target: $runs inputs clean, $((SECONDS - start)) s"
  passed=$((passed + 1))
done
echo "fuzz: $passed passed, 0 failed"
