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
grep -E '^(file|fixtures/op_cases.csv),' "$source/fixtures/MANIFEST.csv" >root/fixtures/MANIFEST.csv
echo 'fixtures/battery.csv,57,8e8cc0bade499dfbf36bdebd74e2d442,ours,MIT' >>root/fixtures/MANIFEST.csv
model=$source/fixtures/models/seedling-q8_0.gguf
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

# a legal regrouping is green, and says how it was judged
expect 0 tier --cause 'FA_TKV 32->16' --geometry fa_tkv=16 --csv rows.csv -v
last out 'forkgate: 1 passed, 0 failed, 0 skipped'
has out 'cause: FA_TKV 32->16'
has out 'base again, fresh process, 2 streams forced  0 of 64 records differ'
has out 'hard argmax'
has out 'KL(base || candidate)'
has rows.csv ",a/a,"
has rows.csv ",benign,"
grep -q 'scaled-row,negative,.*,missed,0,0,0,PASS' rows.csv || fail 'the negative arm is a row'
grep -q "forkgate run --tier tolerance --class fa --only tolerance.stream.f16 --backend cpu" rows.csv || fail 'repro'
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
expect 0 tier --cause x --base "$work/another" --geometry fa_tkv=16
has out 'ok    tolerance.stream.f16'

# an engine behind a command: forced when it is told what to follow
engine="if test -n '{follow}'; then '$forkgate' replay -f {prompt} --follow {follow} -o {out} -m '$model' OPTIONS; \
else '$forkgate' generate -f {prompt} -n {n} -o {out} -m '$model' OPTIONS; fi"
expect 0 tier --cause x --engine-cmd "${engine//OPTIONS/--geometry fa_tkv=16}"

# an engine that ignores its option is bit-equal to the base: said, and no failure; one that lies about greed is refused
expect 0 tier --cause x --engine-cmd "${engine//OPTIONS/}" -v
has out 'every row is the base'
expect 2 tier --cause x --engine-cmd "'$forkgate' generate -f {prompt} -n {n} -o {out} -m '$model' --repeat-penalty 1.3 # {follow}"
has out 'ERROR'
expect 2 tier --cause x --engine-cmd "echo device lost >&2; exit 7 # {prompt} {n} {out} {follow}"
has out 'exit 7: device lost'
expect 2 tier --cause x --engine-cmd 'engine {prompt}'
has out '{prompt}, {n} and {out} must all be in it'
expect 2 tier --cause x --base "$work/nowhere"
has out 'No such file'
[ -z "$(ls "$TMPDIR")" ] || fail 'files are left in TMPDIR'
echo 'cli.tolerance: passed'
