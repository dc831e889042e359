#!/usr/bin/env python3
"""Records what llama.cpp generates for the ten prompts: token ids, and greedy steps with the top-2 logits.

Not a test: it writes fixtures/peer/<model>_{prompts,steps}.csv and fixtures/peer/provenance.csv. Needs
llama-cpp-python and numpy. Greedy is the argmax of the raw logits (lowest id on a tie), without any penalty; the prompt
is one batch, or batches of --batch tokens; each step is one token; a stream ends after its end-of-generation token.

    tests/record_peer.py --model seedling-q8_0=fixtures/models/seedling-q8_0.gguf \
                         --model smollm2-135m-q4_1=fixtures/models/downloaded/SmolLM2-135M-Instruct.Q4_1.gguf \
                         --batch smollm2-135m-q4_1=8

Why 8: this build's kernel for large batches of Q4_1 is far off. Last row of whale-512.txt, top-1 and its logit: batches of
512, 256 or 64 give token 30 with 29.19, batches of 8 or 1 token 28 with 27.67 or 27.69.
"""
import argparse
import csv
import os
import platform
import subprocess

import llama_cpp
import numpy

FIXTURES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fixtures")
OUT = os.path.join(FIXTURES, "peer")
CONTEXT, THREADS = 2048, 1
LLAMA_CPP_COMMIT = "4227c9be4268ac844921b90f31595f81236bd317"  # what llama-cpp-python 0.3.16 names in its change log


class Session:
    def __init__(self, path):
        self.model = llama_cpp.llama_model_load_from_file(path.encode(), llama_cpp.llama_model_default_params())
        self.vocab = llama_cpp.llama_model_get_vocab(self.model)
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = params.n_batch = params.n_ubatch = CONTEXT
        params.n_threads = params.n_threads_batch = THREADS
        self.context = llama_cpp.llama_init_from_model(self.model, params)
        self.n_vocab = llama_cpp.llama_vocab_n_tokens(self.vocab)

    def encode(self, text):
        room = (llama_cpp.llama_token * (len(text) + 8))()
        n = llama_cpp.llama_tokenize(self.vocab, text, len(text), room, len(room), True, True)
        assert n > 0
        return list(room[:n])

    def clear(self):
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), True)

    def decode(self, ids):
        """Appends ids; the logits of the last one."""
        tokens = (llama_cpp.llama_token * len(ids))(*ids)
        assert llama_cpp.llama_decode(self.context, llama_cpp.llama_batch_get_one(tokens, len(ids))) == 0
        row = llama_cpp.llama_get_logits_ith(self.context, -1)
        return numpy.ctypeslib.as_array(row, (self.n_vocab,)).copy()

    def is_end(self, token):
        return llama_cpp.llama_vocab_is_eog(self.vocab, token)


def top2(logits):
    first = int(numpy.argmax(logits))  # the lowest id on a tie
    rest = logits.copy()
    rest[first] = -numpy.inf
    second = int(numpy.argmax(rest))
    return first, second, logits[first], logits[second]


def write_rows(name, header, rows):
    with open(os.path.join(OUT, name), "w", newline="") as f:
        writer = csv.writer(f, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def record(name, path, n_steps, batch):
    session = Session(path)
    prompts, steps = [], []
    for prompt in sorted(os.listdir(os.path.join(FIXTURES, "prompts"))):
        with open(os.path.join(FIXTURES, "prompts", prompt), "rb") as f:
            ids = session.encode(f.read())
        session.clear()
        room = min(n_steps, CONTEXT - len(ids) + 1)
        for start in range(0, len(ids), batch):
            logits = session.decode(ids[start : start + batch])
        taken = 0
        for step in range(room):
            first, second, a, b = top2(logits)
            steps.append([prompt, step, first, second, f"{a:.9g}", f"{b:.9g}"])
            taken += 1
            if session.is_end(first) or step + 1 == room:
                break
            logits = session.decode([first])
        prompts.append([prompt, len(ids), taken, " ".join(map(str, ids))])
        print(name, prompt, len(ids), taken, flush=True)
    write_rows(f"{name}_prompts.csv", ["prompt", "n_prompt", "n_steps", "ids"], prompts)
    write_rows(f"{name}_steps.csv", ["prompt", "step", "top1", "top2", "logit1", "logit2"], steps)


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--model", action="append", required=True, metavar="NAME=GGUF")
    args.add_argument("--batch", action="append", default=[], metavar="NAME=TOKENS", help="prompt tokens a batch (default: all)")
    args.add_argument("--steps", type=int, default=64)
    args = args.parse_args()
    about = [["engine", "llama.cpp through llama-cpp-python"], ["binding_version", llama_cpp.__version__], ["llama_cpp_commit", LLAMA_CPP_COMMIT],
             ["system_info", llama_cpp.llama_print_system_info().decode().strip(" |")], ["python", platform.python_version()],
             ["threads", THREADS], ["context", CONTEXT], ["kv_cache", "f16"], ["flash_attention", "off"], ["sampling", "argmax of raw logits, lowest id on a tie, no penalty"]]
    batches = dict(item.split("=", 1) for item in args.batch)
    for item in args.model:
        name, path = item.split("=", 1)
        batch = int(batches.get(name, CONTEXT))
        record(name, path, args.steps, batch)
        digest = subprocess.run(["xxh128sum", path], capture_output=True, check=True, text=True).stdout.split()[0]
        about += [[f"{name}.prompt_batch", batch], [f"{name}.file", os.path.basename(path)], [f"{name}.bytes", os.path.getsize(path)], [f"{name}.xxh3_128", digest]]
    write_rows("provenance.csv", ["key", "value"], about)


if __name__ == "__main__":
    main()
