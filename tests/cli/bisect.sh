#!/bin/bash
# bisect.sh - `forkgate bisect` over real builds (scripts round one binary), resumed; and `git bisect run` over commits.
# usage: bisect.sh FORKGATE
forkgate=$1
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/tests/cli/expect.sh"

prompt='It was a dark and stormy night, and the rain fell in'
"$forkgate" generate -p "$prompt" -n 5 -t 1 -o golden.fgd >/dev/null 2>&1 || fail generate

# build NAME OPTIONS: a "build" that runs the real one with other options and counts its runs
build() {
  local name=$1
  shift
  printf '#!/bin/sh\necho %s >>%s/ran\nexec %s "$@" %s\n' "$name" "$work" "$forkgate" "$*" >"$name"
  chmod +x "$name"
}
ran() { sort ran 2>/dev/null | uniq -c | awk '{ printf "%s%s:%s", NR > 1 ? " " : "", $2, $1 }'; }
for i in 1 2 3 4; do build "b$i"; done
for i in 5 6; do build "b$i" --geometry fa_tkv=16; done
printf '#!/bin/sh\nkill -SEGV $$\n' >b3
list=(./b1 ./b2 ./b3 ./b4 ./b5 ./b6)

# the first build with another tile: ends first, then halves, round the one that crashes
expect 1 "$forkgate" bisect "${list[@]}" --golden golden.fgd -p "$prompt" --state s.csv
has out 'good        ./b1  5 tokens, all rows of logits equal'
has out 'bad         ./b6  logits differ from step'
has out 'untestable  ./b3  killed by signal 11'
has out 'first bad   ./b5 (5 of 6), after ./b4'
has out 'next        forkgate explain golden.fgd --binary-a ./b4 --binary-b ./b5'
last out 'forkgate: FIRST BAD ./b5'
lines err 0
head -n 1 s.csv | grep -q '^# forkgate bisect 2: golden ' || fail 'the state names its question'

trouble "$forkgate" bisect ./b1 ./b2 --golden golden.fgd -p "$prompt" -n 6
has err '-n 6: golden.fgd was asked for 5 tokens'

# again: everything is known, nothing runs
mv ran ran.first
expect 1 "$forkgate" bisect "${list[@]}" --golden golden.fgd -p "$prompt" --state s.csv
has out '(known)'
last out 'forkgate: FIRST BAD ./b5'
[ ! -e ran ] || fail "runs although all was known: $(ran)"

# interrupted: the state of a search that was cut off after three answers is a prefix of the whole one
head -n 5 s.csv >part.csv
expect 1 "$forkgate" bisect "${list[@]}" --golden golden.fgd -p "$prompt" --state part.csv
last out 'forkgate: FIRST BAD ./b5'
[ -e ran ] && [ "$(wc -l <ran)" -lt "$(wc -l <ran.first)" ] || fail "a resumed search runs less: $(ran)"

# tokens only: the same text until the fork, so no build is bad
expect 0 "$forkgate" bisect "${list[@]}" --golden golden.fgd -p "$prompt" --stream
last out 'forkgate: NONE BAD, up to ./b6'

# the answer hides behind builds that cannot be tested; a first build that is bad already
expect 2 "$forkgate" bisect ./b1 ./b3 ./b6 --golden golden.fgd -p "$prompt"
has out 'FIRST BAD is one of 2 to 3 (./b3 .. ./b6)'
expect 2 "$forkgate" bisect ./b5 ./b6 --golden golden.fgd -p "$prompt"
last out 'forkgate: ALL BAD, ./b5 differs already'
expect 2 "$forkgate" bisect ./b3 ./b3 --golden golden.fgd -p "$prompt"
last out 'forkgate: NONE TESTED'

# a build that is not there is untestable too, in the middle and at both ends; its answer is not kept for when it is
expect 1 "$forkgate" bisect ./b1 ./absent ./b2 ./b5 --golden golden.fgd -p "$prompt" --state absent.csv
has out 'untestable  ./absent  ./absent: cannot be run: No such file or directory'
last out 'forkgate: FIRST BAD ./b5'
cp b5 absent
expect 2 "$forkgate" bisect ./absent ./b5 --golden golden.fgd -p "$prompt"
expect 1 "$forkgate" bisect ./b1 ./absent ./b5 --golden golden.fgd -p "$prompt" --state absent.csv
last out 'forkgate: FIRST BAD ./absent'
rm absent
expect 2 "$forkgate" bisect ./b1 ./b2 ./absent --golden golden.fgd -p "$prompt"
last out 'forkgate: NONE BAD up to ./b2 (2 of 3); what comes after it cannot be tested'
expect 2 "$forkgate" bisect ./absent ./b5 ./b6 --golden golden.fgd -p "$prompt"
last out 'forkgate: NO GOOD BUILD, ./b5 (2 of 3) differs already; what comes before it cannot be tested'
lacks out 'ALL BAD'

# the next command can be pasted, whatever the names, and holds the prompt
mkdir "it's"
cp golden.fgd "it's/a golden.fgd"
cp b5 "it's/b5"
expect 1 "$forkgate" bisect ./b1 "./it's/b5" --golden "it's/a golden.fgd" -p "$prompt"
next=$(sed -n 's/^next *forkgate //p' out)
expect 1 eval "'$forkgate' $next"
has out 'verdict     REGROUPING'

# a slice of the battery is no file of its own
expect 0 "$forkgate" bisect "$forkgate" "$forkgate" --golden "$root/golden/battery/fa_tkv32/whale-512-0380.fgd" -n 2
has out '2 tokens, all rows of logits equal'
last out "forkgate: NONE BAD, up to $forkgate"

# what is refused
trouble "$forkgate" bisect ./b1 ./b6 --golden golden.fgd -p 'another prompt'
has err 'not the prompt of golden.fgd'
trouble "$forkgate" bisect ./b1 ./b6 --golden golden.fgd -p "$prompt" --state s.csv --stream
has err 's.csv answers another question'
expect 2 "$forkgate" bisect ./b1 --golden golden.fgd

# ---- git bisect run: exit 125 where the build fails, diff's own exit code elsewhere ---------------------------------
command -v git >/dev/null || { echo 'bisect: all checks hold (no git: git bisect run not tried)'; exit 0; }
mkdir repo
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 HOME=$work
export GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@example.org GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@example.org
git -C repo init -q
commit() { # NUMBER OPTIONS: the "source" is the list of options, the "build" makes a run of it
  echo "$2" >repo/options
  git -C repo add options
  git -C repo commit -q -m "$1"
  git -C repo tag "c$1"
}
commit 1 ''; commit 2 '--chunk 4'; commit 3 broken; commit 4 '--geometry fa_tq=128'
commit 5 '--geometry fa_tkv=16'; commit 6 '--geometry fa_tkv=16 --chunk 3'
cat >step <<END
#!/bin/sh
grep -q broken options && exit 125
"$forkgate" generate -p "$prompt" -n 5 -t 1 \$(cat options) -o "$work/new.fgd" >/dev/null 2>&1 || exit 125
"$forkgate" diff --bits "$work/golden.fgd" "$work/new.fgd"
code=\$?
test \$code -ne 2 || exit 125
exit \$code
END
chmod +x step
expect 0 git -C repo bisect start c6 c1
expect 0 git -C repo bisect run "$work/step"
has out "$(git -C repo rev-parse c5) is the first bad commit"

echo 'bisect: all checks hold'
