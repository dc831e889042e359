#!/bin/bash
# inspect_import.sh - a dump as CSV and back, through the commands; refusals with record and line.
# usage: inspect_import.sh FORKGATE
forkgate=$1
. "$(dirname "$0")/expect.sh"

# field case A14: token texts that are line breaks, quotes, commas, formulas, NUL, half characters
stream a '1,\x22\x2C\n,20,50,15' '2,\n,20,50,15' '3,\r\n,20,50,15' '4,=1+1,20,50,15' '5,\x00,20,50,15' '6,\xF0\x9F,20,50,15' '7,,20,50,15' '8,end,20,50,15'
expect 0 "$forkgate" inspect --provenance a.fgd
cp out a1.csv
lines err 0
has a1.csv '# n_vocab=1000'
has a1.csv 'step,token_id,token_bytes_hex,token_text_escaped,id1,logit1,id2,logit2,unit,logsumexp,end,row_hash'
has a1.csv '\x3D1+1'
lacks a1.csv ',=1+1'
expect 0 "$forkgate" import a1.csv -o b.fgd
lines out 0
expect 0 "$forkgate" diff a.fgd b.fgd
last out 'forkgate: IDENTICAL'
expect 0 "$forkgate" inspect --provenance b.fgd
cmp out a1.csv || fail 'the second export differs from the first'
expect 0 "$forkgate" inspect b.fgd --eol lf
lines out 9
if grep -q $'\r' out; then fail '--eol lf'; fi

# other readers agree on the number of records (python's csv module, where there is a python)
if command -v python3 >/dev/null; then
  "$forkgate" inspect a.fgd >plain.csv
  n=$(python3 -c 'import csv,sys; print(len(list(csv.DictReader(open("plain.csv", newline="")))))')
  [ "$n" = 8 ] || fail "python reads $n records"
fi

# refusals: record and physical line, nothing written
printf 'step,token_id,token_text\n0,1,"a\nb"\n1,2\n' >bad.csv
trouble "$forkgate" import bad.csv -o bad.fgd
has err 'bad.csv: record 2 (line 4): 2 fields where the header has 3'
[ ! -e bad.fgd ] || fail 'a refused import left a file'
[ -z "$(find . -name '*.tmp-*')" ] || fail 'a temporary file was left'
printf 'step,token_id\n0,1\n1,x\n' >bad.csv
trouble "$forkgate" import bad.csv -o bad.fgd
has err "record 2 (line 3): token_id 'x'"
trouble "$forkgate" import nowhere.csv -o bad.fgd
trouble "$forkgate" import a1.csv -o nowhere/bad.fgd
trouble "$forkgate" import a1.csv -o /dev/full
for option in '--tokenizer nothere' '--logits-dtype bf16' '--choice 2' --partial; do
  # shellcheck disable=SC2086
  trouble "$forkgate" import a1.csv -o unread.fgd $option
  has err 'a1.csv is a CSV: '
done
# a full disk: the old dump stays, one line says so
cp b.fgd keep.fgd
expect 2 bash -c "trap '' XFSZ; ulimit -f 1; '$forkgate' import a1.csv -o keep.fgd"
has err 'keep.fgd'
cmp keep.fgd b.fgd || fail 'a failed write touched the old dump'
expect 2 "$forkgate" import a1.csv
expect 2 "$forkgate" import a1.csv -o x.fgd -P nonsense
expect 2 "$forkgate" import a1.csv -o x.fgd -P 'Bad Key=1'

# inspect: verified first, or nothing
truncate -s 1200 b.fgd
trouble "$forkgate" inspect b.fgd
has err 'cut short'
printf hello >junk
trouble "$forkgate" inspect junk
has err 'neither a dump'
trouble "$forkgate" inspect .
: >empty
trouble "$forkgate" inspect empty
expect 2 "$forkgate" inspect
expect 2 sh -c "'$forkgate' inspect a.fgd > /dev/full"
has err 'forkgate: inspect:'
printf 'step,token_id\n' >none.csv
expect 0 "$forkgate" import none.csv -o none.fgd
has err 'note: no record: there is nothing that diff could compare'
cp a.fgd same.csv
trouble "$forkgate" import same.csv -o ./same.csv
has err 'the output would replace the input'
cmp -s a.fgd same.csv || fail 'the input of a refused import was touched'
expect 0 "$forkgate" inspect --help
has out 'textconv'
echo 'cli.inspect_import: passed'
