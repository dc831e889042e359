#!/bin/bash
# run.sh - `forkgate run` as a shell sees it: selection, exit codes, last line, reports, repro commands, refusals.
# usage: run.sh FORKGATE
forkgate=$1
. "$(dirname "$0")/expect.sh"
root=$(cd "$(dirname "$0")/../.." 2>/dev/null && pwd || true)
[ -f "$root/fixtures/op_cases.csv" ] || root=$OLDPWD

# the list of gates, with the sentence that a red one makes false
expect 0 "$forkgate" run --list
has out 'op.attention'
has out 'stream.golden.f16'
has out 'suite.unit'
has out 'tolerance.op'
has out 'perf.prefill'
expect 0 "$forkgate" run --list --tier perf,suite
lines out 2
expect 0 "$forkgate" run --list --only tolerance.op
lines out 1
trouble "$forkgate" run --list --tier parity --only tolerance.op

# one gate: exit 0, the last line alone, rows in CSV and JUnit
expect 0 "$forkgate" run --only op.add --csv run.csv --junit run.xml
last out 'forkgate: 1 passed, 0 failed, 0 skipped'
lines err 0
has out '  1 ulp in one element: op.add' # the floor of the gate, without -v
head -n 1 run.csv | grep -q '^schema_version,tier,gate,case,arm' || fail 'CSV header'
has run.xml 'classname="forkgate.parity.op.add"'
if command -v xmllint >/dev/null; then xmllint --noout run.xml || fail 'JUnit is not well-formed'; fi
if grep -q $'\033' out; then fail 'a pipe gets no colour'; fi

# descriptors that are closed (a job of cron): the gates are judged all the same; results that reach nobody are trouble
sh -c "'$forkgate' run --only op.add --csv closed.csv >&- 2>&- <&-"
[ $? -eq 2 ] || fail 'results that reached nobody'
[ "$(grep -c ',op.add,.*,PASS,' closed.csv)" -eq "$(grep -c ',op.add,.*,PASS,' run.csv)" ] || fail 'closed descriptors: nothing was judged'

# the repro command of a row works when pasted
repro=$(sed -n "s/.*,\(forkgate run --tier parity[^,]*\),.*/\1/p" run.csv | sed -n 9p | sed 's/""/"/g')
[ -n "$repro" ] || fail 'no repro command'
expect 0 bash -c "forkgate() { '$forkgate' \"\$@\"; }; $repro"
# .. and has the candidate's options where they are not the default ones
expect 0 "$forkgate" run --tier parity --only op.rope --geometry fa_tkv=16 --kv q8_0 --csv options.csv
grep -q -- "' --backend cpu --geometry fa_tq=64,fa_tkv=16,fa_chunk=256,fa_splits=8 --kv q8_0" options.csv || fail 'options are missing from the repro command'
last out 'forkgate: 1 passed, 0 failed, 0 skipped'

# nothing selected, nothing known: never green
trouble "$forkgate" run --only op.addd
has err '--only op.addd: no such gate; near it: op.add; forkgate run --list has all'
trouble "$forkgate" run --only nosuch
has err '--only nosuch: no such gate; forkgate run --list has all'
trouble "$forkgate" run --only stream.gold
has err 'near it: stream.golden.f16, stream.golden.q8;'
trouble "$forkgate" run --tier parity --only stream.golden.f16/single
has err '--only stream.golden.f16: tier identity is not selected (--tier identity)'
trouble "$forkgate" run --tier ''
expect 2 "$forkgate" run --only 'op.add/n=12345678'
has out 'no case of add is selected'
has out "rerun   forkgate run --only op.add/n=12345678 --backend cpu"
expect 2 "$forkgate" run --tier parityy
expect 2 "$forkgate" run --battery slow
expect 2 "$forkgate" run nonsense

# inside the suite the suite is refused, and that is not a pass
FORKGATE_IN_SUITE=1 expect 2 "$forkgate" run --tier suite
has out 'refused: this run is itself part of the suite'
last out 'forkgate: 0 passed, 1 failed, 0 skipped'

