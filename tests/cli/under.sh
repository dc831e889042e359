#!/bin/bash
# under.sh - `forkgate run --under`: what compute-sanitizer may say, by a stand-in for it that runs the child on the CPU; and
# the selection of backends, which is the same question: what was not looked at is never green.
# usage: under.sh FORKGATE
forkgate=$1
forkgate_tests=$(cd "$(dirname "$0")/.." && pwd)
. "$forkgate_tests/cli/expect.sh"

# A stand-in: notes its arguments, runs the child (device work on the CPU), then closes as $SAYS asks.
mkdir bin
cat >bin/compute-sanitizer <<'S'
#!/bin/bash
printf '%s\n' "$*" >>"$WORK/asked"
echo '========= COMPUTE-SANITIZER'
if [ "$SAYS" = refuse ]; then echo '========= Error: Device not supported. Please refer to the documentation'; exit 1; fi
while [ $# -gt 0 ] && [ "${1#--}" != "$1" ]; do shift 2; done
child=()
for word; do if [ "$word" = cuda ]; then child+=(cpu); else child+=("$word"); fi; done
"${child[@]}"
code=$?
case $SAYS in
  0) echo '========= ERROR SUMMARY: 0 errors' ;;
  host) for ((i = 0; i < ${#child[@]}; i++)); do [ "${child[i]}" = --csv ] && rows=${child[i + 1]}; done
    sed -Ei '2,$ s/^(([^,]*,){5})[^,]*/\1""/' "$rows" # no kernel has run
    echo '========= ERROR SUMMARY: 0 errors' ;;
  3) echo '========= Invalid __global__ write of size 4 bytes'; echo '========= ERROR SUMMARY: 3 errors'; exit 86 ;;
  race) echo '========= RACECHECK SUMMARY: 1 hazard displayed (0 errors, 1 warning)'; exit 86 ;;
  much) echo '========= ERROR SUMMARY: 0 errors'; printf 'a\0b\n'
    yes 'a line of the program itself, as long as a line of text is' | head -n 80000
    echo '========= ERROR SUMMARY: 2 errors'; exit 86 ;;
  silent) ;;
  odd) echo '========= ERROR SUMMARY: 0 errors'; exit 7 ;;
esac
exit $code
S
chmod +x bin/compute-sanitizer
export WORK=$work
under() { PATH=$work/bin:$PATH "$forkgate" run --only op.add "$@"; }

# no error: the gate's rows and the tool's
SAYS=0 expect 0 under --under memcheck --csv rows.csv
last out 'forkgate: 1 passed, 0 failed, 0 skipped'
grep -q '^1,parity,op.add,"",memcheck,"",errors,0,0,0,PASS,' rows.csv || fail 'the row of the tool'
grep -q ',op.add,.*,launched,add,missing,0,0,0,PASS,' rows.csv || fail 'the rows of the gate'
has asked '--tool memcheck --target-processes all'
has asked '--backend cuda'

grep -q -e "--only 'op.add/n=1 .*' --backend c.* --under memcheck" rows.csv || fail 'the repro of a gate row'
PATH=/nowhere expect 2 "$forkgate" run --under racecheck --only op.add
has out 'rerun   forkgate run --only op.add --backend cuda --under racecheck'

# errors are red, with the first of them; a warning of racecheck is a race
SAYS=3 expect 1 under --under memcheck
has out '3 errors, first: Invalid __global__ write of size 4 bytes'
SAYS=much expect 1 under --under memcheck # a second process, behind much text
has out '2 errors'
SAYS=race expect 1 under --under racecheck
has out 'FAIL op.add'

# refused, silent, or ended badly: ERROR, never a pass
SAYS=refuse expect 2 under --under initcheck
has out 'compute-sanitizer --tool initcheck refused (exit 1): Error: Device not supported.'
SAYS=silent expect 2 under --under synccheck
has out 'refused'
SAYS=odd expect 2 under --under memcheck
has out 'under memcheck: exit 7'

# a gate that is skipped whole (an optional model that is not there) is a SKIP under the tool too
source=$(dirname "$forkgate_tests")
mkdir -p root/fixtures/models
ln -s "$source/golden" root/golden
ln -s "$source"/fixtures/[!m]* "$source/fixtures/mutants.csv" root/fixtures/
ln -s "$source"/fixtures/models/*.gguf root/fixtures/models/
SAYS=0 FORKGATE_ROOT=$work/root PATH=$work/bin:$PATH expect 2 "$forkgate" run --only model.peer.smollm2 --under memcheck
has out 'is not here: tools/fetch-model gets it'
last out 'forkgate: 0 passed, 0 failed, 1 skipped'

# no tool; the wrong backend
PATH=/usr/bin:/bin expect 2 "$forkgate" run --only op.add --under memcheck
has out 'compute-sanitizer is not on PATH'
SAYS=0 expect 2 under --under memcheck --backend cpu
has out 'it needs --backend cuda'

# a gate that launches nothing has nothing to be looked at: no pass either
SAYS=0 PATH=$work/bin:$PATH expect 0 "$forkgate" run --only model.rope --under memcheck
SAYS=host PATH=$work/bin:$PATH expect 2 "$forkgate" run --only model.rope --under memcheck
has out 'no kernel of this gate ran'
last out 'forkgate: 0 passed, 0 failed, 1 skipped'

# words
expect 2 "$forkgate" run --under memchek
has err 'want memcheck, racecheck, initcheck or synccheck'
expect 2 "$forkgate" run --under memcheck --tier parity,identity
has err 'not with tier identity'
expect 2 "$forkgate" run --under memcheck --class fa --cause x

# backends: a list; one that is not here is one ERROR with one line, beside what the other says
expect 0 "$forkgate" run --only op.add --backend cpu --csv cpu.csv
has out 'verdict: PASS of what was run, not a landing verdict (parity: op.add only; not run: suite, identity; cpu only; backend cuda NOT SELECTED)'
grep -q ',cpu.$' cpu.csv || fail 'rows carry their backend'
if "$forkgate" --version | grep -q '^cuda: none'; then
  expect 2 "$forkgate" run --only op.add --backend cpu,cuda
  has out 'verdict: NOT JUDGED (cpu and cuda)'
  has out 'ERROR backend.cuda'
  has out 'no CUDA device'
  last out 'forkgate: 1 passed, 1 failed, 0 skipped'
  expect 2 "$forkgate" run --only op.add --backend cuda
  last out 'forkgate: 0 passed, 1 failed, 0 skipped'
  expect 0 "$forkgate" run --only op.add
  has out 'cpu only; backend cuda NOT SELECTED)'
fi
expect 2 "$forkgate" run --only op.add --backend cpu,cpux
has err 'want cpu, cuda or cpu,cuda'
expect 2 "$forkgate" generate -p a -n 1 --backend cpu,cuda
has err 'want cpu or cuda'
echo 'cli.under: passed'
