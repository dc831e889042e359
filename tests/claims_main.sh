#!/usr/bin/env bash
# Every claim of the main job that is more than a plain test, one command each: prints claim, command, result.
# Not part of CI: about 25 minutes on 2 quiet cores, and the times below are only fair on a quiet machine.
# usage: claims_main.sh [WORK_DIR [CLAIM...]]     default: build-claims/ in the source tree, all claims (names: below)
# exit: 0 every claim holds (a SKIP names its reason), 1 a claim does not hold, 2 nothing was judged
set -uo pipefail
export LC_ALL=C.UTF-8
unset CI FORKGATE_ROOT
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=${1:-$root/build-claims}
mkdir -p "$work" && work=$(cd "$work" && pwd) || exit 2
shift
wanted=("$@")
forkgate=$work/gcc/forkgate
held=0 broken=0 skipped=0

is_wanted() { # name
  local w
  [ ${#wanted[@]} -eq 0 ] && return 0
  for w in "${wanted[@]}"; do [ "$w" = "$1" ] && return 0; done
  return 1
}

# claim NAME TEXT FUNCTION: the function prints what it measured; exit 0 holds, 77 cannot be judged here, else broken
claim() {
  is_wanted "$1" || return 0
  local start=$SECONDS code=0 word=holds
  printf '\nclaim    %s: %s\ncommand  %s\n' "$1" "$2" "$(declare -f "$3" | sed '1,2d;$d' | tr -s ' \n' ' ')"
  ("$3") >"$work/$1.log" 2>&1 || code=$?
  case $code in
    0) held=$((held + 1)) ;;
    77) word=SKIP skipped=$((skipped + 1)) ;;
    *) word="DOES NOT HOLD (exit $code)" broken=$((broken + 1)) ;;
  esac
  grep -a '^= ' "$work/$1.log" | sed 's/^= /measured /'
  [ "$code" = 0 ] || tail -n 5 "$work/$1.log"
  printf 'result   %s, %d s, %s\n' "$word" $((SECONDS - start)) "$work/$1.log"
}

say() { echo "= $*"; }
skip() { say "$*"; exit 77; }
build() { # name, compiler, cmake options and "--" targets
  local name=$1 cc=$2 options=()
  shift 2
  while [ "$1" != -- ]; do options+=("$1"); shift; done
  shift
  CC=$cc cmake -S "$root" -B "$work/$name" -G Ninja -DFORKGATE_CUDA=OFF "${options[@]}" >/dev/null &&
    cmake --build "$work/$name" --target "$@" >"$work/$name.build" || { tail -n 20 "$work/$name.build"; return 1; }
}
gate() { # name, options...: one gate over the full battery; its rows are what is reported
  "$forkgate" run --battery full --only "$1" -v "${@:2}" || return 1
}
at_least() { awk -v x="$1" -v y="$2" 'BEGIN { exit !(x >= y) }'; } # x, y
column() { awk -F, -v name="$2" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) c = i } /^round/ { print $c }' "$1"; }
recorded() { # test: the largest median that llama.cpp reached, of reports/bench_llamacpp_cpu.csv
  sed 's/"[^"]*"//g' "$root/reports/bench_llamacpp_cpu.csv" | awk -F, -v t="$1" '$7 == t && $9 > m { m = $9 } END { print m }'
}