# no report in place of what a run reads
cp "$root/fixtures/models/seedling-f16.gguf" m.gguf
cp "$forkgate" base-binary
trouble "$forkgate" run --only op.add -m m.gguf --csv ./m.gguf
has err 'the output would replace the input'
trouble "$forkgate" run --tier identity --only stream.golden.q8 --base ./base-binary --junit base-binary
trouble ./base-binary run --only op.add --html base-binary
cmp -s m.gguf "$root/fixtures/models/seedling-f16.gguf" && cmp -s base-binary "$forkgate" || fail 'a file that was read is gone'

# a model that is not there, and one that is no model
expect 2 "$forkgate" run --only stream.golden.f16 -m none.gguf
has out 'none.gguf'
echo 'no model' >bad.gguf
expect 2 "$forkgate" run --only stream.golden.f16 -m bad.gguf

# the tile experiment: parity stays green, identity is red and says per stream where the rails part
expect 1 "$forkgate" run --only stream.golden.f16 --geometry fa_tkv=16
has out 'FAIL stream.golden.f16'
has out 'logits differ from token'
has out 'also    holmes.txt golden: logits differ from token'
has out 'rerun   forkgate run --only stream.golden.f16'
last out 'forkgate: 0 passed, 1 failed, 0 skipped'
expect 0 "$forkgate" run --only op.attention --geometry fa_tkv=16

# launch parameters that may not carry bits are not another golden
expect 0 "$forkgate" run --only stream.golden.f16 --geometry fa_tq=128,fa_splits=1 --chunk 7 --threads 1

# a tree without goldens, without a budget row, with a damaged golden
mkdir tree tree/golden
ln -s "$root/fixtures" tree/fixtures
cp "$root/golden/budgets.csv" "$root/golden/suite.csv" tree/golden/
FORKGATE_ROOT=$PWD/tree expect 2 "$forkgate" run --only stream.golden.q8
has out 'INCONCLUSIVE'
has out 'no golden for this model'
grep -v '^rmsnorm' "$root/golden/budgets.csv" >tree/golden/budgets.csv
FORKGATE_ROOT=$PWD/tree expect 2 "$forkgate" run --only op.rmsnorm
has out 'golden/budgets.csv has no row for op rmsnorm'
cp -r "$root/golden/manifest.csv" "$root"/golden/sm_90-q8 tree/golden/
for f in tree/golden/sm_90-q8/*.fgd; do printf '\125' | dd of="$f" bs=1 seek=4000 conv=notrunc status=none; done
FORKGATE_ROOT=$PWD/tree expect 2 "$forkgate" run --only stream.golden.q8
has out 'ERROR stream.golden.q8'

# trouble in one case is that case's ERROR; the others are judged all the same
mkdir -p odd/golden odd/fixtures
for f in "$root"/fixtures/*; do ln -s "$f" odd/fixtures/; done
rm odd/fixtures/op_cases.csv
cp "$root/golden/budgets.csv" odd/golden/
{
  head -n 1 "$root/fixtures/op_cases.csv"
  echo 'embed,q9_9,rows=1 cols=32 n_vocab=2,normal,1,quick,no such type'
  grep '^embed' "$root/fixtures/op_cases.csv"
} >odd/fixtures/op_cases.csv
FORKGATE_ROOT=$PWD/odd expect 2 "$forkgate" run --only op.embed
has out 'ERROR op.embed'
has out "no dtype 'q9_9'"
has out 'pattern run x1 of 541 checks'

# a bound that is not met is red; its row says how much and where
sed 's/^rope,\*,max_scaled,[^,]*/rope,*,max_scaled,1e-12/' "$root/golden/budgets.csv" >tree/golden/budgets.csv
FORKGATE_ROOT=$PWD/tree expect 1 "$forkgate" run --only op.rope --csv rope.csv
has out 'FAIL op.rope'
has out 'worst ['
grep -q ',FAIL,' rope.csv || fail 'the row is FAIL'

