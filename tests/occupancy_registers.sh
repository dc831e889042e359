#!/usr/bin/env bash
# The registers that `forkgate occupancy` derives residency from are those of the compiled sm_90a code: the files with a
# row in its table are compiled again with `ptxas -v`, and every instance that the table names must agree.
# usage: occupancy_registers.sh FORKGATE NVCC SOURCE_DIR FLAGS...
set -uo pipefail
forkgate=$1 nvcc=$2 src=$3
shift 3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$forkgate" occupancy >"$work/table" || exit 2
for f in attention_prefill attention_hopper attention_decode matmul_f16 matmul_f16_hopper matmul_f16_decode matmul_q8_prefill; do
  "$nvcc" "$@" -std=c++17 -arch=sm_90a -I"$src" -cubin -Xptxas=-v -o /dev/null "$src/engine/ops/$f.cu" >>"$work/ptxas" 2>&1 ||
    { tail -n 5 "$work/ptxas"; exit 2; }
done
awk '
  # "Compiling entry function _Z17fa_prefill_kernelILi16ELi64E..": name and template arguments; "Used N registers"
  FNR == NR {
    if (match($0, /entry function .*_Z[0-9]+[a-z0-9_]*_kernel[A-Za-z0-9_]*/)) {
      s = substr($0, RSTART, RLENGTH); sub(/.*_Z[0-9]+/, "", s)
      name = s; sub(/_kernel.*/, "", name); sub(/^.*_kernel/, "", s)
      args = ""
      while (match(s, /L[a-z0-9]*i?[0-9]+E/)) {
        a = substr(s, RSTART, RLENGTH); gsub(/[^0-9 ]/, "", a); args = args " " a; s = substr(s, RSTART + RLENGTH)
      }
      key = name args
    } else if (match($0, /Used [0-9]+ registers/)) used[key] = substr($0, RSTART + 5, RLENGTH - 15)
    next
  }
  function value(k) { return match($0, k "=[0-9]+") ? substr($0, RSTART + length(k) + 1, RLENGTH - length(k) - 1) : "" }
  {
    kernel = $1; match($0, /[0-9]+ registers/); want = substr($0, RSTART, RLENGTH - 10)
    tkv = value("fa_tkv"); hd = value("head_dim"); rows = value("rows"); columns = value("columns"); key = ""
    if (kernel == "fa_prefill_f16kv") key = "fa_prefill " tkv " " hd
    if (kernel == "fa_prefill_wgmma") key = "fa_hopper " tkv " " hd " " value("fa_tq") / 64
    if (kernel == "fa_decode_f16kv") key = "fa_decode " tkv " " hd
    if (kernel == "gemm_f16") key = "gemm_f16 " rows
    if (kernel == "gemm_f16_wgmma") key = "gemm_hopper " columns
    if (kernel == "gemv_f16") key = "gemv_f16"
    if (kernel ~ /^mmq_/) key = "mmq " code[substr(kernel, 5)]
    if (!(key in used)) { print "no such code: " $0 " (" key ")"; bad++; next }
    if (used[key] + 0 != want + 0) { print kernel ": table " want ", compiled " used[key] ": " key; bad++ }
    n++
  }
  BEGIN { split("q4_0 2 q4_1 3 q5_0 6 q5_1 7 q8_0 8 q4_k 12 q5_k 13 q6_k 14", t, " "); for (i = 1; i < 17; i += 2) code[t[i]] = t[i + 1] }
  END { print n " instances compared, " bad + 0 " differ"; exit n < 40 || bad > 0 }
' "$work/ptxas" "$work/table"
