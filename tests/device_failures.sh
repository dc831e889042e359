#!/usr/bin/env bash
# Everything on the device that can be refused is refused once: every kernel's launch and shared-memory attribute on routes
# f16 and q8, and the first, second, .. allocation (page-locked ones too), copy or fill, and other call of the runtime
# (graphs, events, waits, queries; every name at its first and last) until nothing fails any more. Each time the program
# must end with exit 2, one line on stderr, and no output file; an emulated device adds a line for what was not given back.
# The names and counts are the program's own (FORKGATE_FAULT_CALLS).
# usage: [OUT=DIR] [BACKEND=cuda] [JOBS=16] [POINTS=N] tests/device_failures.sh [FORKGATE_FAULTS]   (devbin/forkgate-faults)
#        POINTS: at most so many of each counted kind a route, evenly spread (default 80; 0: all of them)
# exit: 0 all clean, 1 one was not, 2 nothing could be judged
set -uo pipefail
faults=$(realpath -e "${1:-$(dirname "$0")/../devbin/forkgate-faults}") || exit 2
cd "$(dirname "$0")/.." || exit 2
export FORKGATE_ROOT=$PWD LC_ALL=C.UTF-8 faults BACKEND=${BACKEND:-cuda} prompt=$PWD/fixtures/prompts/watson.txt
jobs=${JOBS:-16} points=${POINTS:-80} work=$(mktemp -d)
export work
trap 'rm -rf "$work"' EXIT

# one ROUTE WHAT: WHAT is a failure ("launch:embed", "alloc:7"), or "none:" (must succeed); prints a CSV row
one() {
  local route=$1 what=$2 id out rc lines left=0 verdict=FAIL
  id=$route-${what//[:]/-}
  out=$work/$id.fgd
  env ${what:+FORKGATE_FAULT="fail:$what"} timeout 60 "$faults" generate --backend "$BACKEND" --threads 1 --route "$route" -f "$prompt" \
    -n 4 -o "$out" >/dev/null 2>"$work/$id.err"
  rc=$?
  lines=$(wc -l <"$work/$id.err")
  [ -e "$out" ] && left=1
  [ $rc -eq 2 ] && [ "$lines" -eq 1 ] && [ $left -eq 0 ] && verdict=PASS
  printf '%s,%s,%d,%d,%d,%s,"%s"\n' "$route" "$what" $rc "$lines" $left $verdict "$(head -n 1 "$work/$id.err" | tr -d '"\r')"
}
export -f one

# names ROUTE: a run without a failure; its calls
names() { FORKGATE_FAULT_CALLS=$work/$1.calls "$faults" generate --backend "$BACKEND" --threads 1 --route "$1" -f "$prompt" -n 4 >/dev/null 2>"$work/$1.plain"; }
# spread KIND COUNT: 1 .. COUNT, or `points` of them with the first and the last
spread() {
  awk -v kind="$1" -v n="$2" -v most="$points" 'BEGIN {
    step = most > 1 && n > most ? (n - 1) / (most - 1) : 1
    for (x = 1; x < n + 0.5; x += step) print kind ":" int(x + 0.5) }' | uniq
}
# ends ROUTE: each name's first and last place among the calls that are counted together
ends() {
  grep '^call:' "$work/$1.calls" | awk '{ if (!($0 in first)) first[$0] = NR; last[$0] = NR }
    END { for (n in first) { print "call:" first[n]; print "call:" last[n] } }'
}
for route in f16 q8; do
  names $route || { echo "device_failures: without a failure: $(head -n 1 "$work/$route.plain")"; exit 2; }
  grep -E '^(launch|attr):' "$work/$route.calls" | sort -u | sed "s/^/$route /"
  for kind in alloc copy call; do
    spread $kind "$(grep -c "^$kind:" "$work/$route.calls")"
  done >"$work/counted"
  ends $route >>"$work/counted"
  sort -u "$work/counted" | sed "s/^/$route /"
done >"$work/list"
[ -s "$work/list" ] || { echo "device_failures: nothing to refuse"; exit 2; }

csv=${OUT:-$work}/device_failures.csv
{
  echo route,failure,exit,stderr_lines,output_left,verdict,message
  # shellcheck disable=SC2016 # expanded by the child
  xargs -P "$jobs" -L 1 bash -c 'one "$1" "$2"' _ <"$work/list" | sort -t, -k1,1 -k2,2V
} >"$csv"

printf '%-6s %-8s %8s %8s\n' route what refused clean
for route in f16 q8; do
  for kind in launch attr alloc copy call; do
    awk -F, -v r=$route -v k=$kind: '$1 == r && index($2, k) == 1 { n++; ok += $6 == "PASS" }
      END { if (n) printf "%-6s %-8s %8d %8d\n", r, k, n, ok }' "$csv"
  done
done
grep ',FAIL,' "$csv"
ran=$(grep -c '^[fq]' "$csv") bad=$(grep -c ',FAIL,' "$csv")
echo "device_failures: $((ran - bad)) clean, $bad not, of $(wc -l <"$work/list") refusals"
[ "$ran" -eq "$(wc -l <"$work/list")" ] || exit 2
[ "$bad" -eq 0 ]
