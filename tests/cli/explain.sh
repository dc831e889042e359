#!/bin/bash
# explain.sh - `forkgate explain` and `trace` as a shell sees them: the forms, exit codes, report, CSV, foreign binaries.
# usage: explain.sh FORKGATE
forkgate=$1
tests=$(cd "$(dirname "$0")/.." && pwd)
. "$tests/cli/expect.sh"

gen() { "$forkgate" generate -p 'It was a dark and stormy night, and the rain fell in' "$@" >/dev/null 2>&1 || fail "generate $*"; }
gen -n 5 -t 1 -o a.fgd
gen -n 5 -t 1 --geometry fa_tkv=16 -o b.fgd
prompt=(-p 'It was a dark and stormy night, and the rain fell in')

# two dumps: the first attention past 16 keys, inputs equal, ULP-sized
expect 1 "$forkgate" explain a.fgd b.fgd "${prompt[@]}" --csv growth.csv --margins margins.csv --eol lf
has out '--- a.fgd  route f16'
has out '+++ b.fgd  route f16  sm_90  kv f16  fa_tq=64,fa_tkv=16'
has out 'reproduced  a.fgd: 5 of 5 recorded rows of logits come out again'
has out 'layer 0 attention, tensor attn, kernel attention_f16'
has out 'inputs      equal: all '
has out 'and cache rows 0..16 of layer 0'
has out 'growth at step'
has out 'verdict     REGROUPING'
has out 'next        forkgate run --class fa --cause TEXT --geometry fa_tq=64,fa_tkv=16'
last out 'forkgate: REGROUPING'
lines err 0
if LC_ALL=C grep -q $'[^\x01-\x7e]' out; then fail 'a pipe gets ASCII only'; fi
head -n 1 growth.csv | grep -q '^step,pos,layer,op,tensor,kernel_a,kernel_b,rows,cols,differing,max_abs,row_max,max_ulp,.*sign_nan' ||
  fail 'CSV head'
[ "$(cut -d, -f17 growth.csv | grep -c '^1')" -eq 1 ] || fail 'exactly one op moved first'
[ "$(tail -n +2 growth.csv | cut -d, -f3,4,17 | grep '1$')" = '0,attention,1' ] || fail 'the first op of the CSV'

[ "$(wc -l <margins.csv)" -eq 6 ] || fail 'a row per step'
head -n 1 margins.csv | grep -q '^step,pos,id1_a,.*,margin_a,.*,margin_b,row_equal,ops_equal,fork$' || fail 'margins head'

# one dump and options for the other side say the same
cp out two
trouble "$forkgate" explain a.fgd b.fgd "${prompt[@]}" --csv ./growth.csv --margins growth.csv
has err 'growth.csv: two reports in one file'
expect 1 "$forkgate" explain a.fgd --geometry fa_tkv=16 "${prompt[@]}"
diff <(sed -n '/^where/,/^verdict/p' two) <(sed -n '/^where/,/^verdict/p' out) || fail 'both forms agree'
has out 'next        forkgate run --class fa --cause TEXT --geometry fa_tq=64,fa_tkv=16'

# the screen says what it is and what it took; copying every tensor finds the same
has two 'by 64-bit checksums where they lie (a screen, no golden); copied out: '
expect 1 "$forkgate" explain a.fgd --geometry fa_tkv=16 "${prompt[@]}" --copy-all
diff <(sed -n '/^where/,/^verdict/p' two) <(sed -n '/^where/,/^verdict/p' out) || fail 'the screen and the copies agree'
has out 'compared by 64-bit checksums on the host; copied out: '
lacks out 'screened'

# what never carries bits
expect 0 "$forkgate" explain a.fgd --chunk 3 -t 2 --geometry fa_tq=128,fa_splits=2 "${prompt[@]}" -n 3
has out 'no op differs in 3 steps'
last out 'forkgate: IDENTICAL'

# the same tokens on other rails: diff says what to ask next, and that is answered
expect 0 "$forkgate" diff a.fgd b.fgd
last out 'forkgate: IDENTICAL, logits differ'
next=$(sed -n 's/^next *forkgate //p' out)
expect 1 eval "'$forkgate' ${next/-p PROMPT/"${prompt[0]} '${prompt[1]}'"}"
last out 'forkgate: REGROUPING'
expect 0 "$forkgate" diff a.fgd a.fgd
lacks out 'next  '

