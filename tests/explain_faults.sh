#!/usr/bin/env bash
# Does `forkgate explain` name the planted op, and what kind of change it is? Every fault of fixtures/mutants.csv that a twin
# has and that changes values, against the sound build, on the first of several small set-ups where it moves a bit.
# A hit: the op is one that the catalogue names for the fault, and a fault of ULPs is called REGROUPING or NOT-REPEATABLE,
# any other neither REGROUPING nor ARITHMETIC nor SAMPLING.
# usage: explain_faults.sh FORKGATE FORKGATE_FAULTS SOURCE_DIR [ID...]
# ALL=1: on every set-up; CSV=FILE: writes the table too, as reports/explain_hits.csv; BACKEND=cuda: the faults of the kernels;
# SETUPS='..': only those
# prints a table; exit 0 when every fault that moved a bit was a hit, 1 when one was not, 2 when nothing ran
set -uo pipefail
forkgate=$1 faults=$2 src=$3 backend=${BACKEND:-cpu} all=${ALL:-}
shift 3
export LC_ALL=C.UTF-8 FORKGATE_ROOT=$src
unset FORKGATE_FAULT FORKGATE_FAULT_LOG
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
head -c 330 "$src/fixtures/prompts/boat-2k.txt" >"$work/short" # some 90 tokens: two chunks of 64 keys
head -c 1300 "$src/fixtures/prompts/boat-2k.txt" >"$work/long" # three steps of 128
models=$src/fixtures/models
"$forkgate" make-model --from "$models/seedling-f16.gguf" --quant q4_k_m "$work/mixed.gguf" >/dev/null || exit 2
"$forkgate" make-model --from "$models/seedling-f16.gguf" --quant q4_0 "$work/q4_0.gguf" >/dev/null || exit 2
"$forkgate" make-model --shape tiny "$work/tiny.gguf" >/dev/null || exit 2
"$forkgate" make-model --shape tiny --arch qwen3 "$work/qwen3.gguf" >/dev/null || exit 2

# NAME: the options of a set-up
options() {
  case $1 in
  chunked) echo "-m $models/seedling-q8_0.gguf --route f16 --chunk 40" ;;
  q8) echo "-m $models/seedling-q8_0.gguf --route q8" ;;
  f16) echo "-m $models/seedling-q8_0.gguf --route f16" ;;
  f32) echo "-m $models/seedling-q8_0.gguf --route f32" ;;
  long) echo "-m $models/seedling-q8_0.gguf --route f16 --chunk 128" ;;
  kv8) echo "-m $models/seedling-q8_0.gguf --route f16 --kv q8_0" ;;
  mixed) echo "-m $work/mixed.gguf --route q8" ;;
  q4_0) echo "-m $work/q4_0.gguf --route q8" ;;
  tiny) echo "-m $work/tiny.gguf --route q8" ;;
  qwen3) echo "-m $work/qwen3.gguf --route q8" ;;
  esac
}
setups=${SETUPS:-f16 q8 kv8 chunked mixed q4_0 tiny qwen3 f32 long} # f16 first: there a matrix product is the first to use the tensor-core model
prompt_of() { [ "$1" = long ] && echo "$work/long" || echo "$work/short"; }
for s in $setups; do
  # shellcheck disable=SC2046
  "$forkgate" generate -f "$(prompt_of "$s")" -n 3 --backend "$backend" --ignore-eos --geometry fa_chunk=64 $(options "$s") -o "$work/$s.fgd" >/dev/null 2>&1 ||
    { echo "no stream of set-up $s"; exit 2; }
done

# Why a fault that moved no bit could not: what a forced stream of one small model does not have.
reason() {
  case $1 in
  fa-unwritten-kv) echo 'needs garbage in cache rows that were never written' ;;
  mv-bound) echo 'needs rows of more than 512 blocks' ;;
  q-pad) echo 'needs rows that are no multiple of 16' ;;
  kv-slot) echo 'needs a batch' ;;
  sw-tail | add-tail) echo 'needs a step whose elements are no multiple of a block' ;;
  rt-tie) echo 'needs two equal largest logits' ;;
  rt-nan) echo 'needs a NaN among the logits' ;;
  rt-pad-vocab) echo 'needs a vocabulary with padded rows' ;;
  esac
}

