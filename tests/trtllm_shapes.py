#!/usr/bin/env python3
"""trtllm_shapes.py - answers in the shapes of trtllm-serve, with the numbers of another server's answer.
Not a recording: no TensorRT-LLM ran, and none of its code does. Its classes were read (openai_protocol.py at 0076e9390e1e,
postprocess_handlers.py at 01bf19231d29 of NVIDIA/TensorRT-LLM) and their fields written down here, in their order.
Idea: what is peculiar to that server is in it: a blank behind a streamed chat's first JSON, absent keys there and nulls
elsewhere, a last event with usage and no choice, the sampled token listed last among its candidates, -9999 for no logprob.
Source: ours. Exercise: ctest -R unit.import_engines; usage: trtllm_shapes.py VLLM-IDS-COMPLETIONS.json VLLM-CHAT.json OUT"""
import json
import sys

ids = json.load(open(sys.argv[1], encoding="utf-8"))["choices"][0]
chat = json.load(open(sys.argv[2], encoding="utf-8"))["choices"][0]["logprobs"]["content"]
out, text, n = sys.argv[3], ids["text"], len(chat)
usage = dict(prompt_tokens=12, total_tokens=12 + n, completion_tokens=n, prompt_tokens_details=dict(cached_tokens=0))
tail = dict(disaggregated_params=None, avg_decoded_tokens_per_iter=1.0)


def head(prefix, name):
    return dict(id=prefix + "-trtllm-shape", object=name, created=0, model="seedling")


def candidate(x):
    return dict(token=x["token"], logprob=x["logprob"], bytes=list(x["token"].encode()))


def best(x):  # the chosen one last, and behind the best two one that is masked
    others = [candidate(y) for y in x["top_logprobs"] if y["token"] != x["token"]]
    return others[:1] + [candidate(x)] + [dict(token="<|masked|>", logprob=-9999.0, bytes=list(b"<|masked|>"))]


def parallel(entries, offset):
    offsets = [offset]
    for x in entries[:-1]:
        offsets.append(offsets[-1] + len(x["token"]))
    return dict(text_offset=offsets, token_logprobs=[x["logprob"] for x in entries], tokens=[x["token"] for x in entries],
                top_logprobs=[{y["token"]: y["logprob"] for y in best(x)} for x in entries])


def content(entries):
    return dict(content=[dict(**candidate(x), top_logprobs=best(x)) for x in entries])


def dense(x):
    return json.dumps(x, ensure_ascii=False, separators=(",", ":"))


with open(out + "-completions.json", "w", encoding="utf-8") as f:
    choice = dict(index=0, text=text, token_ids=None, logprobs=parallel(chat, 0), context_logits=None, finish_reason="length",
                  stop_reason=None, **tail)
    f.write(dense(dict(**head("cmpl", "text_completion"), choices=[choice], usage=usage, prompt_token_ids=None)))
with open(out + "-chat.json", "w", encoding="utf-8") as f:
    message = dict(role="assistant", content=text, reasoning_content="", reasoning=None, tool_calls=[])
    choice = dict(index=0, message=message, logprobs=content(chat), finish_reason="length", stop_reason=None,
                  mm_embedding_handle=None, **tail)
    f.write(dense(dict(**head("chatcmpl", "chat.completion"), choices=[choice], usage=usage, prompt_token_ids=None,
                       prompt_token_ids_b64=None)))
with open(out + "-completions.sse", "w", encoding="utf-8") as f:  # every field, also the empty ones
    done = 0
    for i, x in enumerate(chat):
        choice = dict(index=0, text=x["token"], token_ids=None, logprobs=parallel([x], done),
                      finish_reason="length" if i + 1 == n else None, stop_reason=None, avg_decoded_tokens_per_iter=1.0)
        f.write(f"data: {dense(dict(**head('cmpl', 'text_completion'), choices=[choice], usage=None))}\n\n")
        done += len(x["token"])
    f.write(f"data: {dense(dict(**head('cmpl', 'text_completion'), choices=[], usage=usage))}\n\ndata: [DONE]\n\n")
with open(out + "-chat.sse", "w", encoding="utf-8") as f:  # no empty field, and several tokens in one event
    first = dict(**head("chatcmpl", "chat.completion.chunk"), choices=[dict(index=0, delta=dict(role="assistant"))])
    f.write(f"data: {dense(first)} \n\n")
    for i in range(0, n, 3):
        some = chat[i:i + 3]
        choice = dict(index=0, delta=dict(content="".join(x["token"] for x in some), reasoning_content=""), logprobs=content(some),
                      **(dict(finish_reason="length") if i + 3 >= n else {}), avg_decoded_tokens_per_iter=3.0)
        f.write(f"data: {dense(dict(**head('chatcmpl', 'chat.completion.chunk'), choices=[choice]))}\n\n")
    f.write(f"data: {dense(dict(**head('chatcmpl', 'chat.completion.chunk'), choices=[], usage=usage))}\n\ndata: [DONE]\n\n")
