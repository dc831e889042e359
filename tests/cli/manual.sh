#!/bin/bash
# manual.sh - every option that --help names is in the man page and in the completion; the completion completes; roff is clean.
# usage: manual.sh FORKGATE
forkgate=$1
. "$(dirname "$0")/expect.sh"

expect 0 "$forkgate" --man
cp out man.1
lines err 0
expect 0 "$forkgate" --completion bash
cp out complete.bash
expect 2 "$forkgate" --completion
expect 2 "$forkgate" --completion tcsh
expect 2 sh -c "'$forkgate' --man > /dev/full"

# one section of the man page and one case of the completion a command
section() { awk -v head=".SS $1:" 'index($0, ".SS ") == 1 { on = index($0, head) == 1 } on' man.1; }
branch() { awk -v head="  $1)" '$0 == head { on = 1 } on { print } on && $0 == "    ;;" { exit }' complete.bash; }
expect 0 "$forkgate" --help
sed -n 's/^  \([a-z-]*\)  *[^ ].*/\1/p' out >names
[ "$(wc -l <names)" -ge 12 ] || fail "only $(wc -l <names) commands in --help"
options=0
while read -r name; do
  expect 0 "$forkgate" "$name" --help
  section "$name" | sed 's/\\-/-/g' >page
  branch "$name" >case
  [ -s page ] || fail "no section about $name"
  [ -s case ] || fail "no completion of $name"
  grep -oE '^ {2,7}(-., )?--[a-z0-9-]+' out | grep -oE -- '--[a-z0-9-]+' | sort -u >long
  while read -r option; do
    options=$((options + 1))
    grep -qE "^    options='.* $option([= ']|$)" case || fail "$name: $option is not completed"
    case $option in --help | --usage) continue ;; esac
    grep -qF -- "\\fB$option\\fR" page || fail "$name: $option is not in the man page"
  done <long
done <names
[ "$options" -ge 60 ] || fail "only $options options were looked at"

# the completion at work
complete_words() { # words.. : what the last one completes to
  bash -c 'complete() { :; }; compopt() { :; }; . ./complete.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _forkgate; echo "${COMPREPLY[@]}"' complete "$@" >out
}
complete_words forkgate exp
last out 'explain'
complete_words forkgate run --back
last out '--backend='
complete_words forkgate run --backend = c
last out 'cpu cuda'
complete_words forkgate generate --route f1
last out 'f16'
complete_words forkgate golden ref
last out 'refresh'
complete_words forkgate import man
last out 'man.1'
if command -v shellcheck >/dev/null; then shellcheck -s bash -e SC2207 complete.bash || fail 'shellcheck'; fi
if command -v groff >/dev/null; then
  groff -man -Tascii -ww man.1 >page.txt 2>warnings
  [ ! -s warnings ] || fail "groff: $(head -3 warnings)"
fi
grep -q '^\.TH FORKGATE 1' man.1 || fail 'no title'
if grep -E '/(work|root|home|tmp)/' man.1 complete.bash; then fail 'a path of this machine'; fi
echo "cli.manual: passed ($options options)"
