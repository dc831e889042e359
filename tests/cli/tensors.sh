#!/bin/bash
# tensors.sh - two tensors through the commands: another engine's .npy becomes a .fgt, diff judges two, damage is refused.
# usage: tensors.sh FORKGATE
forkgate=$1
. "$(dirname "$0")/expect.sh"

# npy NAME DESCR SHAPE HEX..: a NumPy array as numpy.save writes it (header padded to 64 bytes), elements as hex bytes in order
npy() {
  local name=$1 header="{'descr': '$2', 'fortran_order': ${order-False}, 'shape': $3, }" pad
  shift 3
  pad=$((118 - ${#header} - 1))
  {
    printf '\x93NUMPY\x01\x00\x76\x00%s%*s\n' "$header" "$pad" ''
    printf '%b' "$(printf '%s' "$@" | sed 's/../\\x&/g')"
  } >"$name.npy"
}
one=0000803f # 1.0
next=0100803f
two=00000040
nan=0000c07f

# ---- a foreign engine's array in, a tensor out ----
npy a '<f4' '(2, 3)' $one $one $one $two $one $one
expect 0 "$forkgate" import a.npy -o a.fgt -P op=attention -P layer=3 -P input.xxh3=8a1f -P mode=eager -P bound=253
lines out 0
has err 'f32 [2, 3], tensor '
lacks err 'note:'
expect 0 "$forkgate" inspect --provenance a.fgt --eol lf
has out '# op=attention'
has out '# import=npy'
has out '0,1,0,0,2' # row 1, column 0
npy b '<f4' '(2, 3)' $one $one $one $two $next $one
expect 0 "$forkgate" import b.npy -o b.fgt -P op=attention -P layer=3 -P input.xxh3=8a1f -P mode=graph -P bound=32768
npy h '<f2' '(3,)' 003c 003c 013c
expect 0 "$forkgate" import h.npy -o h.fgt
has err 'note: what it is is not told'
npy s '<f4' '()' $two
expect 0 "$forkgate" import s.npy -o s.fgt -P op=dot
has err 'f32 [1], tensor '

# ---- the verdicts: exit codes, the last line alone ----
expect 0 "$forkgate" diff a.fgt a.fgt
last out 'forkgate: IDENTICAL'
has out 'census     A 0 NaN, 0 Inf, 0 subnormal, 0 zero'
expect 1 "$forkgate" diff a.fgt b.fgt
last out 'forkgate: DIFFERENT'
lines err 0
has out '  bound          253 | 32768'
has out 'tensor     op attention  layer 3'
has out 'differing  1 of 6 (16.7 %)'
has out 'worst      [1, 1]  A 1 | B 1.00000012  difference 1.19209e-07 (5.96e-08 of max |a|), 1 ULP of f32'
has out 'ULP of f32   0: 5  1: 1'
has out 'control    none given: pass --control DIR'
has out 'launched otherwise: mode (A eager, B graph), bound (A 253, B 32768)'
if LC_ALL=C grep -q $'[^\x01-\x7e]' out; then fail 'a pipe gets ASCII only'; fi
npy c '<f4' '(3, 2)' $one $one $one $two $one $one
expect 0 "$forkgate" import c.npy -o c.fgt -P op=attention
expect 2 "$forkgate" diff a.fgt c.fgt
has out 'verdict    NOT-COMPARABLE: A is f32 [2, 3], B is f32 [3, 2]'
last out 'forkgate: NOT-COMPARABLE'
expect 0 "$forkgate" import b.npy -o layer.fgt -P op=attention -P layer=4
expect 2 "$forkgate" diff a.fgt layer.fgt
has out '  layer          3 | 4  (must match)'
has out 'not the same tensor: layer (A 3, B 4)'

# field case A04: nine of 64 bf16 values are one step apart; with one launch on both sides it is no launch's doing
values() { local i; for i in $(seq 64); do [ "$i" -le "$1" ] && echo 813f || echo 803f; done; }
# shellcheck disable=SC2046
npy eager '<u2' '(64,)' $(values 0)
# shellcheck disable=SC2046
npy graph '<u2' '(64,)' $(values 9)
# shellcheck disable=SC2046
npy other '<u2' '(64,)' $(values 12)
trouble "$forkgate" import eager.npy -o eager.fgt
has err 'eager.npy: dtype <u2: 16-bit words: if they are bf16 say --bf16'
for x in 'eager eager 253' 'graph graph 32768' 'again eager 253'; do
  read -r to mode bound <<<"$x"
  from=${to/again/graph}
  expect 0 "$forkgate" import "$from.npy" -o "$to.fgt" --bf16 -P op=attention -P input.xxh3=8a1f -P mode="$mode" -P bound="$bound"
done
expect 1 "$forkgate" diff eager.fgt graph.fgt
has out 'differing  9 of 64 (14.1 %)'
has out 'ULP of bf16  0: 55  1: 9'
has out 'bound (A 253, B 32768)'
mkdir splits
expect 0 "$forkgate" import other.npy -o splits/b64.fgt --bf16 -P op=attention -P input.xxh3=8a1f -P mode=eager -P bound=64
expect 1 "$forkgate" diff eager.fgt graph.fgt --control splits --csv row.csv --eol lf
has out 'control    max-abs 0.0078125, rms 0.00338291, from splits: 1 used, 0 left out'
last out 'forkgate: WITHIN-CONTROL'
expect 1 "$forkgate" diff eager.fgt again.fgt --control splits
has out 'what may carry bits is the same on both sides: not repeatable, which no control excuses'
last out 'forkgate: DIFFERENT'

expect 0 "$forkgate" import graph.npy -o mute.fgt --bf16 -P op=attention -P input.xxh3=8a1f
expect 0 "$forkgate" import eager.npy -o mute2.fgt --bf16 -P op=attention -P input.xxh3=8a1f
expect 1 "$forkgate" diff mute.fgt mute2.fgt --control splits
has out 'neither side says how it was launched: no control can excuse that'
has out 'control    none bears on this verdict'

# the control is never B itself, nor A's or B's launch
mkdir own
cp graph.fgt eager.fgt own
expect 0 "$forkgate" import graph.npy -o own/renamed.fgt --bf16 -P op=attention -P input.xxh3=8a1f -P mode=eager -P bound=7
expect 1 "$forkgate" diff eager.fgt graph.fgt --control own
has out "control    none applies: own: 0 used, 3 left out; eager.fgt: launched as A was; graph.fgt: launched as B was; renamed.fgt: it holds B's own bits"
last out 'forkgate: DIFFERENT'
trouble "$forkgate" diff eager.fgt graph.fgt --control nowhere
trouble "$forkgate" diff eager.fgt eager.fgt --control nowhere

# agreement on NaN proves nothing
npy nan '<f4' '(2,)' $one $nan
trouble "$forkgate" import nan.npy -o nan.fgt
has err 'element 1 is NaN or infinite (--keep-nan keeps it)'
expect 0 "$forkgate" import nan.npy -o nan.fgt --keep-nan -P op=add
expect 2 "$forkgate" diff nan.fgt nan.fgt
has out 'A holds 1 NaN and 0 Inf, the first at [1]'
last out 'forkgate: INVALID'

# ---- the CSV row and its command ----
lines row.csv 2
has row.csv '1,eager.fgt,graph.fgt,WITHIN-CONTROL,1,bf16 [64],64,9,[0],1,1.0078125,[0],'
has row.csv 'forkgate diff eager.fgt graph.fgt --control splits'
expect 1 "$forkgate" diff a.fgt b.fgt --csv crlf.csv
[ "$(tail -c 2 crlf.csv | od -An -tx1 | tr -d ' \n')" = 0d0a ] || fail 'CRLF by default'
trouble "$forkgate" diff a.fgt b.fgt --csv ./a.fgt
trouble "$forkgate" diff a.fgt b.fgt --csv nowhere/x.csv

# ---- damage: file, block or offset; the name of a file says nothing ----
head -c 300 a.fgt >cut.fgt
{ cat a.fgt; printf x; } >more.fgt
cp a.fgt edit.fgt
printf '\x01' | dd of=edit.fgt bs=1 seek=264 conv=notrunc status=none
cp a.fgt head.fgt
printf 'x' | dd of=head.fgt bs=1 count=1 conv=notrunc status=none
for bad in cut more edit head; do
  for order in "$bad.fgt a.fgt" "a.fgt $bad.fgt"; do
    # shellcheck disable=SC2086
    trouble "$forkgate" diff $order
    has err "$bad.fgt: "
    grep -qE 'byte offset [0-9]+' err || fail "no offset for $bad"
  done
done
unset order
expect 2 "$forkgate" diff a.fgt cut.fgt --csv bad.csv --eol lf
has bad.csv '1,a.fgt,cut.fgt,INVALID,2,'
cp a.fgt renamed.bin
cp b.fgt renamed.fgd
expect 1 "$forkgate" diff renamed.bin renamed.fgd
last out 'forkgate: DIFFERENT'

# ---- a stream where a tensor is, and the other way round ----
stream s "10, the,20,50,15"
trouble "$forkgate" diff a.fgt s.fgd
has err 'a.fgt is a tensor (.fgt) and s.fgd is a dump (.fgd): two of one kind compare'
trouble "$forkgate" diff s.fgd a.fgt
has err 'a.fgt is a tensor (.fgt) and s.fgd is a dump (.fgd): two of one kind compare'
trouble "$forkgate" diff --bits a.fgt b.fgt
has err '--bits is for dumps'
hint='a.fgt: is a tensor (.fgt): forkgate diff A.fgt B.fgt compares two, forkgate inspect prints one'
for line in 'explain a.fgt s.fgd' 'replay --follow a.fgt -p x' 'report html --diff a.fgt s.fgd -o x.html'; do
  # shellcheck disable=SC2086
  trouble "$forkgate" $line
  has err "$hint"
done

# ---- arrays that are not read ----
# refused TEXT NAME [OPTION..]: import of NAME.npy, nothing written
refused() {
  local text=$1 name=$2
  shift 2
  trouble "$forkgate" import "$name.npy" -o refused.fgt "$@"
  has err "$name.npy: "
  has err "$text"
  [ ! -e refused.fgt ] || fail 'a refused import left a file'
}
npy x '>f4' '(1,)' $one
refused 'dtype >f4: only little-endian' x
npy x '<f8' '(1,)' $one $one
refused 'dtype <f8: only little-endian' x
npy x '<f4' '(3,)' $one $one
refused '8 bytes of data at byte 128 where the shape needs 12' x
npy x '<f4' '(1,)' $one 00
refused '5 bytes of data at byte 128 where the shape needs 4' x
npy x '<f4' '(1, 1, 1, 1, 1)' $one
refused 'more than 4 dimensions' x
npy x '<f4' '(0, 3)'
refused 'dimension 1 is 0' x
npy x '<f4' '(999999, 999999, 999999)' $one
refused 'more than 2^40 elements' x
order=True npy x '<f4' '(1, 1)' $one
refused 'Fortran order' x
refused '--bf16 is for 16-bit words' a --bf16
trouble "$forkgate" import a.npy -o refused.fgt --choice 1
has err 'a.npy is an array: --tokenizer'
trouble "$forkgate" import s.csv -o refused.fgd --bf16
has err 's.csv is a CSV: --bf16 is for arrays'
cp a.npy same.npy
trouble "$forkgate" import same.npy -o ./same.npy
cmp -s same.npy a.npy || fail 'the input of a refused import was touched'

# ---- forkgate's own tensors say who made them; a tile and its controls ----
{ echo id; seq 5 45; } >ids.csv
mkdir ctl
for x in 'tile32 32' 'tile16 16' 'ctl/tile64 64'; do
  read -r to tile <<<"$x"
  expect 0 "$forkgate" trace --tokens ids.csv --prompt-tokens 40 --ops 0 --rows 0/attention/attn --values "$to.fgt" --geometry fa_tkv="$tile"
done
expect 0 "$forkgate" trace --tokens ids.csv --prompt-tokens 40 --ops 0 --rows 0/attention/attn --values again.fgt -t 1 --geometry fa_tq=128
expect 0 "$forkgate" diff tile32.fgt again.fgt
expect 1 "$forkgate" diff tile32.fgt tile16.fgt
has out 'op attention  tensor attn'
has out 'f32 [40, 256]'
expect 1 "$forkgate" diff tile32.fgt tile16.fgt --control ctl
has out 'from ctl: 1 used, 0 left out'
expect 0 "$forkgate" trace --tokens ids.csv --prompt-tokens 40 --ops 0 --rows 1/attention/attn --values layer1.fgt
expect 2 "$forkgate" diff tile32.fgt layer1.fgt
has out '  layer          0 | 1  (must match)'
echo 'cli.tensors: passed'