# ---- the claims ------------------------------------------------------------------------------------------------------
exact() { gate model.reference.f32 --csv "$work/f32.csv" && say "$(grep -c 'argmax_differ,0,0,' "$work/f32.csv") prompts, every greedy step the reference's"; }
forced() { gate model.reference.f16 && gate model.reference.q8 && say 'largest gap with another argmax: f16 at most 0.1, q8 at most 0.5 (rows in the log)'; }
peer() {
  [ -f "$root/fixtures/models/downloaded/SmolLM2-135M-Instruct.Q4_1.gguf" ] || skip 'the model is not here: tools/fetch-model gets it'
  gate model.peer.smollm2
}
bits() {
  local start=$SECONDS
  "$root/tests/bit_matrix.sh" "$root" "$work" || return 1
  say "$((SECONDS - start)) s; at most 600 is the claim"
  [ $((SECONDS - start)) -le 600 ]
}
rails() { "$forkgate" run --battery full --tier identity && say 'chunks, batches of eight, prefill against decode, fresh processes'; }
tile() {
  "$forkgate" run --tier parity --geometry fa_tkv=16 || return 1
  rm -rf "$work/tile" && "$forkgate" generate --battery "$root/fixtures/battery.csv" -n 256 --geometry fa_tkv=16 -o "$work/tile" || return 1
  "$forkgate" diff --bits "$root/golden/battery/fa_tkv16" "$work/tile" || return 1
  "$root/tests/cli/tile_experiment.sh" "$forkgate" || return 1
  "$forkgate" diff "$root/golden/battery/fa_tkv32" "$work/tile" --control "$root/golden/battery/control-fa_tkv64" >"$work/tile.txt"
  say "made again bit for bit; $(tail -n 1 "$work/tile.txt")"
}
damage() {
  local kind names='dump|dump_damage|dump_pair|diff|diff_streams|diff_files|gguf|gguf_damage|vocab_open' # ctest knows which leaks are Criterion's
  for kind in address undefined; do
    # shellcheck disable=SC2046
    build $kind clang -DSANITIZE=$kind -- $(tr '|' '\n' <<<"$names" | sed 's/^/test_/') || return 1
    ctest --test-dir "$work/$kind" -R "^unit\.($names)\$" --verbose --no-tests=error || return 1
  done
  say "$(sed -n 's/^[0-9]*: \([0-9]*\) passed, 0 failed.*/\1/p' "$work/damage.log" | awk "{ n += \$1 } END { print n }") tests under ASan and UBSan"
}
killed() { "$work/gcc/test_golden_refresh" && say 'a refresh ended at every step left the old or the new set'; }
fuzz() {
  local targets=(fuzz_gguf fuzz_dump fuzz_csv fuzz_import fuzz_vocab fuzz_vocab_open)
  build fuzz clang -DFORKGATE_FUZZ=ON -- "${targets[@]}" && RUNS=1000000 "$root/tests/fuzz_smoke.sh" "$root" "$work/fuzz" && say "${#targets[@]} targets, 1,000,000 inputs each"
}
speed() {
  local here prefill decode
  here=$(sed -n 's/^cpu family\t: \(.*\)/family \1/p; s/^model\t\t: \(.*\)/model \1/p' /proc/cpuinfo | head -n 2 | paste -sd ' ')
  grep -q "$here" "$root/reports/bench_llamacpp_cpu.csv" || skip "llama.cpp was not recorded on this CPU ($here): tests/bench_peer.py does"
  "$forkgate" bench --route q8 -t 1 --rounds 9 --decode 128 --csv "$work/prefill.csv" || return 1
  "$forkgate" bench --route q8 -t 1 --rounds 9 --decode 128 -f "$root/fixtures/prompts/single.txt" --csv "$work/decode.csv" || return 1
  prefill=$(column "$work/prefill.csv" prefill_tok_s | sort -n | sed -n 5p)
  decode=$(column "$work/decode.csv" decode_tok_s | sort -n | sed -n 5p)
  say "prefill $prefill tok/s, llama.cpp $(recorded prefill-512), floor 0.2; decode $decode tok/s, llama.cpp $(recorded decode-128), floor 0.5"
  at_least "$prefill" "$(awk "BEGIN { print 0.2 * $(recorded prefill-512) }")" && at_least "$decode" "$(awk "BEGIN { print 0.5 * $(recorded decode-128) }")"
}
diff_speed() {
  local low
  build gcc gcc -- bench_diff && "$work/gcc/bench_diff" 10000000 "$work" | tee "$work/bench_diff.txt" || return 1
  low=$(sed -n 's/.*ratio \([0-9.]*\).*/\1/p' "$work/bench_diff.txt" | sort -n | head -n 1)
  say "lowest of $(grep -c ratio "$work/bench_diff.txt") arms: $low of one XXH3-128 pass, floor 0.8"
  at_least "$low" 0.8
}
quick() {
  local start=$SECONDS
  "$forkgate" run || return 1
  say "$((SECONDS - start)) s on $(nproc) cores, at most 60 is the claim"
  [ $((SECONDS - start)) -le 60 ]
}

build gcc gcc -- all || exit 2
claim exact 'f32 route: every greedy step of ten prompts equals the float64 reference, 20 first logits within 2e-4' exact
claim forced 'f16 and q8 along the reference: argmax agrees above a gap of 0.1 and 0.5' forced
claim peer 'a public model: tokens equal llama.cpp, 64 greedy tokens equal or fork at a gap of at most 0.5' peer
claim bits 'same bits: threads, compilers, levels, SIMD, chunks, processes, dumps, tiles that must not matter; ten minutes' bits
claim rails 'same bits within the engine: goldens, batches, chunks, decode against prefill, fresh processes' rails
claim tile 'fa_tkv 16 against 32: parity green, 64 x 256 tokens reproduce, forks located and judged KNIFE-EDGE' tile
claim damage 'damaged dumps and models are refused, sparse ones load, under ASan and UBSan' damage
claim killed 'a golden refresh killed at any write leaves the old or the new set' killed
claim fuzz 'a million inputs to each fuzz target, clean' fuzz
claim speed 'q8 on one thread: 0.5 of llama.cpp in decode, 0.2 in prefill' speed
claim diff_speed 'diff of two 10-million-token dumps: 0.8 of one hash pass in every arm' diff_speed
claim quick 'forkgate run, quick battery, all tiers: 60 s on 2 cores' quick

printf '\nclaims: %d passed, %d failed, %d skipped\n' $held $broken $skipped
[ $((held + broken)) -gt 0 ] || exit 2
[ $broken -eq 0 ]