# a case table that has shrunk is greener for it, so it is no fixture: ERROR, with its name; the gates are judged all the same
grep -v '^add,.*quick' "$root/fixtures/op_cases.csv" >odd/fixtures/op_cases.csv
sed -n '/^add,/p' "$root/fixtures/op_cases.csv" | head -n 1 >>odd/fixtures/op_cases.csv
FORKGATE_ROOT=$PWD/odd expect 2 "$forkgate" run --only op.add
has out 'ERROR fixtures.manifest'
has out 'fixtures/op_cases.csv is not what fixtures/MANIFEST.csv lists'
last out 'forkgate: 1 passed, 1 failed, 0 skipped'
rm odd/fixtures/MANIFEST.csv
FORKGATE_ROOT=$PWD/odd expect 2 "$forkgate" run --only op.add
has out 'fixtures/MANIFEST.csv'
grep -v '^fixtures/op_cases.csv' "$root/fixtures/MANIFEST.csv" >odd/fixtures/MANIFEST.csv
FORKGATE_ROOT=$PWD/odd expect 2 "$forkgate" run --only op.add
has out 'fixtures/op_cases.csv is not listed'

# a bound that was loosened is greener for it too
ln -sf "$root/fixtures/op_cases.csv" "$root/fixtures/MANIFEST.csv" odd/fixtures/
sed 's/^rope,\*,max_scaled,[^,]*/rope,*,max_scaled,1e-3/' "$root/golden/budgets.csv" >odd/golden/budgets.csv
FORKGATE_ROOT=$PWD/odd expect 2 "$forkgate" run --only op.rope
has out 'golden/budgets.csv is not what fixtures/MANIFEST.csv lists'
last out 'forkgate: 1 passed, 1 failed, 0 skipped'
cp "$root/golden/budgets.csv" odd/golden/
FORKGATE_ROOT=$PWD/odd expect 0 "$forkgate" run --only op.rope

# .. and so is a suite of fewer tests (refused here, inside itself: the row about its list is there all the same)
sed 's/^unit.act,.*/unit.act,1/' "$root/golden/suite.csv" >odd/golden/suite.csv
FORKGATE_IN_SUITE=1 FORKGATE_ROOT=$PWD/odd expect 2 "$forkgate" run --tier suite
has out 'golden/suite.csv is not what fixtures/MANIFEST.csv lists'
cp "$root/golden/suite.csv" odd/golden/
FORKGATE_IN_SUITE=1 FORKGATE_ROOT=$PWD/odd expect 2 "$forkgate" run --tier suite
lacks out 'fixtures.manifest'

# every folder that a tier reads is listed, and each of its files
rm odd/fixtures/MANIFEST.csv
for folder in models reference peer; do
    grep -v "^fixtures/$folder/" "$root/fixtures/MANIFEST.csv" >odd/fixtures/MANIFEST.csv
    FORKGATE_ROOT=$PWD/odd expect 2 "$forkgate" run --only op.add
    has out "fixtures/$folder/ is not listed"
done
grep -v '^fixtures/models/seedling-f16.gguf,' "$root/fixtures/MANIFEST.csv" >odd/fixtures/MANIFEST.csv
FORKGATE_ROOT=$PWD/odd expect 2 "$forkgate" run --only op.add
has out 'fixtures/models/seedling-f16.gguf is not listed'

# a prompt that identity reads
rm -r odd/fixtures/MANIFEST.csv odd/fixtures/prompts
ln -s "$root/fixtures/MANIFEST.csv" odd/fixtures/
cp -r "$root/fixtures/prompts" odd/fixtures/
echo >>odd/fixtures/prompts/single.txt
cp -r "$root/golden/manifest.csv" "$root"/golden/sm_90-q8 odd/golden/
FORKGATE_ROOT=$PWD/odd expect 2 "$forkgate" run --only stream.golden.q8 --battery small
has out 'fixtures/prompts/single.txt is not what'
rm odd/fixtures/MANIFEST.csv
cp "$root/fixtures/prompts/single.txt" odd/fixtures/prompts/
for line in prompts/ prompts/whale; do
    grep -v "^fixtures/$line" "$root/fixtures/MANIFEST.csv" >odd/fixtures/MANIFEST.csv
    FORKGATE_ROOT=$PWD/odd expect 2 "$forkgate" run --only stream.golden.q8 --battery small
    has out "fixtures/$line"
    has out 'is not listed'
done

