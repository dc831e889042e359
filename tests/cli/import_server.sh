#!/bin/bash
# import_server.sh - answers of real servers through the commands: two settings against each other, one against our own run.
# usage: import_server.sh FORKGATE
forkgate=$1
here=$(cd "$(dirname "$0")/../.." && pwd)
. "$(dirname "$0")/expect.sh"
server=$here/fixtures/peer/server
model=$here/fixtures/models/seedling-q8_0.gguf

expect 0 "$forkgate" import "$server/llamacpp-f16kv-completion.json" -o a.fgd --tokenizer "$model"
lines out 0
has err '64 records'
lacks err 'how it was sampled'
has err 'note: logprobs: gaps count, ULPs do not (--logits-dtype)'
expect 0 "$forkgate" import "$server/llamacpp-q8kv-completion.sse" -o b.fgd --tokenizer "$model"
expect 1 "$forkgate" diff a.fgd b.fgd
has out 'fork at token 42 of 64'
has out 'A top-2  id 314 logprob -0.982601404, id 12 logprob -1.00804436'
lacks out 'ULP of logits'
last out 'forkgate: FORK'

# an OpenAI-style answer does not say how it was sampled: the caller does; a pipe is as good as a file
expect 0 bash -c "cat '$server/python-f16kv-completions.sse' | '$forkgate' import /dev/stdin --format json -o c.fgd \
  --tokenizer '$model' -P sampler=greedy -P repeat_penalty=1"
expect 0 "$forkgate" diff a.fgd c.fgd
last out 'forkgate: IDENTICAL, logits differ'
expect 0 "$forkgate" import "$server/python-f16kv-completions.json" -o d.fgd
has err 'note: from record 0 on there are no ids: compared by bytes (--tokenizer GGUF)'

expect 0 "$forkgate" import "$server/python-q8kv-completions.json" -o e.fgd
expect 1 "$forkgate" diff d.fgd e.fgd
has out 'A top-2  id unknown logprob -0.98'
lacks out 'id -1'

# another engine against ours: the same 42 tokens, then each its own side of a near-tie
expect 0 "$forkgate" generate -f "$here/fixtures/prompts/holmes.txt" -n 64 -o ours.fgd
expect 1 "$forkgate" diff a.fgd ours.fgd
has out 'fork at token 42 of 64'
has out 'A top-2  id 314 logprob'
has out 'B top-2  id 12 logit'
lacks out 'next  ' # explain cannot run the other engine
expect 1 "$forkgate" diff ours.fgd a.fgd
lacks out 'next  '
trouble "$forkgate" explain ours.fgd a.fgd
has err 'a.fgd: another engine made it, which cannot be run here'
trouble "$forkgate" explain a.fgd ours.fgd -f "$here/fixtures/prompts/holmes.txt"
has err 'a.fgd: another engine made it'
# along its tokens our own engine can go, at two geometries; and a CSV of a stream of ours is ours
expect 1 "$forkgate" explain a.fgd -f "$here/fixtures/prompts/holmes.txt" --geometry fa_tkv=16 -n 20
last out 'forkgate: REGROUPING'
expect 0 "$forkgate" generate -f "$here/fixtures/prompts/holmes.txt" -n 64 --repeat-penalty 1.3 -o pen.fgd
"$forkgate" inspect --provenance ours.fgd | sed 's/^# repeat_penalty=1/# repeat_penalty=1.29999995/' >ours.csv
expect 0 "$forkgate" import ours.csv -o again.fgd
expect 1 "$forkgate" diff pen.fgd again.fgd
has out 'next       forkgate explain pen.fgd again.fgd'
expect 1 "$forkgate" explain pen.fgd again.fgd
last out 'forkgate: SAMPLING'

