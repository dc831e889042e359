#!/usr/bin/env bash
# Every command x every kind of failure (a file that is missing, a folder, unreadable, empty, text, cut or endless; an output
# that cannot be written; a full disk; numbers that cannot be judged): exit 2 and one line on stderr that names the place.
# usage: errors.sh FORKGATE
forkgate=$1
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
. "$root/tests/cli/expect.sh"
model=$root/fixtures/models/seedling-q8_0.gguf
single=$root/fixtures/prompts/single.txt

# ---- sound files ----
expect 0 "$forkgate" generate -p 'It was' -n 4 -o a.fgd
expect 0 "$forkgate" generate -p 'It was' -n 4 --geometry fa_tkv=16 -o b.fgd
expect 0 "$forkgate" inspect a.fgd && cp out a.csv
expect 0 "$forkgate" run --tier parity --only op.add --csv run.csv
printf 'id\n1\n2\n3\n' >ids.csv
expect 0 "$forkgate" trace --tokens ids.csv --prompt-tokens 2 --capture 1 --values row.fgt

# ---- files that are not ----
mkdir dir
ln -s loop loop # what open refuses of root too
: >empty
printf 'hello\nworld\n' >text
head -c 3000 "$model" >cut.gguf
head -c 700 a.fgd >cut.fgd
head -c 100 row.fgt >cut.fgt
head -c 90 run.csv >cut.csv
checks=0

