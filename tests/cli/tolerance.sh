#!/bin/bash
# tolerance.sh - tier 4 from the command line: a tile change under class fa, engines behind a command, and what may not be
# green. A root of its own with two short prompts keeps it small; --battery small leaves out what needs 64 streams.
# usage: tolerance.sh FORKGATE
forkgate=$1
source=$(cd "$(dirname "$0")/../.." && pwd)
. "$(dirname "$0")/expect.sh"
export TMPDIR=$work/tmp FORKGATE_ROOT=$work/root
mkdir -p "$TMPDIR" root/fixtures/prompts root/golden
cp "$source/golden/budgets.csv" root/golden/
printf 'It was a dark night' >root/fixtures/prompts/one.txt
printf 'Call me when the sea is calm, he said, and' >root/fixtures/prompts/two.txt
printf 'name,file,offset,bytes\none,one.txt,0,19\ntwo,two.txt,0,42\n' >root/fixtures/battery.csv
cp "$source/fixtures/op_cases.csv" root/fixtures/
grep -E '^(file|fixtures/op_cases.csv|golden/budgets.csv),' "$source/fixtures/MANIFEST.csv" >root/fixtures/MANIFEST.csv
ln -s "$source/fixtures/models" root/fixtures/models
{
    grep '^fixtures/models/' "$source/fixtures/MANIFEST.csv"
    echo 'fixtures/battery.csv,57,8e8cc0bade499dfbf36bdebd74e2d442,ours,MIT'
    echo 'fixtures/prompts/one.txt,19,5580195f0a0abc05fbc5fab8fdb14380,ours,MIT'
    echo 'fixtures/prompts/two.txt,42,9eec9594a1370ba6cbca70e3f17f87e3,ours,MIT'
} >>root/fixtures/MANIFEST.csv
model=$FORKGATE_ROOT/fixtures/models/seedling-q8_0.gguf
tier() { nice "$forkgate" run --tier tolerance --only tolerance.stream.f16 --battery small -m "$model" --class fa "$@"; }

# bits are given up for a named reason
expect 2 tier
has err '--class fa needs --cause TEXT'
expect 2 "$forkgate" run --class loose
has err 'want bitwise or fa'
# another engine is judged by this tier alone: the others would judge this build in its name
expect 2 "$forkgate" run --tier tolerance --engine-cmd 'e {prompt} {n} {out}'
has err 'give --class fa --cause TEXT'
expect 2 "$forkgate" run --engine-cmd 'e {prompt} {n} {out}' --class fa --cause x --tier parity,tolerance
has err 'tier parity judges this build'
expect 2 "$forkgate" run --class loose
has err 'want bitwise or fa'

# a legal regrouping: nothing is red, and so few streams decide nothing
open() { # rows.csv: every row that is neither PASS nor SKIP is INCONCLUSIVE with one of these metrics
    local red; red=$(tail -n +2 rows.csv | grep -Ev ',(PASS|SKIP),' || true)
    for metric in "$@"; do red=$(grep -v ",$metric,.*,INCONCLUSIVE," <<<"$red" || true); done
    [ -z "$red" ] || fail "rows are red: $red"
}
expect 2 tier --cause 'FA_TKV 32->16' --geometry fa_tkv=16 --csv rows.csv -v
last out 'forkgate: 0 passed, 1 failed, 0 skipped'
has out 'verdict: NOT JUDGED'
has out "next:    forkgate run --geometry fa_tq=64,fa_tkv=16,fa_chunk=256,fa_splits=8 --class fa --cause 'FA_TKV 32->16'"
has out 'fewer than 64 streams decide nothing'
open 1-p
has out 'cause: FA_TKV 32->16'
has out 'base again, fresh process, 2 streams forced  0 of 64 records differ'
has out 'hard argmax'
has out 'KL(base || candidate)'
has rows.csv ",a/a,"
has rows.csv ",benign,"
grep -q 'scaled-row,negative,.*,missed,0,0,0,PASS' rows.csv || fail 'the negative arm is a row'
grep -q "forkgate run --tier tolerance --only tolerance.stream.f16 --backend cpu --geometry [^ ]* --battery small --class fa --cause" rows.csv || fail 'repro'
grep -Eq '^        scaled-row: detection floor: the logits of 1 row x 1\.[0-9]+ \(x 1\.?[0-9]* is not seen\)$' out || fail 'the floor is found'
has out '        stale-tail: detection floor: the last'
if [ -x "$forkgate-faults" ]; then has out '        norm-tail: detection floor'; fi
[ -z "$(ls "$TMPDIR")" ] || fail 'files are left in TMPDIR'

