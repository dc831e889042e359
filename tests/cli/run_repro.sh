#!/bin/bash
# run_repro.sh - the command in a row of evidence works when pasted: every different kind of it, taken out of real runs, is
# run again with what the row had and ends with the row's own verdict; a reduced run says so and names the whole one.
# usage: run_repro.sh FORKGATE
forkgate=$1
. "$(dirname "$0")/expect.sh"
root=$(cd "$(dirname "$0")/../.." 2>/dev/null && pwd || true)
[ -f "$root/fixtures/op_cases.csv" ] || root=$OLDPWD
command -v python3 >/dev/null || { echo 'python3 is needed to read the CSV'; exit 77; }

# cell CSV COLUMN GATE [ARM]: of the first such row that has a command
cell() {
  python3 - "$@" <<'P'
import csv, sys
path, column, gate, arm = (sys.argv[1:] + [""])[:4]
for row in csv.DictReader(open(path, newline="")):
    if row["gate"] == gate and row["repro"] and (not arm or row["arm"] == arm):
        print(row[column])
        sys.exit(0)
sys.exit(f"no row of {gate} {arm}")
P
}
# again CODE CSV GATE [ARM]: pastes the command of that row, asks it for its evidence, and looks for the same check in it
again() {
  local code=$1 file=$2 repro; shift 2
  repro=$(cell "$file" repro "$@") || fail "no command for $*"
  printf '%s --csv again.csv\n' "$repro" >pasted
  rm -f again.csv
  expect "$code" bash -c "forkgate() { '$forkgate' \"\$@\"; }; . ./pasted"
  for column in verdict value bound case ref got kernels; do
    [ "$(cell "$file" "$column" "$@")" = "$(cell again.csv "$column" "$@")" ] || fail "another $column: $repro"
  done
}

# every row of an op, a model and a stream gate has all of its evidence
full() {
  python3 - "$1" <<'P'
import csv, sys
for n, row in enumerate(csv.DictReader(open(sys.argv[1], newline="")), 1):
    if row["verdict"] == "SKIP": continue
    need = ["gate", "arm", "metric", "grade", "provenance", "repro"]
    if row["gate"].startswith(("op.", "tolerance.op")): need += ["case", "kernels", "ref", "got"]
    for c in need:
        if row[c] == "": sys.exit(f"record {n} of {sys.argv[1]}: no {c}: {row}")
P
}

# one kind after the other, each with options of the candidate that its command must have
expect 0 "$forkgate" run --tier parity --only op.rope --kv q8_0 --chunk 7 --csv op.csv
full op.csv || fail 'evidence is missing'
again 0 op.csv op.rope oracle
again 0 op.csv op.rope negative
expect 0 "$forkgate" run --only model.rope --csv rope.csv
full rope.csv || fail 'evidence is missing'
again 0 rope.csv model.rope
expect 1 "$forkgate" run --tier identity --only stream.golden.q8 --geometry fa_tkv=16 --battery small --csv golden.csv
full golden.csv || fail 'evidence is missing'
again 1 golden.csv stream.golden.q8 golden
expect 0 "$forkgate" run --tier identity --only stream.repeat.q8 --battery small --chunk 7 --simd scalar --csv repeat.csv
for option in '--chunk 7' '--simd scalar'; do
  grep -q "^next: .* $option" out || fail "next without $option"
  has repeat.csv " $option"
done
full repeat.csv || fail 'evidence is missing'
again 0 repeat.csv stream.repeat.q8 fresh-process
expect 0 "$forkgate" run --tier tolerance --only tolerance.op --class fa --cause "it's only a test" --geometry fa_tkv=16 --csv four.csv
full four.csv || fail 'evidence is missing'
# .. and two short prompts for the streams of tier 4
mkdir -p root/fixtures/prompts root/golden
cp "$root/golden/budgets.csv" root/golden/
cp "$root/fixtures/op_cases.csv" root/fixtures/
printf 'It was a dark night' >root/fixtures/prompts/one.txt
printf 'Call me when the sea is calm, he said, and' >root/fixtures/prompts/two.txt
printf 'name,file,offset,bytes\none,one.txt,0,19\ntwo,two.txt,0,42\n' >root/fixtures/battery.csv
grep -E '^(file|fixtures/op_cases.csv|golden/budgets.csv),' "$root/fixtures/MANIFEST.csv" >root/fixtures/MANIFEST.csv
ln -s "$root/fixtures/models" root/fixtures/models
{
    grep '^fixtures/models/' "$root/fixtures/MANIFEST.csv"
    echo 'fixtures/battery.csv,57,8e8cc0bade499dfbf36bdebd74e2d442,ours,MIT'
    echo 'fixtures/prompts/one.txt,19,5580195f0a0abc05fbc5fab8fdb14380,ours,MIT'
    echo 'fixtures/prompts/two.txt,42,9eec9594a1370ba6cbca70e3f17f87e3,ours,MIT'
} >>root/fixtures/MANIFEST.csv
export FORKGATE_ROOT=$work/root
expect 2 "$forkgate" run --tier tolerance --class fa --cause "it's only a test" --battery small --geometry fa_tkv=16 -m "$root/fixtures/models/seedling-q8_0.gguf" --csv four.csv
full four.csv || fail 'evidence is missing'
again 2 four.csv tolerance.stream.f16 a/a
unset FORKGATE_ROOT
repro=$(cell four.csv repro tolerance.stream.q8)
grep -q -- '--route q8.*--battery small.*--cause' <<<"$repro" || fail "a skipped gate's command: $repro"
cp "$root/fixtures/models/seedling-q8_0.gguf" "a model.gguf"
expect 2 "$forkgate" run --only stream.repeat.q8 --geometry fa_tkv=64 -m "$work/a model.gguf" --battery small --base x
expect 0 "$forkgate" run --only stream.repeat.q8 --geometry fa_tkv=64 -m "$work/a model.gguf" --battery small --csv model.csv
grep -qF -- "-m '$work/a model.gguf'" model.csv || fail 'the model is quoted'
again 0 model.csv stream.repeat.q8 run-to-run

# a tier that no run has by default is named, also by the row of a gate that came to no end
expect 2 "$forkgate" run --tier perf --only perf.prefill --base "$work/nowhere" --csv perf.csv
again 2 perf.csv perf.prefill run
has out 'nowhere: No such file'
expect 2 "$forkgate" run --tier tolerance --only tolerance.op/nosuch --csv none.csv
again 2 none.csv tolerance.op run
has out 'none of its '

# a command that does not fit is none
long=$(printf '%0600d' 0)
expect 0 "$forkgate" run --tier parity --only op.add --class fa --cause "$long" --csv long.csv
has long.csv '# too long for a row'

# a reduced run is none that may land, in whatever it is read; it names the whole one
expect 0 "$forkgate" run --only stream.repeat.q8 --battery small --geometry fa_tkv=64 --html r.html --summary-md r.md --junit r.xml --csv r.csv
said='PASS of what was run, not a landing verdict (identity: stream.repeat.q8 only on battery small; not run: parity, suite; cpu only'
next='forkgate run --geometry fa_tq=64,fa_tkv=64,fa_chunk=256,fa_splits=8'
has out "verdict: $said; backend cuda NOT SELECTED)"
has out "next:    $next"
expect 0 "$forkgate" report html r.csv -o of-csv.html
expect 0 "$forkgate" report export r.csv --junit of-csv.xml -o x.csv
for f in r.html r.md r.xml of-csv.html of-csv.xml; do
  has $f "$said"
  has $f "$next"
  lacks $f 'may land'
done
echo 'cli.run_repro: passed'
