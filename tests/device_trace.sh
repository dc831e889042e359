#!/usr/bin/env bash
# Does the device sum what the host sums? The same tokens through the CPU twin, through the kernels watched where the tensors
# lie, and through the kernels with every tensor copied: each op's checksum and the captured values must be equal. And where
# calls are merged into one launch, watching must leave them merged.
# usage: device_trace.sh FORKGATE
# exit: 0 all equal, 1 not, 2 nothing could be compared
set -uo pipefail
forkgate=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 2
bad=0 arms=0
{ echo id; seq 5 44; } >ids.csv # 38 of prompt (more than two key tiles), two steps
"$forkgate" make-model --shape tiny qwen2.gguf >/dev/null && "$forkgate" make-model --shape tiny --arch qwen3 qwen3.gguf >/dev/null ||
  exit 2

# trace NAME OPTION...: NAME.csv without what may differ (kernels, costs), NAME.all as it came
trace() {
  local name=$1
  shift
  "$forkgate" trace --tokens ids.csv --prompt-tokens 38 --ops 0 --rows 0/attention/attn --capture 20 --capture 39 \
    --values "$name.fgt" "$@" >"$name.all" 2>"$name.err" || { cat "$name.err"; return 1; }
  grep -v '^#' "$name.all" | cut -d, -f1-6,8- >"$name.csv"
  "$forkgate" inspect "$name.fgt" | grep -v '^#' >"$name.values"
}

for model in qwen2 qwen3; do
  for route in f16 q8; do
    for kv in f16 q8_0; do
      options=(-m $model.gguf --route $route --kv $kv)
      trace twin --backend cpu "${options[@]}" && trace screened --backend cuda --chunk 17 "${options[@]}" &&
        trace copied --backend cuda --copy-all "${options[@]}" || exit 2
      for side in screened copied; do
        arms=$((arms + 1))
        cmp -s twin.csv $side.csv && cmp -s twin.values $side.values && continue
        echo "$model $route $kv: $side and the twin differ"
        diff twin.csv $side.csv | head -4
        bad=$((bad + 1))
      done
      grep -q ',rmsnorm_act,' screened.all || { echo "$model $route $kv: watching took merged launches apart"; bad=$((bad + 1)); }
    done
  done
done
echo "trace: $arms arms of $(wc -l <twin.csv) checksums, $bad differ"
[ $arms -gt 0 ] || exit 2
[ $bad -eq 0 ] || exit 1
