# expect.sh - sourced by the CLI tests: run a command, check its exit code, look into its output.
# Not a framework: the first failed check ends the script with 1 and says which.
# usage: . expect.sh; expect 0 "$forkgate" ...; has out 'text'; lacks err 'text'; last out 'text'; lines err 1
set -u
export LC_ALL=C.UTF-8
unset LANGUAGE CLICOLOR_FORCE FORCE_COLOR NO_COLOR FORKGATE_ROOT
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

fail() {
  echo "FAILED: $*" >&2
  echo "--- out" >&2; cat -A out >&2 || true
  echo "--- err" >&2; cat -A err >&2 || true
  exit 1
}

# expect CODE COMMAND..: stdout goes to ./out, stderr to ./err
expect() {
  local want=$1 got=0
  shift
  "$@" >out 2>err </dev/null || got=$?
  [ "$got" -eq "$want" ] || fail "exit $got, want $want: $*"
}

has() { grep -qF -e "$2" "$1" || fail "$1 lacks: $2"; }
lacks() { ! grep -qF -e "$2" "$1" || fail "$1 has: $2"; }
last() { [ "$(tail -n 1 "$1")" = "$2" ] || fail "last line of $1 is not: $2"; }
lines() { [ "$(wc -l <"$1")" -eq "$2" ] || fail "$1 has $(wc -l <"$1") lines, want $2"; }

# runs PID..: one of them runs on (a zombie does not)
runs() { local p; for p in "$@"; do ! grep -qs '^State:.[^Z]' "/proc/$p/status" || return 0; done; return 1; }

# trouble COMMAND..: exit 2, nothing on stdout, exactly one line on stderr
trouble() {
  expect 2 "$@"
  [ ! -s out ] || fail "trouble printed results: $*"
  lines err 1
}

# stream NAME ROWS..: NAME.fgd from rows "token_id,text,logit1,id2,logit2" (text escaped), with $keys as provenance
keys="-P n_vocab=1000 -P sampler=greedy -P repeat_penalty=1 -P logits=f32 -P prompt=holmes.txt"
stream() {
  local name=$1 step=0 row id text l1 id2 l2
  shift
  printf 'step,token_id,token_text_escaped,id1,logit1,id2,logit2\n' >"$name.csv"
  for row in "$@"; do
    IFS=, read -r id text l1 id2 l2 <<<"$row"
    printf '%s,%s,"%s",%s,%s,%s,%s\n' "$step" "$id" "$text" "$id" "$l1" "$id2" "$l2" >>"$name.csv"
    step=$((step + 1))
  done
  # shellcheck disable=SC2086
  "$forkgate" import "$name.csv" -o "$name.fgd" $keys ${extra-} 2>err || fail "import of $name"
}
