#!/usr/bin/env bash
# Whole streams on the emulated kernels: the same tokens and the same logits, bit for bit, as the CPU twins make.
# usage: streams.sh FORKGATE        (a build with -DFORKGATE_CUDA=EMULATED)
tests=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$tests/cli/expect.sh"
forkgate=$1
prompts=$tests/../fixtures/prompts

hashes() { sed -n 's/.*stream \([0-9a-f]*\), logits \([0-9a-f]*\).*/\1 \2/p' "$1"; }
same() { # prompt, tokens, options...
  local prompt=$1 n=$2 want
  shift 2
  expect 0 "$forkgate" generate -f "$prompts/$prompt.txt" -n "$n" "$@"
  want=$(hashes err)
  [ -n "$want" ] || fail "no hashes of $prompt"
  expect 0 "$forkgate" generate -f "$prompts/$prompt.txt" -n "$n" "$@" --backend cuda
  [ "$(hashes err)" = "$want" ] || fail "$prompt $*: cuda $(hashes err), cpu $want"
}
same night 6 --route f16
same night 6 --route q8
same night 6 --route q8 --no-graph --kv q8_0
same night 3 --route f16 --chunk 7 --geometry fa_tkv=16,fa_tq=128

# A15: a chip that the kernels were not built for is refused before anything is compared, with both named; so is one whose
# bits another model makes.
EMULATED_CC=12.0 expect 2 "$forkgate" generate -p x -n 1 --backend cuda
has err 'is of compute capability 12.0; the kernels and their accumulate models are for 8.0 and 9.0'
lines err 1
EMULATED_CC=8.0 expect 2 "$forkgate" generate -p x -n 1 --backend cuda
has err '--arch sm_90, but the device emulated (no GPU) is sm_80'
EMULATED_CC=12.0 expect 2 "$forkgate" run --backend cuda --only op.add
has out 'compute capability 12.0'

# Tier 1's own arms (cache tail, row alone) ran on the kernels, as the rows' kernels say: none on the twin.
expect 0 "$forkgate" run --backend cuda --only 'op.attention/rows=3 n_head=7' --csv rows.csv
for arm in tail-zero tail-inf tail-large row-alone; do
  grep -q ",$arm,fa_" rows.csv || fail "$arm did not run on a kernel"
done
lacks rows.csv ',attention_f16,'

# The negative arm: another tile moves the logits here too (a prompt of more than 16 tokens).
expect 0 "$forkgate" generate -f "$prompts/code.txt" -n 2 --backend cuda
first=$(hashes err)
expect 0 "$forkgate" generate -f "$prompts/code.txt" -n 2 --backend cuda --geometry fa_tkv=16
[ "$(hashes err)" != "$first" ] || fail "fa_tkv=16 moved nothing"
