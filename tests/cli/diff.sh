#!/bin/bash
# diff.sh - `forkgate diff` as a shell sees it: exit codes, streams, report, CSV.
# usage: diff.sh FORKGATE
forkgate=$1
. "$(dirname "$0")/expect.sh"

stream a "10, the,20,50,15" "11, sea,21,51,15" "220, Lyon,18.412,911,18.381" "12, and,20,50,15"
stream b "10, the,20,50,15" "11, sea,21.01,51,15" "911, Marseille,18.405,220,18.399" "13, or,20,50,15"
stream short "10, the,20,50,15" "11, sea,21,51,15"

# identical: exit 0, nothing on stderr, last line alone
expect 0 "$forkgate" diff a.fgd a.fgd
last out 'forkgate: IDENTICAL'
has out 'provenance: nothing differs'
lines err 0

# a fork: where, what, how close, drift, verdict, next; exit 1
expect 1 "$forkgate" diff a.fgd b.fgd
has out 'fork at token 2 of 4 | 4, text byte 8'
has out 'context  " the sea"'
has out 'A        [- Lyon-]  id 220  logit 18.4120007  gap 0.0310001373'
has out 'B        {+ Marseille+}  id 911  logit 18.4050007'
has out 'A top-2  id 220 logit 18.4120007, id 911 logit 18.3810005'
has out 'at step 2, over 2 equal tokens'
has out 'ULP of f32'
has out 'verdict    FORK'
has out 'control    none given: pass --control DIR'
lacks out 'next       ' # another engine's streams: there is nothing to run here
last out 'forkgate: FORK'
lines err 0
if LC_ALL=C grep -q $'[^\x01-\x7e]' out; then fail 'a pipe gets ASCII only'; fi
if grep -q $'\033' out; then fail 'a pipe gets no colour'; fi
CLICOLOR_FORCE=1 expect 1 "$forkgate" diff a.fgd b.fgd
grep -q $'\033\[' out || fail 'CLICOLOR_FORCE asks for colour'
NO_COLOR=1 CLICOLOR_FORCE=1 expect 1 "$forkgate" diff a.fgd b.fgd
if grep -q $'\033' out; then fail 'NO_COLOR wins'; fi

# one stream ended
expect 1 "$forkgate" diff a.fgd short.fgd
last out 'forkgate: LENGTH'

# field case A12: a penalty on one side only is not comparable
keys=${keys/repeat_penalty=1/repeat_penalty=1.1} stream penalty "10, the,20,50,15"
stream plain "10, the,20,50,15"
expect 2 "$forkgate" diff plain.fgd penalty.fgd
has out 'repeat_penalty differs: A = 1, B = 1.1'
last out 'forkgate: NOT-COMPARABLE'

# field case A11: agreement on NaN
extra=--keep-nan stream nan1 "10, the,20,50,15" "0,!,nan,1,0"
cp nan1.fgd nan2.fgd
expect 2 "$forkgate" diff nan1.fgd nan2.fgd
has out 'from record 1 on: the top-1 logit is NaN or infinite'
last out 'forkgate: INVALID'

# same tokens, other logits: identical by default, exit 1 when the bits are asked for
printf 'step,token_id,row_hash\n0,1,%032d\n' 1 >r1.csv
printf 'step,token_id,row_hash\n0,1,%032d\n' 2 >r2.csv
expect 0 "$forkgate" import r1.csv -o r1.fgd
expect 0 "$forkgate" import r2.csv -o r2.fgd
expect 0 "$forkgate" diff r1.fgd r2.fgd
last out 'forkgate: IDENTICAL, logits differ'
expect 1 "$forkgate" diff --bits r1.fgd r2.fgd
last out 'forkgate: IDENTICAL, logits differ'