# another binary: the same answers through a pipe, and its environment
printf '#!/bin/sh\necho "$PLANT" >>%s/seen\nexec %s "$@"\n' "$work" "$forkgate" >other
chmod +x other
expect 1 "$forkgate" explain a.fgd --binary-b ./other --env-b PLANT=yes --geometry fa_tkv=16 "${prompt[@]}"
diff <(sed -n '/^where/,/^verdict/p' two) <(sed -n '/^where/,/^verdict/p' out) || fail 'a binary gives the same report'
has out 'binary ./other'
has out 'with   PLANT=yes'
[ "$(sort -u seen)" = yes ] || fail 'the environment of side B'
expect 0 "$forkgate" explain a.fgd --binary-a ./other --binary-b "$forkgate" -n 2 "${prompt[@]}"

# binaries that refuse, crash, talk nonsense, or do not exist
printf '#!/bin/sh\necho "no such command: trace" >&2\nexit 2\n' >old
printf '#!/bin/sh\nkill -SEGV $$\n' >crash
printf '#!/bin/sh\necho hello\n' >chatty
chmod +x old crash chatty
trouble "$forkgate" explain a.fgd --binary-b ./old "${prompt[@]}"
has err 'side B: ./old trace: exit 2: no such command: trace'
trouble "$forkgate" explain a.fgd --binary-b ./crash "${prompt[@]}"
has err 'killed by signal 11'
trouble "$forkgate" explain a.fgd --binary-b ./chatty "${prompt[@]}"
trouble "$forkgate" explain a.fgd --binary-b ./absent "${prompt[@]}"
has err './absent: cannot be run'

# a binary that hangs is killed with what it has started; so it is when explain itself is told to end
printf '#!/bin/sh\nsleep 977 &\necho $! >>%s/started\nwait\n' "$work" >hang
printf '#!/bin/sh\nsleep 977 &\necho $! >>%s/started\necho nonsense\n' "$work" >leaves
chmod +x hang leaves
gone() { # NAME: nothing that was started is left, within two seconds
  [ -s started ] || fail "$1: nothing was started"
  local pids
  mapfile -t pids <started
  for _ in $(seq 40); do
    runs "${pids[@]}" || return 0
    sleep 0.05
  done
  fail "$1: left running: ${pids[*]}"
}
trouble "$forkgate" explain a.fgd --binary-b ./hang --timeout 1 "${prompt[@]}"
has err 'side B: ./hang trace: no end after 1 s, killed with what it had started (--timeout S gives it longer)'
gone 'a time-out'
rm started
trouble "$forkgate" explain a.fgd --binary-b ./leaves "${prompt[@]}"
gone 'a binary that leaves something running'
mkdir tmp
for signal in INT TERM HUP; do
  rm -f started
  # a command in the background ignores SIGINT from its start: env gives it the default back
  env --default-signal=INT TMPDIR="$work/tmp" "$forkgate" explain a.fgd --binary-a ./hang "${prompt[@]}" >out 2>err &
  explain=$!
  for _ in $(seq 100); do [ -s started ] && break; sleep 0.05; done
  kill -$signal $explain
  wait $explain
  [ $? -gt 128 ] || fail "SIG$signal ends explain"
  gone "SIG$signal"
  [ -z "$(ls -A tmp)" ] || fail "SIG$signal: $(ls tmp) is left"
done

# a legal regrouping does not excuse a fault behind it: the fork is too wide for one
long=(-f "$tests/../fixtures/prompts/whale-512.txt")
expect 0 "$forkgate" generate "${long[@]}" -n 12 -o long.fgd
expect 1 "$forkgate" explain long.fgd "${long[@]}" --geometry fa_tkv=16
last out 'forkgate: REGROUPING'
expect 1 "$forkgate" explain long.fgd "${long[@]}" --geometry fa_tkv=16 --binary-b "$(dirname "$forkgate")/forkgate-faults" \
  --env-b FORKGATE_FAULT=dec-combine
last out 'forkgate: WRONG-VALUE'
has out 'A later op is wrong as well.'

