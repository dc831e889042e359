#!/usr/bin/env python3
"""record_server.py - saves what an inference server answers to one prompt, with logprobs, streamed and not.
Not a client to generate with: bytes are written as they came, for forkgate import and its tests.
Source: ours. Exercise: see fixtures/peer/server/README.md"""
import argparse
import json
import urllib.request

p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
p.add_argument("--url", required=True, help="http://127.0.0.1:8080")
p.add_argument("--prompt", required=True, help="file; its bytes are the prompt")
p.add_argument("--out", required=True, help="prefix of the files: PREFIX-completion.json, ..")
p.add_argument("--want", default="completion,completions,chat", help="which of completion,completions,chat")
p.add_argument("--extra", default="{}", help="JSON fields beside them: '{\"return_token_ids\": true}'")
p.add_argument("-n", type=int, default=64, help="tokens")
a = p.parse_args()

text = open(a.prompt, encoding="utf-8").read()
greedy = {"temperature": 0, "seed": 1, "cache_prompt": False}
openai = greedy | {"model": "seedling", "max_tokens": a.n, "top_k": 1, "repeat_penalty": 1.0}
requests = {
    "completion": ("/completion", greedy | {"prompt": text, "n_predict": a.n, "n_probs": 3}),
    "completions": ("/v1/completions", openai | {"prompt": text, "logprobs": 3}),
    "chat": ("/v1/chat/completions", openai | {"messages": [{"role": "user", "content": text}], "logprobs": True,
                                               "top_logprobs": 3}),
}
for name in a.want.split(","):
    path, body = requests[name]
    for stream, ending in ((False, "json"), (True, "sse")):
        request = urllib.request.Request(a.url + path, json.dumps(body | json.loads(a.extra) | {"stream": stream}).encode(),
                                         {"content-type": "application/json"})
        with urllib.request.urlopen(request) as answer, open(f"{a.out}-{name}.{ending}", "wb") as f:
            f.write(answer.read())
