#!/bin/bash
# tile_experiment.sh - the committed tile experiment, judged again: FA_TKV 32 -> 16 forks 7 of 64 streams, each at a knife
# edge by a control that is not the candidate's own; the same numbers without a control are a FORK.
# usage: tile_experiment.sh FORKGATE
forkgate=$1
battery=$(cd "$(dirname "$0")/../.." && pwd)/golden/battery
. "$(dirname "$0")/expect.sh"
base=$battery/fa_tkv32
candidate=$battery/fa_tkv16
control=$battery/control-fa_tkv64

expect 1 "$forkgate" diff "$base" "$candidate" --control "$control"
last out 'forkgate: 57 identical (57 with other logits), 0 exact-tie, 7 knife-edge, 0 fork, 0 length, 0 invalid, 0 not comparable, 0 unusable'

pair=whale-512-0380.fgd
expect 1 "$forkgate" diff "$base/$pair" "$candidate/$pair" --control "$control"
has out 'fork at token 96 of 256 | 256, text byte 380'
has out 'A        [- a-]  id 259  logit 11.005867  gap 0.0027141571 (2846 ULP of f32)'
has out 'B        {+ my+}  id 329  logit 11.0083656  gap 0.000909805298 (954 ULP of f32)'
has out 'rails      row hash differs first at step 0'
has out '(64 pairs: fa_tkv=64)'
last out 'forkgate: KNIFE-EDGE'

# The candidate's own geometry is no control: it would excuse itself.
expect 1 "$forkgate" diff "$base/$pair" "$candidate/$pair" --control "$candidate"
has out 'no pair there is a control for this comparison'
last out 'forkgate: FORK'

# Without --control the calibrated row of golden/budgets.csv speaks for this model, route and change.
expect 1 "$forkgate" diff "$base/$pair" "$candidate/$pair"
has out 'golden/budgets.csv'
last out 'forkgate: KNIFE-EDGE'

# One stream of the experiment is made again, from the prompt, and is the committed one bit for bit.
for tile in 32 16; do
  expect 0 "$forkgate" replay --follow "$battery/fa_tkv$tile/$pair" --geometry fa_tkv=$tile -o again.fgd
  has out 'logits hashes equal'
done

# A dump without row hashes can be followed too; of its logits nothing is known.
key() { head -c 4096 again.fgd | grep -a "^$1=" | tr -d '\0'; }
"$forkgate" inspect again.fgd --eol lf | sed 's/,[^,]*$//' >bare.csv
expect 0 "$forkgate" import bare.csv -o bare.fgd -P "$(key prompt)" -P "$(key prompt.xxh3)" -P "$(key model.xxh3)"
expect 0 "$forkgate" replay --follow bare.fgd --geometry fa_tkv=16
has out 'logits hashes unknown: a row of the dump has none'