# an option that no selected tier reads is refused, not ignored; rounds all count
expect 2 "$forkgate" run --only op.add --route q8
has err '--route is read by tiers tolerance and perf only'
trouble "$forkgate" run --tier identity --kv f32
has err '--kv f32 goes with route f32, and run judges streams on routes f16 and q8'
trouble "$forkgate" run --class fa --cause x --tier tolerance,perf --route f32 --kv f32
# .. or the banner says so; what is not the default is said there too
expect 0 "$forkgate" run --backend cpu --only op.add --no-graph
has out '(--no-graph: not read by backend cpu) | battery quick'
lacks out ' kv='
expect 0 "$forkgate" run --only op.add --kv q8_0
has out 'fa_splits=8 kv=q8_0 | battery quick'
expect 2 "$forkgate" run --repeat 0
expect 0 "$forkgate" run --only op.add --repeat 3 --csv three.csv
has out 'round 3 of 3'
last out 'forkgate: 3 passed, 0 failed, 0 skipped'
[ "$(grep -c ',op.add,' three.csv)" -eq $((3 * $(grep -c ',op.add,' run.csv))) ] || fail 'rows of every round'
expect 0 "$forkgate" run --only stream.repeat.q8 --battery small
grep -Eq '^control runs: [1-9][0-9]* streams, 0 false alarms$' out || fail 'control runs are counted'

# a model that no golden knows: the gate's controls are green, what it claims is not judged
expect 0 "$forkgate" make-model --shape tiny --seed 7 tiny.gguf
other() { "$forkgate" run --tier identity --only stream.golden.q8 -m tiny.gguf "$@"; }
expect 2 other -v
has out 'no golden for this model (--base OTHER/forkgate'
has out '  skip  stream.golden.q8'
expect 0 "$forkgate" run --tier identity --only stream.launch.q8 -m tiny.gguf --battery full
has out 'skipped: 1461 tokens of prompt do not fit a context of 512'

# .. every kernel ran all the same; a kernel that no gate reaches is red, whosever the model
expect 0 "$forkgate" run --tier parity,identity -m tiny.gguf --battery small -v --csv identity.csv
has out 'coverage: 20 of 20 kernels ran'
has out '  act_f32                  op.matmul'
# .. every gate of streams says that kernels ran, and names those of the engine that made the row; a fresh process counts its own
for gate in $("$forkgate" run --list --tier identity | awk '{print $2}'); do
  grep -q ",identity,$gate,\"\",launched,[^,]*matmul[^,]*attention[^,]*,count,0,0,0,PASS" identity.csv || fail "$gate: no kernel is known to have run"
