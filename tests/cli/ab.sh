#!/bin/bash
# ab.sh - forkgate bench and ab: what they print and refuse. Speeds are the machine's; only their form is checked here.
# usage: ab.sh FORKGATE
forkgate=$1
. "$(dirname "$0")/expect.sh"
printf 'It was a dark night' >prompt.txt
small="-f prompt.txt --decode 2 --warm 0"

# bench: rounds, medians, one hash for all rounds, ops
# shellcheck disable=SC2086
expect 0 "$forkgate" bench $small --rounds 3 --ops --csv bench.csv
has out 'round 3'
has out 'median'
grep -Eq '^logits [0-9a-f]{32} in all 3 rounds$' out || fail 'the hash of what was timed'
grep -Eq '^matmul +[0-9.]+ +[0-9.]+%' out || fail 'ops are timed'
head -n 1 bench.csv | grep -q '^what,round,prefill_tok_s,decode_tok_s,logits,phase,op,calls,seconds' || fail 'CSV header'
[ "$(grep -c '^round,' bench.csv)" -eq 3 ] || fail 'one row a round'
[ "$(grep -c '^op,' bench.csv)" -eq 20 ] || fail 'ten ops, two phases'

# a prompt of tokens; without a device nothing is said of device memory, and single ops are refused in one line
expect 0 "$forkgate" bench --tokens 9 --decode 1 --warm 0 --rounds 1
has out '9 prompt tokens, 1 decode steps'
lacks out 'device memory'
trouble "$forkgate" bench --tokens 64 --decode 2000 --warm 0 # at once, not after 1984 steps
has err 'bench: 64 tokens of prompt and 2000 steps do not fit a context of 2048'
expect 0 "$forkgate" make-model tiny.gguf
expect 0 "$forkgate" bench -m tiny.gguf --tokens 500 --decode 12 --warm 0 --rounds 1
trouble "$forkgate" bench -m tiny.gguf --tokens 500 --decode 13 --warm 0 --rounds 1
"$forkgate" bench --kernels --rounds 1 --csv kernels.csv >out 2>err
case $? in
0) has out 'ceiling read' && has kernels.csv 'what,name,route,shape,rounds,calls,median,least,most,GBps,Tops,ceiling,share' ;;
2) lines err 1 ;;
*) fail 'exit of bench --kernels' ;;
esac

# a program that is none of this kind is named, not a folder that is gone
expect 2 "$forkgate" ab --a /bin/true --b "$forkgate" --rounds 3 --warm 0 -f prompt.txt
has err '/bin/true bench: ended well and left no rounds'
lacks err 'round.csv'

# ab: the bar is named first, every round is printed, A again stands beside; any decision, but one
for sides in "--b-geometry fa_tkv=64" "--a $forkgate --b-geometry fa_tkv=16"; do
  code=0
  # shellcheck disable=SC2086
  "$forkgate" ab $sides $small --rounds 3 --bar 2 --csv ab.csv >out 2>err || code=$?
  [ "$code" -le 2 ] || fail "exit $code"
  lines err 0
  has out 'bar: prefill +2.00 %, named before measuring'
  [ "$(grep -c '^round ' out)" -eq 9 ] || fail 'three rounds of three'
  [ "$(grep -c "^round .* A' " out)" -eq 3 ] || fail 'A again'
  grep -Eq '^forkgate: (HEADLINE|FASTER|MISSED|SLOWER|NO-DECISION)$' out || fail 'a decision'
  [ "$(wc -l <ab.csv)" -eq 10 ] || fail 'CSV rows'
done

# one binary: this build is a child too, so it is found missing when its turn comes
cp "$forkgate" self
printf '#!/bin/sh\nrm -f self\nexec %s "$@"\n' "$forkgate" >away
chmod +x away
# shellcheck disable=SC2086
expect 2 ./self ab --a ./away --b-geometry fa_tkv=16 $small --rounds 3
grep -Eq "self: cannot be run: No such file" err || fail 'A is a child, and B is none'

# refused
# shellcheck disable=SC2086
expect 2 "$forkgate" ab --a-geometry fa_tkv=32 $small
has err 'the same program with the same geometry'
cp "$forkgate" copy # the same program is the same bytes
ln -s "$forkgate" link
for sides in "--a $forkgate --b ./link" "--a ./copy --b $forkgate" '--b ./link' '--a ./copy'; do
  # shellcheck disable=SC2086
  expect 2 "$forkgate" ab $sides $small
  has err 'the same program with the same geometry'
  lacks out 'round '
done
expect 2 "$forkgate" ab
has err 'give two sides'
expect 2 "$forkgate" ab --b-geometry fa_tkv=17
expect 2 "$forkgate" ab --b-geometry fa_tkv=64 --bar -3
expect 2 "$forkgate" ab --b-geometry fa_tkv=64 --rounds 2
expect 2 "$forkgate" ab --b-geometry fa_tkv=64 --metric decode --decode 0
# shellcheck disable=SC2086
expect 2 "$forkgate" ab --a "$forkgate" --b /bin/false $small --rounds 3
has err '/bin/false bench: exit 1'
expect 2 "$forkgate" ab --a "$forkgate" --b-geometry fa_tkv=16 --tokens 9
has err 'tokens goes with geometries of this build'
expect 2 "$forkgate" bench --rounds 0
expect 2 "$forkgate" bench -f nowhere.txt

# the gate: no second program and no other options, no comparison
expect 2 "$forkgate" run --tier perf
has out 'one program with one set of options'
echo 'cli.ab: passed'
