#!/usr/bin/env bash
# Same bits: one factor at a time around the default build (gcc -O2, SIMD auto), the logits hash of every stream must not
# move. Short prompts x 32 tokens in every build; the 1K and 2K prompts in the default build only.
# usage: bit_matrix.sh SOURCE_DIR WORK_DIR        (WORK_DIR/gcc must hold the default build)
set -euo pipefail
root=$1
work=$2
default=$work/gcc/forkgate
short=(single night watson chapter holmes code utf8)
long=(pepys-1k boat-2k)
checked=0
failed=0

# Prints "stream logits" of one run.
hashes() { # binary, route, prompt, n, options...
  local binary=$1 route=$2 prompt=$3 n=$4
  shift 4
  "$binary" generate -f "$root/fixtures/prompts/$prompt.txt" -n "$n" --route "$route" "$@" 2>&1 >/dev/null |
    sed -n 's/.*stream \([0-9a-f]*\), logits \([0-9a-f]*\).*/\1 \2/p'
}

declare -A want
compare() { # label, route, prompt, got
  checked=$((checked + 1))
  if [ -z "$4" ] || [ "$4" != "${want[$2/$3]}" ]; then
    failed=$((failed + 1))
    echo "DIFFERENT $1 $2 $3: got '$4', default build has '${want[$2/$3]}'"
  fi
}
short_battery() { # label, binary, options...
  local label=$1 binary=$2 route p before=$failed start=$SECONDS
  shift 2
  for route in f16 q8; do
    for p in "${short[@]}"; do compare "$label" "$route" "$p" "$(hashes "$binary" "$route" "$p" 32 "$@")"; done
  done
  printf '%-28s %2d streams  %s  %d s\n' "$label" $((2 * ${#short[@]})) "$([ "$failed" = "$before" ] && echo same || echo DIFFERENT)" $((SECONDS - start))
}
long_battery() { # label, n, options...
  local label=$1 n=$2 route p before=$failed start=$SECONDS
  shift 2
  for route in f16 q8; do
    for p in "${long[@]}"; do compare "$label" "$route" "$p" "$(hashes "$default" "$route" "$p" "$n" "$@")"; done
  done
  printf '%-28s %2d streams  %s  %d s\n' "$label" $((2 * ${#long[@]})) "$([ "$failed" = "$before" ] && echo same || echo DIFFERENT)" $((SECONDS - start))
}
variant() { # name, compiler, level
  CC=$2 cmake -S "$root" -B "$work/$1" -G Ninja -DFORKGATE_CUDA=OFF -DFORKGATE_WERROR=OFF "-DCMAKE_C_FLAGS_RELEASE=$3" >/dev/null
  cmake --build "$work/$1" --target forkgate -j "$(nproc)" >/dev/null
}

for route in f16 q8; do
  for p in "${short[@]}"; do want[$route/$p]=$(hashes "$default" "$route" "$p" 32); done
  for p in "${long[@]}"; do want[$route/$p]=$(hashes "$default" "$route" "$p" 8); done
done
short_battery "fresh process" "$default"
for t in 1 2 4; do short_battery "threads $t" "$default" --threads $t; done
short_battery "simd scalar" "$default" --simd scalar
for c in 1 7 64; do short_battery "chunk $c" "$default" --chunk $c; done
short_battery "fa_tq 128" "$default" --geometry fa_tq=128
short_battery "fa_splits 1" "$default" --geometry fa_splits=1
short_battery "dump on disk" "$default" -o "$work/bits.fgd"
variant gcc-O0 gcc -O0
variant gcc-O3 gcc -O3
variant clang-O2 clang -O2
for b in gcc-O0 gcc-O3 clang-O2; do short_battery "build $b" "$work/$b/forkgate"; done
for c in 7 64 4096; do long_battery "1K and 2K, chunk $c" 8 --chunk $c; done
long_battery "1K and 2K, threads 1" 8 --threads 1
long_battery "1K and 2K, fa_tq 128" 8 --geometry fa_tq=128,fa_splits=1

# The matrix can fail: a geometry that does carry bits must move at least one hash.
moved=0
for p in "${short[@]}"; do [ "$(hashes "$default" f16 "$p" 32 --geometry fa_tkv=16)" = "${want[f16/$p]}" ] || moved=$((moved + 1)); done
echo "negative arm: fa_tkv=16 moved $moved of ${#short[@]} streams"
if [ "$moved" = 0 ]; then
  echo "bit matrix: BLIND, a changed KV tile went unnoticed"
  exit 1
fi
echo "bit matrix: $((checked - failed)) passed, $failed failed"
[ "$failed" = 0 ]
