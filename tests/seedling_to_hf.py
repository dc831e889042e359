#!/usr/bin/env python3
"""seedling_to_hf.py - fixtures/models/seedling-f16.gguf as a folder that vLLM and transformers open.
Not a converter: it knows this one model (qwen2, tied head, GPT-2 tokenizer), and copies its weights bit for bit.
Needs gguf, safetensors, torch and transformers. Source: ours. Exercise: see fixtures/peer/server/README.md
usage: seedling_to_hf.py MODELS OUT"""
import json
import os
import sys

import torch
from gguf import GGUFReader
from safetensors.torch import save_file
from transformers import AutoTokenizer

models, out = sys.argv[1:]
os.makedirs(out, exist_ok=True)
AutoTokenizer.from_pretrained(models, gguf_file="seedling-f16.gguf").save_pretrained(out)
whole = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}
block = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
         "attn_output": "self_attn.o_proj", "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
         "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
weights = {}
for t in GGUFReader(os.path.join(models, "seedling-f16.gguf")).tensors:
    name = whole.get(t.name)
    if name is None:
        _, layer, part, kind = t.name.split(".")
        name = f"model.layers.{layer}.{block[part]}.{kind}"
    weights[name] = torch.from_numpy(t.data.copy())
save_file(weights, os.path.join(out, "model.safetensors"), metadata={"format": "pt"})
config = dict(architectures=["Qwen2ForCausalLM"], model_type="qwen2", hidden_size=256, intermediate_size=768,
              num_hidden_layers=8, num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=2048,
              rms_norm_eps=1e-6, rope_theta=10000.0, vocab_size=4096, tie_word_embeddings=True, hidden_act="silu",
              torch_dtype="float32", bos_token_id=0, eos_token_id=0, use_sliding_window=False)
with open(os.path.join(out, "config.json"), "w", encoding="utf-8") as f:
    json.dump(config, f, indent=1)
