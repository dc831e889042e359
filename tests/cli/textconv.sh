#!/bin/bash
# textconv.sh - in a repository with the documented configuration, `git diff` shows the records of a dump that changed.
# usage: textconv.sh FORKGATE
forkgate=$1
here=$(cd "$(dirname "$0")/../.." && pwd)
. "$(dirname "$0")/expect.sh"
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=x GIT_AUTHOR_EMAIL=x@x GIT_COMMITTER_NAME=x GIT_COMMITTER_EMAIL=x@x

stream a '1, the,20,50,15' '2, cat,20,50,15' '3, sat,20,50,15'
stream b '1, the,20,50,15' '2, cat,20,50,15' '7,=cmd,20,50,15.5'
grep '^\*\.fgd' "$here/.gitattributes" >attributes || fail '.gitattributes does not name .fgd'
git init -q repo
cd repo || exit 1
cp ../attributes .gitattributes
git config diff.fgd.textconv "$forkgate inspect --textconv"
cp ../a.fgd golden.fgd
git add . && git commit -qm one
cp ../b.fgd golden.fgd
git diff >../out 2>../err || true
cd ..
lacks out 'Binary files'
has out '-2,3,20736174," sat",3,20,50,15,logit,'
has out '+2,7,3d636d64,\x3Dcmd,7,20,50,15.5,logit,'
has out ' 1,2,20636174," cat",2,20,50,15,logit,'
# a damaged dump is said to be so, and the rest of the diff is there
cd repo || exit 1
cp ../a.fgd other.fgd
git add . && git commit -qm two
truncate -s -1 other.fgd
printf 'no dump' >golden.fgd
expect 0 git diff
mv out err ..
cd ..
lines err 0
has out '+damaged: cut short'
has out '+damaged: neither a dump'
has out '-2,7,3d636d64,\x3Dcmd,7,20,50,15.5,logit,'
trouble "$forkgate" inspect repo/other.fgd
expect 2 "$forkgate" inspect --textconv nowhere.fgd
expect 2 sh -c "'$forkgate' inspect --textconv a.fgd > /dev/full"
# without a textconv the dump is still binary to git, never merged as text
git -C repo config --unset diff.fgd.textconv
git -C repo diff >out
has out 'Binary files'
echo 'cli.textconv: passed'
