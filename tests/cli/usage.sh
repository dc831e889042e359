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
done

usage_error "give two dumps, or two folders of dumps (forkgate diff --help)" "$forkgate" diff
usage_error "option '--csv' requires an argument" "$forkgate" diff --csv
usage_error "--eol a?b: want crlf or lf (forkgate diff --help)" "$forkgate" diff --eol $'a\nb'
usage_error "unexpected argument 'three'" "$forkgate" diff one two three
usage_error "--threads 0: want a whole number from 1 to 64" "$forkgate" generate -t 0
usage_error "give verify, list, show, review or refresh" "$forkgate" golden
usage_error "give a .fgd, .fgt or .gguf file" "$forkgate" inspect
usage_error "give FILE and -o OUT.fgd" "$forkgate" import
usage_error "give --follow GOLDEN.fgd" "$forkgate" replay
usage_error "Try \`forkgate run --help'" "$forkgate" run --class $'x\nTry `forkgate run --help\'?'

trouble "$forkgate"
has err "forkgate: give a command"
trouble "$forkgate" frobnicate
has err "forkgate: unknown command 'frobnicate'"