# the next command asks the side that was wrong: its binary, in its environment, fails where this one passes
faults=$(dirname "$forkgate")/forkgate-faults
expect 0 "$forkgate" explain --help
has out '--env-b FORKGATE_FAULT=norm-tail' # a fault that the default route meets
expect 1 "$forkgate" explain a.fgd "${prompt[@]}" -n 2 --binary-b "$faults" --env-b FORKGATE_FAULT=norm-tail
next=$(sed -n 's/^next *//p' out)
[ "$next" = "env FORKGATE_FAULT=norm-tail $faults run --tier parity --only op.rmsnorm" ] || fail "next: $next"
expect 1 eval "FORKGATE_ROOT=$tests/.. $next"
last out 'forkgate: 0 passed, 1 failed, 0 skipped'
# and of another model, that model
f16=$tests/../fixtures/models/seedling-f16.gguf
expect 0 "$forkgate" generate -m "$f16" "${prompt[@]}" -n 6 -o f16.fgd
expect 1 "$forkgate" explain f16.fgd -m "$f16" "${prompt[@]}" --geometry fa_tkv=16
has out "next        forkgate run --class fa --cause TEXT -m $f16 --geometry fa_tq=64,fa_tkv=16"

# sampling only; streams whose difference this binary cannot make
gen -n 5 -t 1 --temp 3 --seed 5 -o hot.fgd
expect 1 "$forkgate" explain a.fgd hot.fgd "${prompt[@]}"
last out 'forkgate: SAMPLING'
cp a.fgd "it's a.fgd"
expect 1 "$forkgate" explain "it's a.fgd" hot.fgd "${prompt[@]}"
expect 0 eval "'$forkgate' $(sed -n 's/^next *forkgate //p' out)"
lines out 6

# what this binary cannot make again: the next command has all but the binaries
"$forkgate" inspect --provenance a.fgd | sed 's/,0,[0-9a-f]\{32\}/,0,00000000000000000000000000000001/' >bent.csv
expect 0 "$forkgate" import bent.csv -o bent.fgd
expect 2 "$forkgate" explain a.fgd bent.fgd "${prompt[@]}"
last out 'forkgate: NOT-REPRODUCED'
next=$(sed -n 's/^next *forkgate //p' out)
expect 2 eval "'$forkgate' ${next//PATH/$forkgate}"
last out 'forkgate: NOT-REPRODUCED'

# the geometry that the tier is asked about is the one that is not the default, on whichever side
expect 1 "$forkgate" explain b.fgd a.fgd "${prompt[@]}"
has out 'next        forkgate run --class fa --cause TEXT --geometry fa_tq=64,fa_tkv=16'

# what is refused, and why
trouble "$forkgate" explain a.fgd "${prompt[@]}"
has err 'both sides would be the same engine'
trouble "$forkgate" explain a.fgd b.fgd
has err 'give -f or -p'
trouble "$forkgate" explain a.fgd b.fgd -p 'another prompt'
has err 'that is not the prompt of a.fgd'
trouble "$forkgate" explain a.fgd b.fgd "${prompt[@]}" -m a.fgd
has err 'a.fgd is not the model of a.fgd'
head -c 900 a.fgd >cut.fgd
trouble "$forkgate" explain cut.fgd b.fgd "${prompt[@]}"
expect 2 "$forkgate" explain
expect 2 "$forkgate" explain a.fgd --env-b X=1

# trace by itself
printf 'id\n5\n9\n100\n7\n' >ids.csv
expect 0 "$forkgate" trace --tokens ids.csv --prompt-tokens 3 --ops 1 --capture 2 --values v.fgt -t 1
[ "$(grep -c '^step,' out)" -eq 2 ] || fail 'two steps'
has out 'attention,attn,attention_f16'
grep -q '^# bytes summed [0-9]* copied [0-9]* held [0-9]*$' out || fail 'a trace says what it took'
[ -s v.fgt ] || fail 'captured values'
trouble "$forkgate" trace --tokens ids.csv --prompt-tokens 3 --ops 2
has err '--ops 2: the last step is 1'
trouble "$forkgate" trace --tokens ids.csv --prompt-tokens 3 --capture 4 --values v.fgt
has err '--capture 4: the last position is 3'
trouble "$forkgate" trace --tokens ids.csv --prompt-tokens 9
has err 'holds 4 tokens'

echo 'explain: all checks hold'
