#!/usr/bin/env bash
# Builds what a machine with a GPU needs into devbin/ (ignored by git): device_tc, device_parity, forkgate and its builds with
# planted faults and with counters in the kernels, for sm_90a only, stripped, linked statically except libc and libxxhash
# (its static library lacks the dispatch functions), which goes beside them. devbin/pack/devbin.tgz holds them all, in a
# third of the room; device_evidence.sh unpacks it. Needs nvcc, no GPU.
# usage: tests/build_device.sh [BUILD_DIR] [TARGET...]     default: build-device, all of them
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build-device}
shift || true
targets=("$@")
xxhash=$(pkg-config --variable=libdir libxxhash)/libxxhash.so
mkdir -p devbin
all=(forkgate device_parity device_tc forkgate-probe forkgate-faults)
[ ${#targets[@]} -gt 0 ] || targets=("${all[@]}")
cmake -S . -B "$build" -G Ninja -DFORKGATE_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=90a-real \
  -Dpkgcfg_lib_XXHASH_xxhash="$xxhash" -DCMAKE_PROJECT_INCLUDE="$PWD/tests/device_static.cmake" >"$build.log" ||
  { tail -20 "$build.log"; exit 2; }
rm -f "$build.log"
missing=0
for t in "${targets[@]}"; do
  if cmake --build "$build" -j "${JOBS:-2}" --target "$t" >"$build/$t.log" 2>&1; then
    strip -o "devbin/$t" "$build/$t"
  else
    grep -E 'error|undefined|FAILED' "$build/$t.log" | head -5
    echo "build_device: $t was not built (see $build/$t.log)"
    missing=1
  fi
done
cp "$(readlink -f "$xxhash")" "devbin/$(basename "$(readlink "$xxhash")" | sed 's/\(so\.[0-9]*\).*/\1/')"
mkdir -p devbin/pack
(cd devbin && shopt -s nullglob && packed=(libxxhash.so.*) &&
  for t in "${all[@]}"; do [ ! -e "$t" ] || packed+=("$t"); done && tar czf pack/devbin.tgz "${packed[@]}")
ls -l devbin devbin/pack
exit $missing
