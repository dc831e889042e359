#!/usr/bin/env bash
# Everything that is claimed of a GPU, made again on one: needs devbin/ (tests/build_device.sh) and a device, no compiler.
# Parts that time nothing run side by side in two waves, then those that do, one after the other; a part that fails or
# outlives its limit never stops another. A table last; logs, raw CSVs and reports/*.csv rows go into $OUT/evidence.tgz.
# usage: OUT=DIR tests/device_evidence.sh [PART...]      DEADLINE=S (270), BIN=DIR (devbin), BACKEND=cuda|cpu (cpu, with
# SHAPE and TOKENS small: does the script hold?)
# parts: sanitizers parity | tc goldens run battery fresh occupancy trace stream7b | failures mutants both under tolerance |
# kernels bench7b ab leak explain run7b | mutants_cpu (named only: the whole matrix of the CPU, no device; ten minutes of 16 cores)
# exit: 0 every part came out as it must, 1 one did not, 2 a part was cut off or had nothing to judge
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
export OUT=${OUT:?set OUT to a folder for what comes back} BACKEND=${BACKEND:-cuda}
BIN=$(realpath -e "${BIN:-devbin}") || exit 2
[ -x "$BIN/forkgate" ] || tar xzf "$BIN/pack/devbin.tgz" -C "$BIN" || exit 2
export FORKGATE_ROOT=$PWD LC_ALL=C.UTF-8 LD_LIBRARY_PATH=$BIN${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export BIN F=$BIN/forkgate WORK MODEL TOKENS=${TOKENS:-3325} DEADLINE=${DEADLINE:-270}
WORK=$(mktemp -d)
MODEL=$WORK/7b.gguf
trap 'rm -rf "$WORK"' EXIT
mkdir -p "$OUT" "$WORK/rows" "$WORK/log" "$WORK/raw" "$WORK/reports"
long=(sanitizers parity)                                      # beside both of the next
first=(tc goldens run battery fresh occupancy trace stream7b) # at once
second=(failures mutants both under tolerance)                # hundreds of short processes
alone=(kernels bench7b ab leak explain run7b)                 # one after the other: these time something
usual=("${long[@]}" "${first[@]}" "${second[@]}" "${alone[@]}")
all=("${usual[@]}" mutants_cpu)
wanted=("$@")
[ $# -gt 0 ] || wanted=("${usual[@]}")

# result TEXT: what the table shows of this part. row NAME CELL...: one row of reports/NAME.csv (the first: its header).
result() { echo "$*" >"$WORK/log/$PART.result"; }
row() { local n=$1; shift; (IFS=$'\t'; echo "$*") >>"$WORK/rows/$n.tsv"; }
since() { awk -v a="$1" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }'; }
# tries LOG COMMAND...: its exit, its output in LOG; 0 and 1 are answers
tries() { local log=$1; shift; "$@" >"$log" 2>&1; local rc=$?; [ $rc -le 1 ] || { tail -n 3 "$log"; }; return $rc; }
has_model() { for ((i = 0; i < 600; i++)); do [ -e "$MODEL" ] && return 0; [ -e "$WORK/log/model.failed" ] && return 1; sleep 0.2; done; return 1; }

part_tc() {
  $BIN/device_tc >"$WORK/rows/device_tc.csv"; local rc=$?
  result "$(tail -n 1 "$WORK/rows/device_tc.csv")"
  return $rc
}
part_parity() { # three processes: the twins of one do not wait for the copies of another
  local ops=(scale far rest) pids=() rc=0 worst=0
  for op in "${ops[@]}"; do
    if [ "$op" = rest ]; then
      (for o in embed rmsnorm act_prepare swiglu add top2 row_sums rope kv_append matmul attention fused step session; do
        $BIN/device_parity --op $o || exit $?
      done) >"$WORK/raw/parity-$op.csv" &
    else $BIN/device_parity --op "$op" >"$WORK/raw/parity-$op.csv" & fi
    pids+=($!)
  done
  for p in "${pids[@]}"; do wait "$p"; rc=$?; [ $rc -le $worst ] || worst=$rc; done
  result "$(grep -hv '^summary' "$WORK"/raw/parity-*.csv | grep -c ',PASS$') pass, $(grep -hv '^summary' "$WORK"/raw/parity-*.csv | grep -c ',FAIL$') fail"
  grep -h ',FAIL$' "$WORK"/raw/parity-*.csv | head -n 20
  return $worst
}
part_goldens() {
  local worst=0 rc start o
  row device_golden run exit result seconds
  for o in "" "--no-graph" "--chunk 7" "--geometry fa_tq=128" "--geometry fa_splits=1" "--geometry fa_splits=64"; do
    start=$EPOCHREALTIME
    # shellcheck disable=SC2086 # options are words
    tries "$WORK/log/golden.txt" $F golden verify --regenerate --backend "$BACKEND" $o; rc=$?
    row device_golden "golden verify --regenerate --backend $BACKEND $o" $rc "$(tail -n 1 "$WORK/log/golden.txt")" "$(since "$start")"
    [ $rc -le $worst ] || worst=$rc
  done
  result "$(grep -cE '20 same[,;] 0 changed' "$WORK/rows/device_golden.tsv") of 6 runs: 20 same"
  return $worst
}
part_run() { # fa_tkv=16 must be red in identity and green in parity; the others green
  local g rc text="" bad=0 gates=(run --backend "$BACKEND" --tier "parity,identity" --keep-going)
  declare -A pid
  for g in default fa_tkv=16 fa_tq=128; do
    # shellcheck disable=SC2046 # two words, or none
    tries "$WORK/log/run-$g.txt" $F "${gates[@]}" --csv "$WORK/raw/run-$g.csv" $([ "$g" = default ] || echo --geometry "$g") &
    pid[$g]=$!
  done
  for g in default fa_tkv=16 fa_tq=128; do
    wait "${pid[$g]}"; rc=$?
    text+="$g: exit $rc; "
    [ "$rc" -eq "$([ "$g" = fa_tkv=16 ] && echo 1 || echo 0)" ] || bad=1
    grep -E '^ *(FAIL|ERROR|BLIND)|^forkgate:' "$WORK/log/run-$g.txt" | head -n 12
  done
  grep -q '^ *FAIL *op\.' "$WORK/log/run-fa_tkv=16.txt" && bad=1 && text+="fa_tkv=16 fails parity; "
  result "$text"
  return $bad
}
part_battery() {
  local g rc bad=0 text=""
  row device_battery comparison result
  for g in fa_tkv=32 fa_tkv=16 fa_tq=128; do
    $F generate --backend "$BACKEND" --battery fixtures/battery.csv -n 256 --geometry $g -o "$WORK/battery-$g" >/dev/null || bad=1
    local base=golden/battery/fa_tkv32
    [ $g = fa_tkv=16 ] && base=golden/battery/fa_tkv16
    tries "$WORK/log/battery-$g.txt" $F diff --bits $base "$WORK/battery-$g"; rc=$?
    [ $rc -eq 0 ] || bad=1
    row device_battery "$base (cpu) against $g on $BACKEND" "$(tail -n 1 "$WORK/log/battery-$g.txt")"
    text+="$g: exit $rc; "
    rm -rf "$WORK/battery-$g"
  done
  result "$text"
  return $bad
}
part_fresh() {
  local r
  for r in f16 q8; do
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
      $F generate --backend "$BACKEND" --route $r -f fixtures/prompts/holmes.txt -n 64 2>&1 >/dev/null | grep -o 'logits [0-9a-f]*' | sed "s/^logits/$r/"
    done
  done | sort | uniq -c | sed -E 's/^ +//; s/ /\t/g' >"$WORK/fresh.txt"
  row device_fresh_process processes route logits_hash
  cat "$WORK/fresh.txt" >>"$WORK/rows/device_fresh_process.tsv"
  result "$(tr '\t\n' ' ;' <"$WORK/fresh.txt")"
  [ "$(cut -f 1 "$WORK/fresh.txt" | tr '\n' ' ')" = "20 20 " ]
}
part_sanitizers() {
  local t pids=() worst=0 rc
  for t in memcheck racecheck initcheck synccheck; do
    (start=$EPOCHREALTIME
    timeout 200 compute-sanitizer --tool $t --error-exitcode 9 $BIN/device_parity --quick >"$WORK/log/san-$t.txt" 2>&1; rc=$?
    printf '%s\t%s\t%s\t%s\t%s\n' $t "compute-sanitizer --tool $t device_parity --quick" "$(since "$start")" $rc \
      "$(grep -E 'SUMMARY|^summary' "$WORK/log/san-$t.txt" | tail -n 2 | tr '\n' ' ')" >"$WORK/san-$t.tsv"
    exit $rc) &
    pids+=($!)
  done
  for p in "${pids[@]}"; do wait "$p"; rc=$?; [ $rc -le $worst ] || worst=$rc; done
  row sanitizers tool command seconds exit last_line
  cat "$WORK"/san-*.tsv >>"$WORK/rows/sanitizers.tsv"
  result "$(cut -f 1,3,4 "$WORK"/san-*.tsv | tr '\t\n' ' ;')"
  return $worst
}
part_occupancy() {
  local rc
  tries "$WORK/log/occupancy.txt" $BIN/forkgate-probe occupancy --device --csv "$WORK/rows/device_occupancy.csv"; rc=$?
  $F occupancy --device --csv "$WORK/rows/device_occupancy_plain.csv" >>"$WORK/log/occupancy.txt" 2>&1 || rc=$?
  result "$(grep -c ',measured' "$WORK/rows/device_occupancy.csv") measured, $(grep -c ',queried' "$WORK/rows/device_occupancy_plain.csv") queried"
  return $rc
}
part_failures() {
  OUT=$WORK/rows JOBS=8 bash tests/device_failures.sh "$BIN/forkgate-faults"; local rc=$?
  result "$(tail -n 1 "$WORK/log/failures.txt")"
  return $rc
}
part_mutants() {
  tries "$WORK/log/mutants.out" $BIN/forkgate-faults mutants --backend "$BACKEND" --named --jobs 12 --csv "$WORK/rows/mutants_$BACKEND.csv"; local rc=$?
  result "$(tail -n 1 "$WORK/log/mutants.out")"
  return $rc
}
part_mutants_cpu() { # every plant against every gate of tiers 1, 3 and 4: it may take the machine, so it runs last and alone
  tries "$WORK/log/mutants_cpu.out" $BIN/forkgate-faults mutants --backend cpu --jobs "${JOBS:-16}" --csv "$WORK/rows/mutants_cpu.csv" ${MUTANTS:-}; local rc=$?
  result "$(tail -n 1 "$WORK/log/mutants_cpu.out")"
  return $rc
}
part_run7b() { # tiers 1 and 3, battery full, of a model without goldens: 0 red, and how long it held the card
  local rc started=$EPOCHREALTIME
  has_model || { result "no model"; return 2; }
  judged run7b --backend "$BACKEND" -m "$MODEL" --tier parity,identity --battery full --jobs "${JOBS:-4}"; rc=$?
  printf '%s\n' "$(since "$started")" >"$WORK/raw/run7b.seconds"
  return $rc
}
# judged NAME OPTIONS...: a run whose evidence is kept as it is
judged() {
  local name=$1 rc
  shift
  tries "$WORK/log/$name.out" $F run "$@" --csv "$WORK/raw/$name.csv"; rc=$?
  result "$(tail -n 2 "$WORK/log/$name.out" | tr '\n' ' ')"
  return $rc
}
part_both() { judged both --backend "cpu,$BACKEND" --tier "parity,identity"; }
part_under() { judged under --backend "$BACKEND" --tier parity --under memcheck --jobs 4; }
part_tolerance() { judged tolerance --backend "$BACKEND" --tier tolerance --class fa --cause "FA_TKV 32->16" --geometry fa_tkv=16 --keep-going; }
part_stream7b() { # 32 greedy tokens on a 2K prompt, and their own replay, on both routes
  local r rc bad=0 text=""
  has_model || { result "no model"; return 2; }
  head -c 2394 fixtures/prompts/boat-2k.txt >"$WORK/prompt.txt" # 2,048 tokens of the synthetic vocabulary, about
  row device_stream_7b route prompt tokens replay_exit replay_result
  for r in f16 q8; do
    tries "$WORK/log/stream-$r.txt" $F generate --backend "$BACKEND" -m "$MODEL" --route $r -f "$WORK/prompt.txt" -n 32 --seed 42 --ignore-eos -o "$WORK/$r.fgd" || bad=1
    tries "$WORK/log/replay-$r.txt" $F replay --backend "$BACKEND" -m "$MODEL" --route $r -f "$WORK/prompt.txt" --follow "$WORK/$r.fgd" -o "$WORK/$r-again.fgd"; rc=$?
    grep -q ' 0 where this engine.s argmax differs, logits hashes equal' "$WORK/log/replay-$r.txt" || bad=1
    row device_stream_7b $r "boat-2k.txt, first 2394 bytes" 32 $rc "$(grep 'tokens forced' "$WORK/log/replay-$r.txt")"
    text+="$r: $(grep 'tokens forced' "$WORK/log/replay-$r.txt"); "
  done
  result "$text"
  return $bad
}
part_explain() { # its time has a limit: alone
  has_model || { result "no model"; return 2; }
  MODEL=$MODEL bash tests/device_explain.sh "$F"; local rc=$?
  result "$(grep -E '^(verdict|explain|copied)' "$WORK/log/explain.txt" | sed -E 's/ +/ /g' | tr '\n' ';')"
  return $rc
}
part_trace() {
  bash tests/device_trace.sh "$F"; local rc=$?
  result "$(tail -n 1 "$WORK/log/trace.txt")"
  return $rc
}
part_kernels() {
  tries "$WORK/log/kernels.out" $F bench --kernels --backend "$BACKEND" --rounds 7 --csv "$WORK/rows/device_kernels.csv"; local rc=$?
  result "$(grep '^ceiling' "$WORK/log/kernels.out" | sed -E 's/ +/ /g' | tr '\n' ';')"
  return $rc
}
part_bench7b() {
  local r rc bad=0 text=""
  has_model || { result "no model"; return 2; }
  for r in f16 q8; do
    tries "$WORK/log/bench7b-$r.txt" $F bench --backend "$BACKEND" -m "$MODEL" --route $r --tokens "$TOKENS" --chunk 4096 --decode 32 --rounds 5 --csv "$WORK/rows/device_bench_7b_$r.csv"; rc=$?
    [ $rc -eq 0 ] || bad=1
    # timing ops turns graphs off, so these rounds are another run's
    tries "$WORK/log/bench7b-$r-ops.txt" $F bench --backend "$BACKEND" -m "$MODEL" --route $r --tokens "$TOKENS" --chunk 4096 --decode 8 --rounds 1 --warm 0 --ops --csv "$WORK/rows/device_bench_7b_$r-ops.csv" || bad=1
    text+="$r $(grep -E '^median|^device memory' "$WORK/log/bench7b-$r.txt" | sed -E 's/ +/ /g' | tr '\n' ' '); "
  done
  result "$text"
  return $bad
}
part_ab() { # A against A, again, and B: whole prefill; no gain is expected, so only a verdict counts
  local rc bad=0 text="" a b
  has_model || { result "no model"; return 2; }
  for pair in fa_tkv=32,fa_tkv=16 fa_tq=64,fa_tq=128; do
    a=${pair%,*} b=${pair#*,}
    tries "$WORK/log/ab-$b.txt" $F ab --backend "$BACKEND" -m "$MODEL" --a-geometry "$a" --b-geometry "$b" --tokens "$TOKENS" --chunk 4096 --decode 0 --rounds 15 --csv "$WORK/rows/device_ab_$b.csv"; rc=$?
    grep -qE '^forkgate: (HEADLINE|FASTER|MISSED|SLOWER|NO-DECISION)$' "$WORK/log/ab-$b.txt" || bad=1
    text+="$a to $b: $(grep -E '^(HEADLINE|FASTER|MISSED|SLOWER|NO-DECISION)' "$WORK/log/ab-$b.txt"); "
  done
  result "$text"
  return $bad
}
part_leak() {
  local r bad=0 text=""
  for r in f16 q8; do
    tries "$WORK/log/leak-$r.txt" $F bench --backend "$BACKEND" --route $r --rounds 100 --decode 32 --csv "$WORK/rows/device_memory_$r.csv" || bad=1
    text+="$r $(grep '^device memory' "$WORK/log/leak-$r.txt"); "
    grep -q '^device memory .* +0 bytes in round 100' "$WORK/log/leak-$r.txt" || bad=1
  done
  result "$text"
  return $bad
}

# start PART LIMIT RESERVE: runs it in its own process and writes PART,exit,seconds,result. It is cut off after LIMIT, or
# where only RESERVE seconds before the deadline are left.
start() {
  export PART=$1
  local began=$EPOCHREALTIME rc most=$((DEADLINE - SECONDS - $3))
  [ $most -le "$2" ] || most=$2
  [ $most -ge 5 ] || most=5
  timeout -k 5 $most bash -c "part_$1" >"$WORK/log/$1.txt" 2>&1
  rc=$?
  printf '%s\t%s\t%s\t%s\n' "$1" $rc "$(since "$began")" "$(cat "$WORK/log/$1.result" 2>/dev/null || tail -n 1 "$WORK/log/$1.txt")" >"$WORK/log/$1.line"
}
limit_of() { case $1 in run7b) echo 400 ;; mutants_cpu) echo 3600 ;; sanitizers | parity | run | failures | mutants | both | tolerance) echo 280 ;; *) echo 120 ;; esac; }
wants() { local p; for p in "${wanted[@]}"; do [ "$p" = "$1" ] && return 0; done; return 1; }
for f in $(compgen -A function part_) result row since tries has_model judged; do export -f "${f?}"; done

card() { nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,power.draw,temperature.gpu,memory.used --format=csv,noheader 2>/dev/null || echo "none, none"; }
{ date -u +%FT%TZ; $F --version; card; } >"$WORK/log/machine.txt"
if wants stream7b || wants bench7b || wants ab || wants explain || wants run7b; then
  (made=$EPOCHREALTIME
  timeout 110 $F make-model --shape "${SHAPE:-qwen2.5-7b}" --quant q4_k_m --seed 7 "$MODEL.part" >"$WORK/log/model.txt" 2>&1 &&
    mv "$MODEL.part" "$MODEL" || touch "$WORK/log/model.failed"
  echo "make-model: $(since "$made") s" >>"$WORK/log/model.txt") &
fi
began=$SECONDS
at_once() { local p pids=(); for p in "$@"; do if wants "$p"; then start "$p" "$(limit_of "$p")" 80 & pids+=($!); fi; done; [ ${#pids[@]} -eq 0 ] || wait "${pids[@]}"; }
at_once "${long[@]}" &
at_once "${first[@]}"
echo "first parts: $((SECONDS - began)) s" >>"$WORK/log/machine.txt"
at_once "${second[@]}"
wait
echo "all that times nothing: $((SECONDS - began)) s" >>"$WORK/log/machine.txt"
for p in "${alone[@]}" mutants_cpu; do
  wants "$p" || continue
  nvidia-smi --query-gpu=clocks.sm,clocks.mem,power.draw,temperature.gpu,utilization.gpu --format=csv,noheader,nounits -lms 100 \
    >"$WORK/log/clocks-$p.csv" 2>/dev/null &
  clocks=$!
  case $p in run7b | mutants_cpu) start "$p" "$(limit_of "$p")" 0 ;; *) start "$p" 60 0 ;; esac
  kill $clocks 2>/dev/null
  wait $clocks 2>/dev/null
done

python3 tests/device_rows.py "$WORK" "$WORK/reports" "$($F --version | sed -n '1s/.*(\(.*\)).*/\1/p')" "$(card)" || echo "device_rows.py failed"
worst=0
printf 'part\texit\tseconds\tresult\n' >"$OUT/parts.tsv"
for p in "${all[@]}"; do [ -e "$WORK/log/$p.line" ] && cat "$WORK/log/$p.line"; done >>"$OUT/parts.tsv"
rm -f "$WORK"/*.gguf* "$WORK"/*.fgd
cp "$OUT/parts.tsv" "$WORK/log/"
tar czf "$OUT/evidence.tgz" -C "$WORK" log reports rows raw
cut -c1-230 "$OUT/parts.tsv"
echo "wall $SECONDS s, evidence.tgz $(stat -c %s "$OUT/evidence.tgz") bytes"
while IFS=$'\t' read -r _ rc _; do
  case $rc in 0 | exit) ;; 1) worst=1 ;; *) [ $worst -eq 1 ] || worst=2 ;; esac
done <"$OUT/parts.tsv"
exit $worst
