#!/usr/bin/env bash
# Explain at the size of a 7B model on a device: fa_tkv 32 -> 16 over a prompt of 1 to 2 thousand tokens and a few decode
# steps, random weights. It must name the attention of layer 0 and call it a regrouping, in less than the limit, and copy
# less than a hundredth of what it screens.
# usage: device_explain.sh FORKGATE [SHAPE [LIMIT_S]]     (qwen2.5-7b, 40)      MODEL=FILE, PROMPT=FILE: others
# needs 5 GB in TMPDIR. exit: 0 as it must be, 1 not, 2 could not be judged
set -uo pipefail
forkgate=$1 shape=${2:-qwen2.5-7b} limit=${3:-40}
here=$(cd "$(dirname "$0")/.." && pwd)
export FORKGATE_ROOT=$here LC_ALL=C.UTF-8
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prompt=${PROMPT:-$here/fixtures/prompts/whale-512.txt}
since() { awk -v a="$1" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }'; }
model=${MODEL:-$work/model.gguf}
start=$EPOCHREALTIME
[ -s "$model" ] || "$forkgate" make-model --shape "$shape" --quant q4_k_m --seed 7 "$model" >/dev/null || exit 2
echo "model     $shape q4_k_m, $(stat -L -c %s "$model") bytes, made in $(since "$start") s"
start=$EPOCHREALTIME
"$forkgate" generate -m "$model" --backend cuda --route f16 -f "$prompt" -n 8 --ignore-eos -o "$work/a.fgd" >/dev/null 2>&1 || exit 2
echo "generate  8 tokens in $(since "$start") s"

# peak resident memory of a child: pages of the mapped model count, so the part that is the watcher's own is in the report
start=$EPOCHREALTIME
explain=("$forkgate" explain "$work/a.fgd" -m "$model" --geometry fa_tkv=16 -f "$prompt" --csv "$work/growth.csv")
if command -v python3 >/dev/null; then
  python3 -c 'import resource, subprocess, sys
code = subprocess.call(sys.argv[1:])
print("peak      %.2f GiB resident, the mapped model included"
      % (resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20), file=sys.stderr)
sys.exit(code)' "${explain[@]}" >"$work/out" 2>"$work/err"
else "${explain[@]}" >"$work/out" 2>"$work/err"; fi
code=$?
seconds=$(since "$start")
grep '^peak' "$work/err"
sed -n '/^---/,/^growth/p; /^verdict/,$p' "$work/out"
echo "explain   exit $code in $seconds s (limit $limit), $(wc -l <"$work/growth.csv") rows of growth"
[ $code -eq 1 ] || { tail -n 5 "$work/err"; exit 2; }
bad=0
grep -q '^where .*layer 0 attention, tensor attn' "$work/out" || { echo 'another op was named'; bad=1; }
grep -q '^verdict     REGROUPING' "$work/out" || { echo 'another verdict'; bad=1; }
awk -v s="$seconds" -v l="$limit" 'BEGIN { exit !(s < l) }' || { echo 'too slow'; bad=1; }
bytes() { sed -nE "s/^screened +([0-9.e+]+) ([KMGT]?i?B) of tensors.*copied out: ([0-9.e+]+) ([KMGT]?i?B),.*/\\$1 \\$2/p" "$work/out" |
  awk '{ u["B"] = 1; u["KiB"] = 1024; u["MiB"] = 1024^2; u["GiB"] = 1024^3; u["TiB"] = 1024^4; printf "%.0f", $1 * u[$2] }'; }
awk -v a="$(bytes 1 2)" -v b="$(bytes 3 4)" 'BEGIN { printf "copied    %.4f of what was screened\n", b / a; exit !(b * 100 < a) }' || bad=1
exit $bad
