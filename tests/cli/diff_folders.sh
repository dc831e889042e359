#!/bin/bash
# diff_folders.sh - two folders paired by name, controls, and a verdict for each pair.
# usage: diff_folders.sh FORKGATE
forkgate=$1
. "$(dirname "$0")/expect.sh"

mkdir old new
same=("10, the,20,50,15" "11, sea,21,51,15")
stream old/p1 "${same[@]}"
stream new/p1 "${same[@]}"
stream old/p2 "${same[@]}" "220, Lyon,18.5,911,18.25"
stream new/p2 "${same[@]}" "911, Rome,18.5,220,18.25"
stream old/p3 "${same[@]}"
stream new/p3 "10, the,20,50,15"

expect 1 "$forkgate" diff old new
lines out 4
has out 'IDENTICAL      p1.fgd'
has out 'FORK           p2.fgd  fork at 2 of 3  gap 0.25  | 0.25'
has out 'LENGTH         p3.fgd'
last out 'forkgate: 1 identical (0 with other logits), 0 exact-tie, 0 knife-edge, 1 fork, 1 length, 0 invalid, 0 not comparable, 0 unusable'
expect 0 "$forkgate" diff old old
expect 1 "$forkgate" diff old new --csv all.csv --eol lf
lines all.csv 4

# a pair without a partner, or damaged, is trouble; a fork beside it outranks it
rm old/p2.fgd old/p3.fgd new/p3.fgd
expect 2 "$forkgate" diff old new
has out 'UNUSABLE       p2.fgd'
truncate -s 700 new/p2.fgd
cp new/p2.fgd old/p2.fgd
expect 2 "$forkgate" diff old new --csv all.csv --eol lf
has out 'cut short'
has all.csv 'INVALID'
stream old/p4 "${same[@]}" "220, Lyon,18.5,911,18.25"
stream new/p4 "${same[@]}" "911, Rome,18.5,220,18.25"
expect 1 "$forkgate" diff old new

# nothing compared is not a pass; a folder and a file do not mix
mkdir none1 none2
trouble "$forkgate" diff none1 none2
trouble "$forkgate" diff old new/p1.fgd

# controls: X and its replay under another fa_tkv allow 2 x delta; the candidate's own geometry does not count
mkdir control
id='-P model.xxh3=m -P route=f16 -P prompt.xxh3=p'
base='-P geometry=fa_tq=64,fa_tkv=32,fa_chunk=256,fa_splits=8'
t16='-P geometry=fa_tq=64,fa_tkv=16,fa_chunk=256,fa_splits=8'
t64='-P geometry=fa_tq=64,fa_tkv=64,fa_chunk=256,fa_splits=8'
extra="$id $base" stream control/x "${same[@]}"
hash=$(sed -n 's/.*stream \([0-9a-f]\{32\}\).*/\1/p' err)
[ -n "$hash" ] || fail 'import prints the stream hash'
extra="$id $t16 -P follow=$hash" stream control/y16 "10, the,20.5,50,15" "11, sea,21,51,15"
extra="$id $base" stream a "${same[@]}" "220, Lyon,18.5,911,18.25"
extra="$id $t16" stream b "${same[@]}" "911, Rome,18.5,220,18.25"
expect 1 "$forkgate" diff a.fgd b.fgd --control control
has out 'control    none applies: control: no pair there is a control for this comparison'
last out 'forkgate: FORK'
mkdir fa fb
cp a.fgd fa/p.fgd
cp b.fgd fb/p.fgd
expect 1 "$forkgate" diff fa fb --control control
has out 'FORK           p.fgd'
has out 'no control applies'
extra="$id $t64 -P follow=$hash" stream control/y64 "10, the,20,50,15" "11, sea,21.125,51,15"
expect 1 "$forkgate" diff a.fgd b.fgd --control control
has out 'control    delta 0.125, bound 2 x delta = 0.25, from control (1 pairs: fa_tkv=64; 1 not applicable)'
last out 'forkgate: KNIFE-EDGE'
expect 1 "$forkgate" diff a.fgd b.fgd
last out 'forkgate: FORK'

# the calibrated row of golden/budgets.csv serves when no folder is given
mkdir -p root/golden
printf 'op,dtype,metric,bound,model,route,change,derivation,device,date\nlogits,f32,delta,0.5,m,f16,fa_tkv,measured,cpu,2026-12-01\n' >root/golden/budgets.csv
FORKGATE_ROOT=$work/root expect 1 "$forkgate" diff a.fgd b.fgd
has out 'golden/budgets.csv: logits delta, route f16, change fa_tkv'
last out 'forkgate: KNIFE-EDGE'
printf 'op,dtype\nlogits\n' >root/golden/budgets.csv
FORKGATE_ROOT=$work/root expect 1 "$forkgate" diff a.fgd b.fgd
has out 'control    none applies: '
last out 'forkgate: FORK'
echo 'cli.diff_folders: passed'