# explain_one ID SETUP: leaves op, at, verdict and code
explain_one() {
  rm -f "$work/log"
  # shellcheck disable=SC2046
  timeout 300 "$forkgate" explain "$work/$2.fgd" -f "$(prompt_of "$2")" $(options "$2" | cut -d' ' -f1-2) --binary-b "$faults" \
    --env-b FORKGATE_FAULT="$1" --env-b FORKGATE_FAULT_LOG="$work/log" >"$work/out" 2>"$work/err"
  code=$?
  verdict=$(sed -n 's/^verdict *//p' "$work/out")
  op=$(sed -nE 's/^where .*: (layer [0-9]+ )?([a-z0-9_]+), tensor ([a-z0-9_.]+).*/\2/p' "$work/out")
  at=$(sed -nE 's/^where .*: (layer [0-9]+ )?([a-z0-9_]+, tensor [a-z0-9_.]+).*/\1\2/p' "$work/out")
}

# judge SIZE OPS: leaves result, of op and verdict
judge() {
  local ulps=0
  case $verdict in REGROUPING) ulps=1 ;; NOT-REPEATABLE) ulps=$([ "$1" = ulp ] && echo 1 || echo 0) ;; esac
  result=hit
  [ "$ulps" = "$([ "$1" = ulp ] && echo 1 || echo 0)" ] || result='MISS: the conclusion'
  case $verdict in ARITHMETIC | SAMPLING | NOT-REPRODUCED) result='MISS: the conclusion' ;; esac
  [[ " $2 " == *" $op "* ]] || result='MISS: the op'
}

named=0 missed=0 quiet=0
commit=$("$forkgate" --version | sed -nE 's/^forkgate.*\(([0-9a-f]{12}).*/\1/p' | head -1)
show() { # RESULT: one row
  printf '%-16s %-7s %-16s %-34s %-15s %s\n' "$id" "$s" "$ops_planted" "$at" "$verdict" "$1"
  [ -z "${CSV:-}" ] || echo "$(date -u +%F),$backend,$commit,${all:+ALL=1 }${SETUPS:+SETUPS='$SETUPS' }tests/explain_faults.sh,$id,$s,$ops_planted,$op,\"$at\",$verdict,\"$1\"" >>"$CSV"
}
[ -z "${CSV:-}" ] || echo 'date,backend,commit,command,fault,setup,planted_op,named_op,named,verdict,result' >"$CSV"
printf '%-16s %-7s %-16s %-34s %-15s %s\n' fault set-up planted 'named first' verdict result
while IFS=, read -r id where ops_planted legal _ size _; do
  [ "$id" != id ] && [ "$legal" = 0 ] && [ "$where" != "$([ "$backend" = cpu ] && echo kernel || echo twin)" ] || continue
  case $ops_planted in session | sampler) continue ;; esac # no op of a forced run
  [ $# -eq 0 ] || [[ " $* " == *" $id "* ]] || continue
  idle='not reached' moved=0
  for s in $setups; do
    explain_one "$id" "$s"
    [ -s "$work/log" ] && [ "$idle" = 'not reached' ] && idle='reached, no bit moved'
    [ "$code" -ge 2 ] && idle="trouble: exit $code $(tail -n 1 "$work/err" | head -c 60)"
    [ "$code" -eq 1 ] || continue
    moved=1
    judge "$size" "$ops_planted"
    show "$result"
    [ "$result" = hit ] && named=$((named + 1)) || missed=$((missed + 1))
    [ -n "$all" ] || break
  done
  [ "$moved" -eq 0 ] || continue
  quiet=$((quiet + 1)) s=- at=- op=- verdict=-
  why=$(reason "$id")
  show "$idle${why:+: $why}"
done <"$src/fixtures/mutants.csv"
echo "explain: $named named, $missed missed, $quiet faults without a moved bit"
[ "$missed" -eq 0 ] || exit 1
[ "$named" -gt 0 ] || exit 2
