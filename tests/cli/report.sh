#!/bin/bash
# report.sh - `forkgate report export`: checked, filtered, converted; what is no report is refused.
# usage: report.sh FORKGATE
forkgate=$1
. "$(dirname "$0")/expect.sh"

expect 0 "$forkgate" run --only op.add --csv run.csv
expect 0 "$forkgate" report export run.csv --eol lf -o lf.csv
if grep -q $'\r' lf.csv; then fail 'lf was asked for'; fi
grep -q $'\r' run.csv || fail 'RFC 4180 wants CRLF'
expect 0 "$forkgate" report export lf.csv -o again.csv
cmp -s run.csv again.csv || fail 'a round trip changes nothing'

# to standard output; stderr says how many
expect 0 "$forkgate" report export run.csv --verdict PASS --gate op.add --eol lf
cmp -s out lf.csv || fail 'the filter lost rows'
lines err 1
trouble "$forkgate" report export run.csv --verdict FAIL
has err 'no row matches'
# .. each word is its own tier, its own verdict
for word in suite identity tolerance perf; do
  sed "s/,parity,op.add,/,$word,op.add,/" lf.csv >of.csv
  expect 0 "$forkgate" report export of.csv --tier $word --eol lf
  cmp -s out of.csv || fail "--tier $word"
done
for word in SKIP ERROR BLIND INCONCLUSIVE; do
  sed "2s/,PASS,/,$word,/" lf.csv >of.csv
  expect 0 "$forkgate" report export of.csv --verdict $word --eol lf
  [ "$(sed 1d out)" = "$(sed -n 2p of.csv)" ] || fail "--verdict $word"
done
expect 0 "$forkgate" report export run.csv --junit run.xml -o x.csv
has run.xml '<testsuites'

# one file twice, or in place of what was read
cp run.csv kept.csv
for twice in '-o both --junit both' '-o both --junit ./both'; do
  # shellcheck disable=SC2086 # options are words
  trouble "$forkgate" report export run.csv $twice
  has err 'two reports in one file'
done
[ ! -e both ] || fail 'a file is left behind'
trouble "$forkgate" report export run.csv --verdict PASS -o ./run.csv
has err 'the output would replace the input'
trouble "$forkgate" report export run.csv --junit run.csv -o x.csv
trouble "$forkgate" report compare run.csv lf.csv -o lf.csv
trouble "$forkgate" report html run.csv -o run.csv
cmp -s run.csv kept.csv || fail 'the input is what it was'

# refusals
trouble "$forkgate" report export none.csv
echo 'a,b' >ab.csv
trouble "$forkgate" report export ab.csv
has err "no column 'schema_version'"
sed '3s/,PASS,/,FAIL,/' lf.csv >lie.csv
trouble "$forkgate" report export lie.csv
has err 'record 2'
has err 'contradicted by value and bound'
head -c 650 lf.csv >cut.csv
trouble "$forkgate" report export cut.csv
expect 2 "$forkgate" report
expect 2 "$forkgate" report export
expect 2 "$forkgate" report export run.csv --verdict GREEN
expect 2 "$forkgate" report export run.csv --tier none
sed '3s/,measured,/,guessed,/' lf.csv >grade.csv
trouble "$forkgate" report export grade.csv
has err "grade: 'guessed'"

# compare: nothing, then a verdict, a check that went, a bound, a headroom, a time; worse first
expect 0 "$forkgate" report compare run.csv lf.csv
last out 'forkgate: NOTHING-WORSE'
lines out 3
[ ! -s err ] || fail 'nothing to say on stderr'
"$forkgate" run --only op.rope --csv rope.csv >/dev/null 2>&1 || fail 'op.rope'
"$forkgate" report export rope.csv --eol lf -o old.csv 2>/dev/null || fail 'export'
head -n 1 old.csv | grep -q '^schema_version,tier,gate,case,arm,kernels,metric,value,bound,headroom,verdict,' || fail 'columns'
awk -F, -v OFS=, 'NR == 4 { $11 = "SKIP" } NR == 6 { next } NR == 10 && $9 + 0 == 0 { $9 = "1" } { print }' old.csv >new.csv
awk -F, -v OFS=, '!done && $11 == "PASS" && $9 + 0 > 0 && $10 + 0 > 0 && $10 + 0 < 0.7 { $8 = $9 * ($10 + 0.2); done = 1 } { print }' new.csv >newer.csv
expect 1 "$forkgate" report compare old.csv newer.csv -o changes.csv --eol lf
last out 'forkgate: WORSE'
has out 'worse      op.rope                PASS -> SKIP, 1 check'
has out 'vanished   op.rope                not checked any more, 1 check'
has out 'loosened   op.rope                bound 0 -> 1, 1 check'
grep -Eq '^shrank +op.rope +uses 0\.[0-9]+ -> 0\.[0-9]+ of its bound, 1 check$' out || fail 'the ratchet'
head -n 1 changes.csv | grep -q '^change,is_worse,tier,gate,case,arm,metric,verdict_from,' || fail 'CSV header'
lines changes.csv 5
sed -n 2p out | grep -q '^worse' || fail 'worse first'
expect 0 "$forkgate" report compare newer.csv newer.csv --ratchet 0
expect 1 "$forkgate" report compare old.csv newer.csv --ratchet 30
lacks out 'shrank'
awk -F, -v OFS=, 'NR == 3 { $6 = "" } { print }' old.csv >bare.csv
expect 1 "$forkgate" report compare old.csv bare.csv
has out 'bare       op.rope                its evidence is gone (kernels, ref, got), 1 check'
awk -F, -v OFS=, 'NR == 3 { $9 = $10 = "nan" } { print }' old.csv >unbound.csv
expect 1 "$forkgate" report compare old.csv unbound.csv
has out 'loosened   op.rope                bound '
expect 1 "$forkgate" report compare old.csv run.csv
has out "vanished   op.rope                the whole gate, not checked any more, $(($(wc -l <old.csv) - 1)) checks"
has out "appeared   op.add                 the whole gate, new, $(($(wc -l <run.csv) - 1)) checks"
expect 2 "$forkgate" report compare old.csv newer.csv --gate op.add
has err 'no row matches'
expect 2 "$forkgate" report compare old.csv
has err 'give OLD.csv NEW.csv'
expect 2 "$forkgate" report compare old.csv lie.csv
expect 2 "$forkgate" report compare old.csv none.csv
expect 2 "$forkgate" report compare old.csv new.csv --verdict FAIL
has err 'an option of export does not fit compare'
expect 2 "$forkgate" report export old.csv --ratchet 2
expect 2 "$forkgate" report compare old.csv new.csv --ratchet -1
expect 2 "$forkgate" report compare old.csv new.csv -o nowhere/x.csv
exit 0