# each LINE..: a command, where @ stands for each of $bad, which the one line has to name. Inside a word ~ stands for a blank.
each() {
  local line words b w
  for b in $bad; do
    for line in "$@"; do
      words=()
      for w in $line; do
        w=${w//@/$b}
        words+=("${w//\~/ }")
      done
      trouble timeout 60 "$forkgate" "${words[@]}"
      has err "$b"
      grep -q "^forkgate: ${words[0]}: " err || fail "not a line of its command: ${words[*]}"
      checks=$((checks + 1))
    done
  done
}

models=('generate -m @ -p x -n 1' 'bench -m @ --rounds 1' 'trace -m @ --tokens ids.csv --prompt-tokens 1'
  'replay -m @ --follow a.fgd -p It~was' 'explain a.fgd -m @ --geometry fa_tkv=16 -p It~was'
  "bisect -m @ $forkgate $forkgate --golden a.fgd -p It~was" 'golden review -m @'
  'make-model --from @ new.gguf' 'ab -m @ --a-geometry fa_tkv=16')
dumps=('replay --follow @ -p It~was' 'diff @ a.fgd' 'diff a.fgd @' 'explain @ a.fgd' 'explain a.fgd @' "bisect $forkgate $forkgate --golden @"
  'report html --diff a.fgd @ -o x.html' 'diff row.fgt @' 'diff @ row.fgt')
tables=('import @ -o x.fgd' 'report export @' 'report compare @ run.csv' 'report compare run.csv @' 'report html @ -o x.html'
  'report html --explain @ -o x.html' 'report html --mutants @ -o x.html' 'trace --tokens @ --prompt-tokens 1'
  'generate --battery @ -o o' 'replay --battery @ --follow dir -o o')
others=('inspect @' 'golden show @')
texts=('generate -f @ -n 1' 'bench -f @ --rounds 1' 'ab -f @ --a-geometry fa_tkv=16' 'replay --follow a.fgd -f @'
  'explain a.fgd -f @ --geometry fa_tkv=16' 'diff a.fgd b.fgd --control @')
bad='nothere loop'
[ "$(id -u)" = 0 ] || { echo secret >locked && chmod 0 locked && bad+=' locked'; }
each "${models[@]}" "${dumps[@]}" "${tables[@]}" "${others[@]}" "${texts[@]}"
bad=dir
each "${models[@]}" "${dumps[@]:0:6}" "${tables[@]}" "${others[@]}" "${texts[@]:0:5}"
bad='empty text cut.gguf cut.fgd cut.csv /dev/zero'
each "${models[@]}" "${dumps[@]}" "${others[@]}"
bad='empty text cut.fgd'
each "${tables[@]}"
bad='cut.fgt cut.csv'
each 'inspect @' 'diff row.fgt @' 'diff @ row.fgt'
bad=/dev/zero # has no end
each 'report export @' 'import @ -o x.fgd' 'report html --mutants @ -o x.html' 'generate -f @'

# ---- outputs ----
mkfifo pipe # stands for a device: it is not waited for, and nothing but a file may be replaced
bad=pipe
each "${models[@]}" "${dumps[@]}" 'inspect @' 'report html --mutants @ -o x.html'
bad='nowhere/x dir pipe'
each 'generate -p x -n 1 -o @' 'replay --follow a.fgd -p It~was -o @' 'import a.csv -o @' 'make-model @' \
  'trace --tokens ids.csv --prompt-tokens 2 --capture 1 --values @'
[ -p pipe ] || fail 'a pipe was replaced by a file'
bad='nowhere/x dir' # before anything is run, and shown
each "bench -f $single --csv @" 'bench --kernels --csv @' "ab --b-geometry fa_tkv=16 -f $single --csv @" \
  'explain a.fgd --geometry fa_tkv=16 -p It~was --csv @' 'explain a.fgd --geometry fa_tkv=16 -p It~was --margins @'
trouble "$forkgate" run --only op.add --csv ''
has err 'an empty name of a file'
tables=('diff a.fgd b.fgd --csv @' 'explain a.fgd --geometry fa_tkv=16 -p It~was --csv @' 'occupancy --csv @'
  "bench --rounds 1 --warm 0 --decode 0 -f $single --csv @" 'explain a.fgd --geometry fa_tkv=16 -p It~was --margins @'
  "bisect $forkgate $forkgate --golden a.fgd -p It~was --state @")
bad='nowhere/x dir'
for line in "${tables[@]}"; do
  for b in $bad /dev/full; do
    [[ $line == bisect* && $b == /dev/full ]] && continue # a state is read before it is written
    words=()
    for w in $line; do
      w=${w//@/$b}
      words+=("${w//\~/ }")
    done
    expect 2 "$forkgate" "${words[@]}"
    lines err 1
    has err "$b"
    checks=$((checks + 1))
  done
done

# ---- an output in place of what is read, by whatever name: refused at once, and what was there stays ----
mkdir folder other
cp a.fgd b.fgd folder
cp b.fgd other/a.fgd
ln -s ../a.fgd folder/link
cp "$single" prompt.txt
cp "$model" f.gguf
printf 'name,file,offset,bytes\na,single.txt,0,4\n' >battery.csv
kept() { cksum a.fgd b.fgd row.fgt a.csv ids.csv run.csv folder/*.fgd other/* prompt.txt f.gguf battery.csv; }
before=$(kept)
for line in 'diff a.fgd b.fgd --csv ./a.fgd' 'diff a.fgd b.fgd --csv folder/../b.fgd' 'diff a.fgd b.fgd --csv folder/link' \
  'diff row.fgt row.fgt --csv ./row.fgt' 'diff folder other --csv other/a.fgd' 'diff a.fgd b.fgd --control folder --csv folder/b.fgd' \
  'replay --follow a.fgd -p It~was -o ./a.fgd' 'replay --follow a.fgd -f prompt.txt -o prompt.txt' \
  'replay --battery battery.csv --follow folder -o other/../folder' 'generate -f prompt.txt -n 1 -o prompt.txt' \
  'make-model --from f.gguf --quant q8_0 f.gguf' 'import a.csv -o ./a.csv' 'report export run.csv -o ./run.csv' \
  'report html --diff a.fgd b.fgd -o b.fgd' 'explain a.fgd b.fgd -p It~was --csv b.fgd' \
  'explain a.fgd --geometry fa_tkv=16 -p It~was --margins a.fgd' 'bench -f prompt.txt --csv prompt.txt' \
  'ab --b-geometry fa_tkv=16 -f prompt.txt --csv prompt.txt' \
  'trace --tokens ids.csv --prompt-tokens 2 --capture 1 --values ./ids.csv'; do
  words=()
  for w in $line; do words+=("${w//\~/ }"); done
  trouble timeout 60 "$forkgate" "${words[@]}"
  has err 'the output would replace the input'
  checks=$((checks + 1))
done
[ "$(kept)" = "$before" ] || fail 'an input was replaced'

# ---- a full disk under standard output: one line, also where the command itself noticed ----
for line in --help --version --man 'run --list' 'mutants --list' 'golden list' 'golden verify' 'golden show sm_90-f16/holmes' \
  'generate -p x -n 1' 'replay --follow a.fgd -p It~was' 'diff a.fgd b.fgd' 'diff row.fgt row.fgt' 'diff dir dir' 'explain a.fgd --geometry fa_tkv=16 -p It~was' \
  "bisect $forkgate $forkgate --golden a.fgd -p It~was" 'trace --tokens ids.csv --prompt-tokens 2' 'inspect a.fgd' 'inspect row.fgt' \
  "inspect $model" 'report export run.csv' 'report compare run.csv run.csv' 'report html run.csv' 'make-model new.gguf' occupancy \
  "bench --rounds 1 --warm 0 --decode 0 -f $single" 'run --tier parity --only op.add'; do
  words=()
  for w in $line; do words+=("${w//\~/ }"); done
  code=0
  "$forkgate" "${words[@]}" >/dev/full 2>err </dev/null || code=$?
  : >out
  [ $code = 2 ] || fail "exit $code with a full disk: $line"
  lines err 1
  [[ $line == 'diff dir dir' ]] || grep -qE 'No space left|cannot (write|be written)' err || fail "does not say it: $line"
  checks=$((checks + 1))
done

# ---- numbers that cannot be judged: a norm of F32 declared F16 is noise, every logit a NaN ----
at=$(grep -abo output_norm.weight "$model" | head -n 1 | cut -d : -f 1)
cp "$model" noise.gguf
printf '\001' | dd of=noise.gguf bs=1 seek=$((at + 18 + 4 + 8)) conv=notrunc status=none
for out in '' '-o noise.fgd'; do
  # shellcheck disable=SC2086
  expect 2 "$forkgate" generate -m noise.gguf -p 'It was' -n 1 $out
  lines err 1
  has err 'forkgate: generate: INVALID from token 0 on: the top-1 logit is NaN or infinite'
done
has err '; wrote noise.fgd'
[ $checks -ge 250 ] || fail "only $checks failures were tried"
echo "cli.errors: passed ($checks failures)"
