#!/bin/bash
# mutants.sh - the two binaries: no trace of a fault in forkgate, the same bits while none is on, clear words about a
# list that is not understood; and `forkgate mutants` on single faults.
# usage: mutants.sh FORKGATE     (forkgate-faults lies beside it)
forkgate=$1
faults=${forkgate}-faults
. "$(dirname "$0")/expect.sh"
root=$(cd "$(dirname "$0")/../.." 2>/dev/null && pwd || true)
[ -f "$root/fixtures/mutants.csv" ] || root=$OLDPWD

# no symbol and no id of a fault in the binary that ships
ids=$(tail -n +2 "$root/fixtures/mutants.csv" | cut -d, -f1)
[ "$(echo "$ids" | wc -l)" -ge 50 ] || fail 'the catalogue is short'
nm "$forkgate" >symbols || fail 'nm'
if grep -E ' (fault_|FAULT)' symbols; then fail 'a fault symbol in forkgate'; fi
strings -a "$forkgate" >text
strings -a "$faults" >text-faults
for id in $ids; do
  if grep -qxF -e "$id" text; then fail "forkgate holds the text $id"; fi
done
grep -qxF 'merge-order' text-faults || fail 'forkgate-faults has no faults'
nm "$faults" | grep -q ' fault_on' || fail 'forkgate-faults has no fault_on'

# with no fault on, both give the same bits, on both routes
for route in f16 q8; do
  for binary in "$forkgate" "$faults"; do
    expect 0 "$binary" generate -f "$root/fixtures/prompts/watson.txt" -n 8 --route $route -o "$(basename "$binary")-$route.fgd"
    lacks err FAULT
  done
  expect 0 "$forkgate" diff forkgate-$route.fgd forkgate-faults-$route.fgd
done

# a fault is on when it is named; a binary without faults says so
FORKGATE_FAULT=rope-pairs expect 0 "$faults" generate -f "$root/fixtures/prompts/watson.txt" -n 8 -o wrong.fgd
expect 1 "$forkgate" diff forkgate-f16.fgd wrong.fgd
FORKGATE_FAULT=rope-pairs expect 0 "$forkgate" generate -f "$root/fixtures/prompts/watson.txt" -n 8 -o ignored.fgd
has err 'FORKGATE_FAULT is ignored'
expect 0 "$forkgate" diff forkgate-f16.fgd ignored.fgd

# .. and a run of it says so, first and with its verdict
FORKGATE_FAULT=rope-pairs expect 0 "$faults" run --only op.add
[ "$(grep -c 'PLANTED FAULTS: rope-pairs' out)" -eq 2 ] || fail 'a run with a planted fault looks like any other'
expect 0 "$faults" run --only op.add
lacks out 'PLANTED'

# what is no fault ends the program at once
for list in merge-ordr merge-order, fail:alloc:0 fail:launch; do
  FORKGATE_FAULT=$list trouble "$faults" --version
  has err "${list%,}"
done

# goldens are not written by a binary that can be told to compute wrong numbers
trouble "$faults" golden refresh --reason test
has err 'forkgate-faults'

# injected failures are clean errors
FORKGATE_FAULT=fail:alloc:5 expect 2 "$faults" generate -p a -n 2
has err 'bytes refused'
FORKGATE_FAULT=fail:copy:1 expect 2 "$faults" generate -p a -n 2
has err 'failed'

# the command
expect 0 "$forkgate" mutants --list
has out 'merge-order'
trouble "$forkgate" mutants --only nonsense
has err "no fault 'nonsense'"
expect 2 "$forkgate" mutants --tier suite
expect 2 "$forkgate" mutants --quick --only rt-tie --tier ''
has err '--tier: want parity, identity or tolerance'
lacks out 'not reached'
trouble "$forkgate" mutants --quick --only rt-tie --tier parity --csv nowhere/x.csv # before the run: nothing is printed
has err 'nowhere/x.csv'
cp "$root/fixtures/models/seedling-f16.gguf" m.gguf
trouble "$forkgate" mutants --quick --only rt-tie --tier parity -m m.gguf --csv ./m.gguf
has err 'the output would replace the input'
expect 0 "$forkgate" mutants --quick --only rt-tie --tier parity --csv one.csv
has out 'rt-tie            both    small    killed'
last out 'forkgate: 1 passed, 0 failed, 0 skipped'
head -n 1 one.csv | grep -q '^date,backend,device,arch,commit,command,id' || fail 'CSV header'
lines one.csv 2

# a plant that parity cannot see is a hole when only parity is asked
expect 1 "$forkgate" mutants --quick --only merge-order --tier parity
has out 'HOLE'
last out 'forkgate: 0 passed, 1 failed, 0 skipped'

# a kernel's plant says nothing here, and that is not a pass
expect 2 "$forkgate" mutants --only dec-shuffle
last out 'forkgate: 0 passed, 0 failed, 1 skipped'
