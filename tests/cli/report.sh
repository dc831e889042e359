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
expect 0 "$forkgate" report export run.csv --junit run.xml -o x.csv
has run.xml '<testsuites'

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
exit 0
