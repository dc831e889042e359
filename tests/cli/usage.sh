#!/usr/bin/env bash
# A usage error of any command is one line on stderr (which command, what, where help is), nothing on stdout, exit 2.
# usage: usage.sh FORKGATE
forkgate=$1
. "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

# usage_error TEXT COMMAND..
usage_error() {
  local text=$1
  shift
  trouble "$@"
  has err "$text"
  head -c "$(printf 'forkgate %s: ' "$2" | wc -c)" err | grep -qF "forkgate $2: " || fail "does not start with its command: $*"
}

mapfile -t commands < <("$forkgate" --help | sed -n 's/^  \([a-z-]*\)  *[a-zA-Z].*/\1/p')
[ "${#commands[@]}" -ge 15 ] || fail "the help lists ${#commands[@]} commands"
for c in "${commands[@]}"; do
  usage_error "unrecognized option '--frobnicate'" "$forkgate" "$c" --frobnicate
  usage_error "invalid option -- 'Z'" "$forkgate" "$c" -Z
  usage_error "doesn't allow an argument" "$forkgate" "$c" --help=now
  expect 2 sh -c "'$forkgate' $c --help >/dev/full"
  lines err 1
  expect 0 "$forkgate" "$c" --help
  [ ! -s err ] || fail "--help of $c wrote to stderr"
  # examples can be pasted: none is broken by the margin, and a remark behind one is a comment
  awk '/^Examples:/ { on = 1; next } on && (/^$/ || /^Exit:/) { on = 0 } on && !/^  / { bad = 1 } on { n++ } END { exit n == 0 || bad }' out ||
    fail "--help of $c has no examples, or broken ones"
  if grep -E '^  forkgate .* {2,}[^ #\\-]' out; then fail "a remark that is no comment"; fi
  grep -q '^Exit:\|(exit ' out || fail "--help of $c has no exit codes"
done

# the table behind the options: each that takes a number or one of some words refuses anything else, by its own name
tried=0
for c in "${commands[@]}"; do
  "$forkgate" "$c" --help | sed -n 's/^ *\(-., \)\{0,1\}--\([a-z-]*\)=\([^ ]*\).*/\2 \3/p' >long
  while read -r option arg; do
    case $arg in
      N | K | S | X | KB | PERCENT | SECONDS | STEP | POS | TYPE | *'|'*) ;;
      *) continue ;;
    esac
    case $c$option in runbase | make-modelquant) continue ;; esac # words of another kind
    dashes=--
    [ "${#option}" -gt 1 ] || dashes=-
    usage_error "forkgate $c: $dashes$option zebra: " "$forkgate" "$c" "$dashes$option" zebra
    tried=$((tried + 1))
  done <long
done
[ $tried -ge 80 ] || fail "only $tried options were tried"
for v in 0 -1 1.5 99999999999 5x ''; do usage_error "--runs $v: want a whole number from 1 to 10000" "$forkgate" bisect --runs "$v"; done
usage_error "--warm -0.5: want a number from 0 to 3600" "$forkgate" bench --warm=-0.5
usage_error "--warm nan: want a number from 0 to 3600" "$forkgate" bench --warm nan
usage_error "--metric decod: want prefill or decode" "$forkgate" ab --metric decod
usage_error "--kv f64: want f16, q8_0 or f32" "$forkgate" generate --kv f64
usage_error "--seed 18446744073709551616: not a whole number of 64 bits" "$forkgate" make-model --seed 18446744073709551616 x
usage_error "--seed is for synthetic weights, not for --from" "$forkgate" make-model --from x.gguf --seed 3 y.gguf
usage_error "give --golden G.fgd" "$forkgate" bisect one two
usage_error "give --tokens FILE.csv" "$forkgate" trace
usage_error "give --prompt-tokens N" "$forkgate" trace --tokens ids.csv

usage_error "give two dumps, two tensors or two folders of dumps (forkgate diff --help)" "$forkgate" diff
usage_error "option '--csv' requires an argument" "$forkgate" diff --csv
usage_error "--eol a?b: want crlf or lf (forkgate diff --help)" "$forkgate" diff --eol $'a\nb'
usage_error "unexpected argument 'three'" "$forkgate" diff one two three
usage_error "--threads 0: want a whole number from 1 to 64" "$forkgate" generate -t 0
usage_error "give verify, list, show, review or refresh" "$forkgate" golden
usage_error "give a .fgd, .fgt or .gguf file" "$forkgate" inspect
usage_error "give FILE and -o OUT.fgd" "$forkgate" import
usage_error "give --follow GOLDEN.fgd" "$forkgate" replay
usage_error "Try \`forkgate run --help'" "$forkgate" run --class $'x\nTry `forkgate run --help\'?'

# progress goes to a terminal only, and leaves nothing behind
if command -v script >/dev/null; then
  expect 0 "$forkgate" generate -p 'It was' -n 4 -o a.fgd
  expect 0 script -qec "env -u CI $forkgate replay --follow a.fgd -p 'It was' --decode" typescript
  has out 'replay: token '
  expect 0 env CI=1 script -qec "$forkgate replay --follow a.fgd -p 'It was'" typescript
  lacks out 'replay: token'
fi

trouble "$forkgate"
has err "forkgate: give a command"
trouble "$forkgate" frobnicate
has err "forkgate: unknown command 'frobnicate'"
echo "cli.usage: passed ($tried options refuse what is no value of theirs)"
