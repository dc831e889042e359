#!/bin/bash
# golden.sh - the life of goldens as a shell sees it, in a tree of its own with two short prompts.
# usage: golden.sh FORKGATE
forkgate=$1
. "$(dirname "$0")/expect.sh"
root=$(cd "$(dirname "$0")/../.." 2>/dev/null && pwd || true)
[ -f "$root/fixtures/op_cases.csv" ] || root=$OLDPWD
unset CI

mkdir -p tree/golden tree/fixtures
for f in "$root"/fixtures/*; do ln -s "$f" tree/fixtures/; done
rm tree/fixtures/golden_prompts.csv tree/fixtures/MANIFEST.csv
cp "$root/golden/budgets.csv" "$root/golden/suite.csv" tree/golden/
printf 'file,quick,full,why\nsingle.txt,16,16,short\nnight.txt,16,16,short\n' >tree/fixtures/golden_prompts.csv
sed 's/^fixtures.golden_prompts.csv,[^,]*,[^,]*/fixtures\/golden_prompts.csv,65,1042a15f4cdcfcc587a355a3f35de470/' "$root/fixtures/MANIFEST.csv" >tree/fixtures/MANIFEST.csv
export FORKGATE_ROOT=$PWD/tree

# nothing there
trouble "$forkgate" golden list
has err 'manifest.csv names no golden'
expect 2 "$forkgate" golden verify
trouble "$forkgate" golden explode
trouble "$forkgate" golden show

# refusals before any work
trouble "$forkgate" golden refresh
has err 'needs --reason'
# the route is --routes here: --route alone would be read by nobody
for action in list review 'refresh --reason x' 'verify --regenerate'; do
    trouble "$forkgate" golden $action --route q8
    has err 'give --routes f16 or --routes q8'
done
# an option that the action does not read is a mistake
trouble "$forkgate" golden verify -t 2
has err 'verify makes no stream'
trouble "$forkgate" golden show --routes q8 x
has err 'show makes no stream'
CI=true trouble "$forkgate" golden refresh --reason 'never here'
has err 'CI=true'
mkdir tree/golden/.lock
trouble "$forkgate" golden refresh --reason 'cannot be written'
has err '.lock: Is a directory'
rmdir tree/golden/.lock

# the first goldens
expect 0 "$forkgate" golden refresh --reason 'first goldens'
has out 'gates passed'
has out 'repeat     4 of 4 streams equal in a fresh process, alone'
last out 'golden: 0 same, 0 changed, 4 new, 0 refused'
expect 0 "$forkgate" golden verify
last out 'golden: 4 intact, 0 damaged'
# each name is a golden's, and each option is the action's
trouble "$forkgate" golden verify sm_90-f16/single sm_90-f16/typo
has err "manifest.csv names no golden 'sm_90-f16/typo'"
expect 0 "$forkgate" golden verify sm_90-f16/single 'sm_90-q8/*'
last out 'golden: 3 intact, 0 damaged'
trouble "$forkgate" golden list sm_90-f16/single
trouble "$forkgate" golden list --regenerate
trouble "$forkgate" golden verify --reason 'none is needed'

# a lost manifest: nothing is new, nothing is an orphan, nothing moves
mv tree/golden/manifest.csv lost.csv
find tree/golden -name '*.fgd' | sort >dumps
trouble "$forkgate" golden refresh --reason 'all of it is new' --routes q8
has err 'manifest.csv is gone, and sm_90-'
trouble "$forkgate" golden verify
has err 'bring it back'
find tree/golden -name '*.fgd' | sort | cmp -s dumps - || fail 'dumps went with their manifest'
mv lost.csv tree/golden/manifest.csv
expect 0 "$forkgate" golden verify --regenerate
last out 'golden: 4 same, 0 changed, 0 new, 0 refused'
expect 0 "$forkgate" golden show sm_90-f16/single
has out 'reason     first goldens'
has out 'prompt           single.txt'
expect 0 "$forkgate" run --only stream.golden.q8
has out 'comparison with itself is no independent evidence'
cp tree/golden/manifest.csv before.csv

# nothing changed: nothing to refresh
expect 1 "$forkgate" golden refresh --reason 'why not' 'sm_90-f16/*'
has err 'nothing changed'

# shorter streams: a change of records 12 to 15, which nobody named
printf 'file,quick,full,why\nsingle.txt,12,12,short\nnight.txt,16,16,short\n' >tree/fixtures/golden_prompts.csv
expect 1 "$forkgate" golden review
has out '! sm_90-f16/single       4 records (12-15)'
has out 'record 12 is outside the named set'
last out 'golden: 2 same, 0 changed, 0 new, 2 refused'
expect 1 "$forkgate" golden refresh --reason 'shorter' sm_90-f16/single
has err 'sm_90-q8/single changed at record 12'
expect 1 "$forkgate" golden refresh --reason 'shorter' sm_90-f16/single:13-15 sm_90-q8/single
has err 'sm_90-f16/single changed at record 12'
trouble "$forkgate" golden refresh --reason 'shorter' 'sm_90-f16/none' --routes f16 # before parity and streams
has err "no stream is named 'sm_90-f16/none'"
trouble "$forkgate" golden refresh --reason 'shorter' sm_90-f16/single --routes q8
has err "no stream is named 'sm_90-f16/single'"
trouble "$forkgate" golden review sm_90-f16/single --geometry fa_tkv=16
cmp -s before.csv tree/golden/manifest.csv || fail 'a refused refresh wrote the manifest'
expect 0 "$forkgate" golden refresh --reason 'shorter' sm_90-f16/single:12-15 sm_90-q8/single
last out 'golden: 2 same, 2 changed, 0 new, 0 refused'
expect 0 "$forkgate" golden verify
cmp -s "$root/golden/budgets.csv" tree/golden/budgets.csv || fail 'a refresh moved a bound'

# another tile is another key, not a change of the default one
expect 1 "$forkgate" golden review --geometry fa_tkv=16 --routes f16
has out '+ sm_90-f16/single+tkv=16+chunk=256'
# a name given is the only one meant: the other new stream is refused, and nothing is written
expect 1 "$forkgate" golden review --geometry fa_tkv=16 --routes f16 'sm_90-f16/single+tkv=16*'
has out '! sm_90-f16/night+tkv=16+chunk=256 new, 16 tokens'
has out 'a new stream outside the named set'
last out 'golden: 0 same, 0 changed, 1 new, 1 refused'

# a build whose parity is red may not make goldens
sed 's/^rope,\*,max_scaled,[^,]*/rope,*,max_scaled,1e-12/' "$root/golden/budgets.csv" >tree/golden/budgets.csv
expect 1 "$forkgate" golden refresh --reason 'looks fine to me' 'sm_90-f16/*'
has err "parity is not green"

# damage
f=tree/golden/$(sed -n 's/.*,\(sm_90-q8\/[0-9a-f]*\.fgd\),.*/\1/p' tree/golden/manifest.csv | head -n 1)
printf '\125' | dd of="$f" bs=1 seek=1500 conv=notrunc status=none
expect 2 "$forkgate" golden verify
has out 'DAMAGED  golden sm_90-q8/'
has out 'golden: 3 intact, 1 damaged'
exit 0
