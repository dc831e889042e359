#!/bin/bash
# vendor_dump.sh - the Python reader prints the records that forkgate inspect prints.
# usage: vendor_dump.sh FORKGATE
forkgate=$1
here=$(cd "$(dirname "$0")/../.." && pwd)
. "$(dirname "$0")/expect.sh"
if ! command -v python3 >/dev/null; then
  echo 'SKIP: no python3'
  exit 77
fi
reader=$here/tools/vendor-dump/fgd.py
stream a '1,\x22\x2C\n,20,50,15' '2,\xF0\x9F,19.25,50,15.5' '7,,20,50,15' '8,end,20,50,15'
# without the module that verifies, nothing is read unless it is asked for, and that is said
if ! python3 -c 'import xxhash' 2>/dev/null; then
  expect 1 python3 "$reader" a.fgd
  [ ! -s out ] || fail 'records that nobody verified'
  has err 'without the xxhash module nothing can be verified: pip install xxhash, or fgd.py --unverified FILE'
  lines err 1
  set -- --unverified
else
  set --
fi
for f in a.fgd "$here"/golden/sm_90-f16/*.fgd; do
  expect 0 python3 "$reader" "$@" "$f"
  cut -d, -f1,2,3,4,5,6,7 out | tail -n +2 >python.csv
  expect 0 "$forkgate" inspect --eol lf "$f"
  python3 - >forkgate.csv <<'P'
import csv
for r in csv.DictReader(open("out", newline="")):
    print(",".join(r[k] for k in ("step", "token_id", "token_bytes_hex", "id1", "logit1", "id2", "logit2")))
P
  cmp python.csv forkgate.csv || fail "the readers differ about $f"
done
[ "$(wc -l <"$reader")" -le 40 ] || fail 'the reader has grown'
head -c 3000 a.fgd >cut.fgd
truncate -s -1 cut.fgd
expect 1 python3 "$reader" "$@" cut.fgd
{ head -c 2000 a.fgd; tail -c 96 a.fgd; } >cut.fgd
expect 1 python3 "$reader" "$@" cut.fgd
has err 'not a whole dump'
if [ $# -eq 0 ]; then
  { head -c 1100 a.fgd; printf X; tail -c +1102 a.fgd; } >bent.fgd
  expect 1 python3 "$reader" bent.fgd
  has err 'a block is damaged'
fi
echo 'cli.vendor_dump: passed'
