#!/bin/bash
# occupancy.sh - derived rows without a GPU, a named card, one kernel, CSV; what cannot be answered is refused.
# usage: occupancy.sh FORKGATE
forkgate=$1
. "$(dirname "$0")/expect.sh"

expect 0 "$forkgate" occupancy --sm-smem 100 --kernel fa_prefill_f16kv
lines out 18
lines err 0
grep -q 'fa_tq=64 fa_tkv=32 head_dim=128 .* 34816 B shared .* derived .*shared 2,' out || fail '34.8 KB: 2 blocks'
grep -q 'fa_tq=64 fa_tkv=16 head_dim=128 .* 32768 B shared .* derived .*shared 3,' out || fail '32 KB: 3 blocks'
lacks out queried

expect 0 "$forkgate" occupancy --csv o.csv
has o.csv 'card,kernel,geometry,threads,registers,shared,dynamic,by_shared,by_registers,by_threads,resident,grade'
[ "$(wc -l <o.csv)" -eq $(($(wc -l <out) + 1)) ] || fail 'a row of the CSV for every line'
has o.csv gemm_f16_wgmma
lacks o.csv queried

trouble "$forkgate" occupancy --kernel nosuch
has err "no kernel is called 'nosuch'"
expect 2 "$forkgate" occupancy --sm-smem 0
expect 2 "$forkgate" occupancy surplus

# --device: an answer from the driver, or one line that says why there is none
"$forkgate" occupancy --device --kernel fa_prefill_f16kv >out 2>err
case $? in
0) has out queried ;;
2) lines err 1 ;;
*) fail "exit of --device" ;;
esac