# the base that is really the candidate: by default, and as a binary of the same bytes under another name
expect 2 tier --cause x
has out 'self-comparison proves nothing'
cp "$forkgate" another
expect 2 tier --cause x --base "$work/another"
has out 'self-comparison proves nothing'

# another binary as the base
expect 2 tier --cause x --base "$work/another" --geometry fa_tkv=16 --csv rows.csv
open 1-p

# a base that is the candidate in other bytes
equal='base and candidate are equal in every row'
echo x >>another
expect 2 tier --cause x --base "$work/another" --csv rows.csv
open 1-p rows_moved
has out "$equal"

# an engine behind a command: forced when it is told what to follow
engine="if test -n '{follow}'; then '$forkgate' replay -f {prompt} --follow {follow} -o {out} -m '$model' OPTIONS; \
else '$forkgate' generate -f {prompt} -n {n} -o {out} -m '$model' OPTIONS; fi"
expect 2 tier --cause x --engine-cmd "${engine//OPTIONS/--geometry fa_tkv=16}" --csv rows.csv
open 1-p
# .. this build is not judged in its name: not by its options, its kernels or the other tiers
grep -q "^candidate: if test -n '{follow}'; then .* | battery small$" out || fail 'the candidate is the command'
has out 'of the engine command alone: parity, suite and identity judge this build, not it'
expect 2 "$forkgate" run --class fa --cause x --only tolerance.op --battery small --engine-cmd 'e {prompt} {n} {out}' --csv op.csv
last out 'forkgate: 0 passed, 0 failed, 1 skipped'
has out 'compare them with forkgate diff A.fgt B.fgt'
has op.csv "forkgate run --only tolerance.op --engine-cmd 'e {prompt} {n} {out}'"
lines op.csv 2

# an engine that ignores its option is bit-equal to the base; one that lies about greed is refused
expect 2 tier --cause x --engine-cmd "${engine//OPTIONS/}" -v
has out "$equal"
expect 2 tier --cause x --engine-cmd "'$forkgate' generate -f {prompt} -n {n} -o {out} -m '$model' --repeat-penalty 1.3 # {follow}"
has out 'ERROR'
expect 2 tier --cause x --engine-cmd "echo device lost >&2; exit 7 # {prompt} {n} {out} {follow}"
has out 'exit 7: device lost'
# .. at once: the base has not been asked for anything yet
printf '#!/bin/sh\necho "$1" >>%s\nexec %s "$@"\n' "$work/asked" "$forkgate" >base && chmod +x base
expect 2 tier --cause x --base "$work/base" --engine-cmd 'no-such-engine {prompt} {n} {out}'
has out 'not found'
[ ! -e asked ] || fail 'the base was run before the command was tried'
expect 2 tier --cause x --base "$work/base" --engine-cmd "test -z '{follow}' || exit 9; '$forkgate' generate -f {prompt} -n {n} -o {out} -m '$model'"
has out 'exit 9'
[ ! -e asked ] || fail 'the base was run before the command was tried'
expect 2 tier --cause x --engine-cmd 'engine {prompt}'
has out '{prompt}, {n} and {out} must all be in it'
expect 2 tier --cause x --base "$work/nowhere"
has out 'No such file'
[ -z "$(ls "$TMPDIR")" ] || fail 'files are left in TMPDIR'
echo 'cli.tolerance: passed'
