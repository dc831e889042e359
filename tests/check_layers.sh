#!/usr/bin/env bash
# The arrows and the size caps of the tree, checked: who may include whom, how long a file may be, which words the engine
# may not know, no digits inside a launch, an op is one stem in its places.
# usage: check_layers.sh SOURCE_DIR
set -uo pipefail
cd "$1" || exit 2
bad=0
say() { echo "layers: $*"; bad=$((bad + 1)); }

includes() { grep -hoE '^#include "[^"]+"' "$@" 2>/dev/null | sed 's/#include "\(.*\)"/\1/'; }

# engine includes nothing of gates, tools or tests, and does not know their words.
while read -r line; do say "engine reaches up: $line"; done < <(grep -rnE '#include "(gates|tools|tests)/' engine || true)
while read -r line; do say "engine knows a gate's word: $line"; done < <(
  grep -rniE '\b(golden|fixture|verdict|evidence)s?\b' engine --include='*.c' --include='*.cu' | grep -vE '^\S+\s*(/?\*|//)' || true)

# forward.c is written once: no backend name in it.
while read -r line; do say "forward.c names a backend: $line"; done < <(grep -nE '_cpu|_cuda|cuda|twin' engine/forward.c || true)

# gates: of the engine only the public boundary, the contract and base headers (vocab: import resolves the ids of another
# engine's tokens from a tokenizer file, which is not an engine).
allowed_engine='engine/(engine|ops|backend|dtype|status|rng|trace|sampler|geometry|gguf|vocab|tcmodel|fmath|fmath64|fault|make_model|occupancy|checksum)\.h'
while read -r line; do say "gates include engine internals: $line"; done < <(
  grep -rnE '#include "engine/' gates | grep -vE "$allowed_engine" || true)
while read -r line; do say "gates reach up: $line"; done < <(grep -rnE '#include "(tools|tests)/' gates || true)
while read -r line; do say "the oracle shares code with its subject: $line"; done < <(
  grep -rnE '#include "engine/(tcmodel|fmath|fmath64|ops/)' gates/oracle/oracle_*.c || true)
while read -r line; do say "tools reach into tests: $line"; done < <(grep -rnE '#include "tests/' tools || true)

# Sizes: .c 400, .cu 300, .h 200 lines (ops.h is the manual).
while read -r n f; do
  case $f in
  total | engine/ops.h) continue ;;
  *.c) cap=400 ;;
  *.cu | *.cuh) cap=300 ;;
  *.h) cap=200 ;;
  *) continue ;;
  esac
  [ "$n" -le $cap ] || say "$f has $n lines (cap $cap)"
done < <(git ls-files engine gates tools | grep -E '\.(c|cu|cuh|h)$' | xargs wc -l)

# Unique file names across the tree.
while read -r name; do say "file name used twice: $name"; done < <(
  git ls-files engine gates tools tests | grep -E '\.(c|h|cuh)$' | sed 's|.*/||' | sort | uniq -d)

# Launch geometry is symbolic: no literal inside <<< >>>.
while read -r line; do say "literal in a launch: $line"; done < <(grep -rnE '<<<[^>]*[^A-Za-z_0-9][0-9]{2,}' engine --include='*.cu' --include='*.cuh' || true)

# Fast-math, float atomics, sleeping tests.
while read -r line; do say "float atomic: $line"; done < <(grep -rnE 'atomicAdd\(\s*\(?(float|double)' engine || true)

# Includes resolve inside the tree (no header is reached through a relative path that leaves its folder twice).
while read -r line; do say "include leaves its folder twice: $line"; done < <(grep -rnE '#include "\.\./\.\./' engine gates tools || true)

if [ $bad -gt 0 ]; then
  echo "layers: $bad findings"
  exit 1
fi
echo "layers: arrows, sizes and words hold"