# a server that does not say how it sampled: the refusal says which keys, on which side, and its last words make it go away
unsaid=$server/python-q8kv-completions.json
expect 0 "$forkgate" import "$unsaid" -o unsaid.fgd --tokenizer "$model"
has err 'note: how it was sampled is not told'
expect 2 "$forkgate" diff ours.fgd unsaid.fgd
has out 'sampler differs: A = greedy, B does not say; repeat_penalty differs: A = 1, B does not say; if B ran so, '
flags=$(sed -n 's/^verdict .* import it again with //p' out)
[ "$flags" = '-P sampler=greedy -P repeat_penalty=1' ] || fail "flags: $flags"
# shellcheck disable=SC2086
expect 0 "$forkgate" import "$unsaid" -o said.fgd --tokenizer "$model" $flags
expect 1 "$forkgate" diff ours.fgd said.fgd
last out 'forkgate: FORK'
expect 2 "$forkgate" diff unsaid.fgd ours.fgd
has out '; if A ran so, import it again with -P sampler=greedy -P repeat_penalty=1'
# so for an end token that is gone past, in a folder too; what a side does say cannot be unsaid
expect 0 "$forkgate" generate -f "$here/fixtures/prompts/holmes.txt" -n 64 --ignore-eos -o past.fgd
mkdir -p one two && cp past.fgd one/x.fgd && cp unsaid.fgd two/x.fgd
expect 2 "$forkgate" diff one two
flags=$(sed -n 's/^NOT-COMPARABLE .* import it again with //p' out)
# shellcheck disable=SC2086
expect 0 "$forkgate" import "$unsaid" -o said.fgd --tokenizer "$model" $flags
expect 1 "$forkgate" diff past.fgd said.fgd
expect 0 "$forkgate" generate -f "$here/fixtures/prompts/holmes.txt" -n 64 --ignore-eos --repeat-penalty 1.1 -o other.fgd
expect 2 "$forkgate" diff a.fgd other.fgd
has out 'repeat_penalty differs: A = 1, B = 1.10000002; ignore_eos differs: A does not say, B = 1'
lacks out 'import it again'

# vLLM on the same weights: two dtypes, and its float32 against our own route f32, token by token
expect 0 "$forkgate" import "$server/vllm-f32-completions.json" -o v32.fgd --tokenizer "$model" --logits-dtype f32 -P sampler=greedy -P repeat_penalty=1
expect 0 "$forkgate" import "$server/vllm-bf16-completions.json" -o v16.fgd --tokenizer "$model" --logits-dtype bf16 -P sampler=greedy -P repeat_penalty=1
expect 0 "$forkgate" diff v32.fgd v16.fgd
has out 'drift      max |dlogit| 0.0556055 at step 37, over 64 equal tokens'
last out 'forkgate: IDENTICAL, logits differ'
expect 0 "$forkgate" generate -m "${model/q8_0/f16}" --route f32 --kv f32 -f "$here/fixtures/prompts/holmes.txt" -n 64 -o ours32.fgd
expect 0 "$forkgate" diff v32.fgd ours32.fgd
last out 'forkgate: IDENTICAL'

# what is said twice must be the same
expect 2 "$forkgate" import "$server/vllm-f32-completions.json" -o x.fgd -P sampler=greedy -P sampler=greedy
has err 'sampler is given twice'
trouble "$forkgate" import "$server/vllm-f32-completions.json" -o x.fgd -P stop=eos
has err 'the file says stop=length, and -P says eos'

# refusals: one line with line and byte, nothing written
head -c 20000 "$server/llamacpp-q8kv-completion.sse" >cut.sse
trouble "$forkgate" import cut.sse -o x.fgd
has err 'cut.sse: line 83, byte 20000: the file ends inside a JSON value'
[ ! -e x.fgd ] || fail 'a refused import left a file'
sed 's/"logprob":-1.491686463356018/"logprob":NaN/' "$server/llamacpp-f16kv-completion.json" >nan.json
trouble "$forkgate" import nan.json -o x.fgd
has err 'NaN is no JSON number'
trouble "$forkgate" import "$server/llamacpp-f16kv-chat.json" -o x.fgd --tokenizer "$here/fixtures/tokens/gpt-2.gguf"
has err 'mixed tokenizers'
trouble "$forkgate" import "$server/README.md" -o x.fgd --format json
trouble "$forkgate" import nowhere.json -o x.fgd --format json
expect 2 "$forkgate" import a.json -o x.fgd --logits-dtype f64
expect 2 "$forkgate" import a.json -o x.fgd --choice x

# memory does not grow with the answer: 40 MB of events under 20 MB of data
head -n 128 "$server/llamacpp-q8kv-completion.sse" | head -c -1 >events
tail -n 3 "$server/llamacpp-q8kv-completion.sse" | sed 's/"tokens_predicted":64/"tokens_predicted":0/' >end
for i in $(seq 1250); do cat events; echo; done >big.sse
cat end >>big.sse
if [ -z "${ASAN_OPTIONS+x}" ] && ! nm "$forkgate" 2>/dev/null | grep -q __asan_init; then
  expect 0 bash -c "ulimit -d 20000; '$forkgate' import big.sse -o big.fgd"
  has err '80000 records'
fi
echo 'cli.import_server: passed'