done
grep -q ',stream.repeat.q8,[^,]*,fresh-process,"",rows,' identity.csv || fail 'kernels of another process'
grep -q ',stream.launch.f16,threads 1,heeded,"",count,' identity.csv || fail 'kernels of an engine that ran nothing'
grep -q ',stream.launch.f16,kv [^,]*,heeded,[^,]*kv_append_q8_0' identity.csv || fail 'kernels of the other engine'
! grep ',stream.launch.f16,kv [^,]*,heeded,' identity.csv | grep -q kv_append_f16 || fail 'kernels of an engine that made no such stream'
mkdir few few/fixtures
for f in "$root"/fixtures/*; do ln -s "$f" few/fixtures/; done
ln -s "$root/golden" few/golden
rm few/fixtures/op_cases.csv
grep -v '^matmul,.*route=ROUTE_F32 ' "$root/fixtures/op_cases.csv" >few/fixtures/op_cases.csv
FORKGATE_ROOT=$PWD/few expect 1 "$forkgate" run --tier parity,identity -m tiny.gguf --battery small
has out 'FAIL coverage.kernels'
has out 'never ran: act_f32 matmul_f32;'

# .. or it is held against another build, its dumps or none of the sort, and never against itself
printf '#!/bin/sh\nexec "%s" "$@" --chunk 7\n' "$forkgate" >base && chmod +x base
expect 0 other --base "$work/base" -v
has out 'ok    base         rows       0 <= 0  holmes.txt  64 records equal'
lacks out 'golden       rows'
expect 1 other --base "$work/base" --geometry fa_tkv=16 --csv base.csv
has base.csv ' --base '
# .. the first step of every prompt first: is it prefill, or does the stream drift later?
grep -q ',first-step,.*,FAIL,.*the first step differs, so prefill does already' base.csv || fail 'a first step that differs'
grep -q ',first-step,.*,PASS,.*the first step is equal: a stream that differs all the same drifts later' base.csv || fail 'a first step that is equal'
[ "$(grep -c ',first-step,' base.csv)" -eq "$(grep -c ',base,' base.csv)" ] || fail 'a first step of every prompt'
# .. of one prompt where one is picked: neither side computes the others
cat >asked <<EOF
#!/bin/sh
cp "\$3" "$work/asked.csv"
exec "$forkgate" "\$@" --chunk 7
EOF
chmod +x asked
expect 0 "$forkgate" run --tier identity --only stream.golden.q8/single -m tiny.gguf --base "$work/asked" -v
has out '4 checks, all exact'
lines asked.csv 2
has asked.csv single
expect 2 "$forkgate" run --tier identity --only stream.golden.q8/nosuch -m tiny.gguf
has out '/nosuch: no prompt of this battery has that in its name'
expect 2 other --base "$forkgate"
has out 'self-comparison proves nothing'
# .. nor the same build behind another name
printf '#!/bin/sh\nexec "%s" "$@"\n' "$forkgate" >wrapped && chmod +x wrapped
expect 2 other --base "$work/wrapped"
has out 'are one build with one set of options: self-comparison proves nothing'
expect 0 "$forkgate" run --tier identity --only stream.golden.f16 --battery small --base "$root/golden"
expect 2 other --base "$root/golden"
has out 'no golden for prompt single'
# .. nor with what may not be compared with it: the rule of `forkgate diff`, and a promise of greed that is looked at
small="single chapter night whale-512"
of_base() { "$forkgate" run --tier identity --only stream.golden.f16 --battery small --base "$work/dumps" "$@"; }
made() { # made OPTION..: dumps of this build with other options
  rm -rf dumps; mkdir dumps
  for p in $small; do "$forkgate" generate -f "$root/fixtures/prompts/$p.txt" -o "dumps/$p.fgd" "$@" >/dev/null 2>&1 || fail generate; done
}
made -n 32 --temp 0.00001 --seed 3 --chunk 7
expect 2 of_base
has out 'sampler differs: A = temp='
has out 'pattern base x4 of 10 checks'
made -n 32 --repeat-penalty 1.0001 --chunk 7
expect 2 of_base
has out 'repeat_penalty differs: A = 1.00010002, B = 1'
made -n 1 --chunk 7
expect 2 of_base --csv first.csv
has out "the base's stream is shorter than this battery: its first step alone was judged"
[ "$(grep -c ',first-step,.*,PASS,' first.csv)" -eq 4 ] || fail 'n=1 is a base for the first step'
if [ -x "$forkgate-faults" ]; then
  printf '#!/bin/sh\nFORKGATE_FAULT=rt-hiddenpenalty exec "%s-faults" "$@"\n' "$forkgate" >greedless && chmod +x greedless
  expect 2 "$forkgate" run --tier identity --only stream.golden.f16 --battery small --base "$work/greedless"
  has out 'the base is not greedy: '
fi
rm -rf dumps; mkdir dumps
printf 'step,token_id,token_text_escaped,id1,logit1,id2,logit2\n0,5,a,5,2.0,6,1.0\n' >plain.csv
for p in $small; do "$forkgate" import plain.csv -o "dumps/$p.fgd" -P n_vocab=4096 -P sampler=greedy -P repeat_penalty=1 >/dev/null 2>&1 || fail import; done
expect 2 of_base
has out 'the base has no hash of each row of logits'
expect 2 other --base "$work/nowhere"
has out 'No such file'
expect 2 "$forkgate" run --tier identity --only stream.repeat.q8 --base "$work/base"
has err '--base is read by tiers identity (stream.golden), tolerance and perf only'

# an engine that hangs in a gate ends with the run, and so does the gate's folder
mkdir ended
printf '#!/bin/sh\nsleep 600 &\necho $! >%s\nwait\n' "$work/started" >hangs && chmod +x hangs
TMPDIR=$work/ended "$forkgate" run --class fa --cause x --battery small --only tolerance.stream.f16 --base "$work/hangs" >out 2>err &
run=$!
for _ in $(seq 600); do [ -s started ] && break; sleep 0.1; done
[ -s started ] || fail "the engine was not started"
kill -TERM $run
wait $run
for _ in $(seq 50); do runs "$(cat started)" || [ -n "$(ls -A ended)" ] || break; sleep 0.1; done
! runs "$(cat started)" || fail "what the engine started runs on"
[ -z "$(ls -A ended)" ] || fail "$(ls ended) is left"
exit 0
