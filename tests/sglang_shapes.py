#!/usr/bin/env python3
"""sglang_shapes.py - answers as SGLang's own response classes write them, with the numbers of another server's answer.
Not a recording: no SGLang ran; what is its own is the shape (protocol.py, utils.py of the installed package).
Needs the packages sglang (without its dependencies) and openai, pydantic, msgspec, torch, transformers.
Source: ours. Exercise: see fixtures/peer/server/README.md; usage: sglang_shapes.py VLLM-IDS-COMPLETIONS.json TOKENIZER OUT"""
import importlib.util
import json
import sys
import types

base = importlib.util.find_spec("sglang").submodule_search_locations[0]
for name in ("", ".srt", ".srt.entrypoints", ".srt.entrypoints.openai"):  # their __init__ files load the whole engine
    package = types.ModuleType("sglang" + name)
    package.__path__ = [base + name.replace(".", "/")]
    sys.modules["sglang" + name] = package
sys.modules["sglang.utils"] = types.ModuleType("sglang.utils")
sys.modules["sglang.utils"].convert_json_schema_to_str = str
from sglang.srt.entrypoints.openai import protocol as p, utils  # noqa: E402
from transformers import AutoTokenizer  # noqa: E402

answer, out = json.load(open(sys.argv[1], encoding="utf-8"))["choices"][0], sys.argv[3]
tokenizer = AutoTokenizer.from_pretrained(sys.argv[2])
known = answer["logprobs"]
top = [[(lp, int(k.split(":")[1]), tokenizer.decode([int(k.split(":")[1])])) for k, lp in m.items()] for m in known["top_logprobs"]]
chosen = [(lp, i, tokenizer.decode([i])) for lp, i in zip(known["token_logprobs"], answer["token_ids"])]
usage = p.UsageInfo(prompt_tokens=12, total_tokens=12 + len(chosen), completion_tokens=len(chosen))


def logprobs(a, b):
    return utils.to_openai_style_logprobs(output_token_logprobs=chosen[a:b], output_top_logprobs=top[a:b], tokenizer=tokenizer)


same = dict(id="sglang-shape", created=0, model="seedling")
whole = p.CompletionResponseChoice(index=0, text=answer["text"], logprobs=logprobs(0, None), finish_reason="length")
with open(out + "-completions.json", "w", encoding="utf-8") as f:
    f.write(p.CompletionResponse(**same, choices=[whole], usage=usage).model_dump_json())
with open(out + "-completions.sse", "w", encoding="utf-8") as f:
    for i, (_, _, text) in enumerate(chosen):
        last = "length" if i + 1 == len(chosen) else None
        part = p.CompletionResponseStreamChoice(index=0, text=text, logprobs=logprobs(i, i + 1), finish_reason=last)
        f.write(f"data: {p.CompletionStreamResponse(**same, choices=[part]).model_dump_json()}\n\n")
    f.write("data: [DONE]\n\n")
content = [p.ChatCompletionTokenLogprob(token=t, bytes=list(t.encode()), logprob=lp, top_logprobs=[
    p.TopLogprob(token=x, bytes=list(x.encode()), logprob=y) for y, _, x in best]) for (lp, _, t), best in zip(chosen, top)]
message = p.ChatMessage(role="assistant", content=answer["text"])
choice = p.ChatCompletionResponseChoice(index=0, message=message, logprobs=p.ChoiceLogprobs(content=content), finish_reason="length")
with open(out + "-chat.json", "w", encoding="utf-8") as f:
    f.write(p.ChatCompletionResponse(**same, choices=[choice], usage=usage).model_dump_json())