# no hash, no rails: who asks for the bits is not told that they are the same
expect 0 "$forkgate" diff a.fgd a.fgd
expect 2 "$forkgate" diff --bits a.fgd a.fgd --csv bits.csv --eol lf
last out 'forkgate: IDENTICAL, rails unknown'
has bits.csv ',IDENTICAL,2,'
has bits.csv 'forkgate diff a.fgd a.fgd --bits'
expect 0 "$forkgate" diff --bits r1.fgd r1.fgd
mkdir bits1
cp a.fgd r1.fgd bits1
expect 2 "$forkgate" diff --bits bits1 bits1
last out 'forkgate: 2 identical (0 with other logits, 1 of unknown rails), 0 exact-tie, 0 knife-edge, 0 fork, 0 length, 0 invalid, 0 not comparable, 0 unusable'
expect 0 "$forkgate" diff bits1 bits1

# the CSV row
expect 1 "$forkgate" diff a.fgd b.fgd --csv row.csv --eol lf
lines row.csv 2
has row.csv '1,a.fgd,b.fgd,FORK,1,4,4,2,2,2,8,220,911," Lyon"," Marseille"'
mkdir "it's"
cp a.fgd b.fgd "it's"
expect 1 "$forkgate" diff "it's/a.fgd" "it's/b.fgd" --control "it's" --csv row2.csv --eol lf
sed -n '2s/.*,\(forkgate diff .*\)$/\1/p; 2s/.*,"\(forkgate diff .*\)"$/\1/p' row2.csv | sed 's/""/"/g' >paste.sh
forkgate() { "$forkgate" "$@"; }
expect 1 . ./paste.sh
has out 'control    none applies: '
last out 'forkgate: FORK'
head -n 1 row.csv | grep -q '^schema,a,b,verdict,exit,' || fail 'CSV header'
expect 1 "$forkgate" diff a.fgd b.fgd --csv crlf.csv
[ "$(tail -c 2 crlf.csv | od -An -tx1 | tr -d ' \n')" = 0d0a ] || fail 'CRLF by default'

# damage: one line, file, block; exit 2
cp a.fgd cut.fgd
truncate -s 1100 cut.fgd
trouble "$forkgate" diff a.fgd cut.fgd
has err 'forkgate: diff: cut.fgd: cut short at byte offset 1100'
cp a.fgd more.fgd
printf x >>more.fgd
trouble "$forkgate" diff more.fgd a.fgd
has err '1 bytes follow the end of the dump'
: >empty.fgd
trouble "$forkgate" diff a.fgd empty.fgd
has err 'empty.fgd: 0 bytes'
trouble "$forkgate" diff a.fgd nowhere.fgd
trouble "$forkgate" diff a.fgd a.csv
trouble "$forkgate" diff a.fgd b.fgd --control nowhere
trouble "$forkgate" diff a.fgd b.fgd --csv nowhere/x.csv

# what was read is not replaced, and a pipe is not waited for
trouble "$forkgate" diff a.fgd b.fgd --csv a.fgd
trouble "$forkgate" diff a.fgd b.fgd --csv ./b.fgd
expect 1 "$forkgate" diff a.fgd b.fgd
mkfifo pipe
trouble timeout 10 "$forkgate" diff pipe a.fgd

# a key that one side lacks is not said to match
extra='-P model.xxh3=m' stream named "10, the,20,50,15" "11, sea,21,51,15"
expect 0 "$forkgate" diff named.fgd short.fgd
has out 'm | (absent)  (must match; not known on one side)'

# usage
expect 2 "$forkgate" diff a.fgd
expect 2 "$forkgate" diff a.fgd b.fgd c.fgd
expect 2 "$forkgate" diff a.fgd b.fgd --nonsense
expect 2 "$forkgate" diff a.fgd b.fgd --eol cr
expect 0 "$forkgate" diff --help
has out 'Examples:'
expect 2 sh -c "'$forkgate' diff a.fgd a.fgd > /dev/full"
has err 'cannot write to standard output'
echo 'cli.diff: passed'
