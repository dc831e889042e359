#!/usr/bin/env python3
"""Times llama.cpp on this machine: prefill of 512 tokens, and decode of 128 tokens from an empty cache.

Not a verdict: it only appends one row per test to a CSV, every repeat in it. Needs llama-cpp-python. One repeat is one
prefill (cache cleared before) or 128 single-token steps; the first repeat of each is a warm-up and is not kept.

    tests/bench_peer.py --model fixtures/models/seedling-q8_0.gguf --date 2026-11-30 --out reports/bench_llamacpp_cpu.csv
"""
import argparse
import csv
import os
import statistics
import time

import llama_cpp

N_PREFILL, N_DECODE = 512, 128


def cpu_name():
    with open("/proc/cpuinfo") as f:
        fields = dict(line.split(":", 1) for line in f.read().split("\n\n")[0].replace("\t", "").splitlines() if ":" in line)
    return f"{fields['model name'].strip()} family {fields['cpu family'].strip()} model {fields['model'].strip()}, {os.cpu_count()} cores"


def decode(context, ids):
    tokens = (llama_cpp.llama_token * len(ids))(*ids)
    assert llama_cpp.llama_decode(context, llama_cpp.llama_batch_get_one(tokens, len(ids))) == 0
    llama_cpp.llama_get_logits_ith(context, -1)


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--model", required=True)
    args.add_argument("--date", required=True)
    args.add_argument("--out", required=True)
    args.add_argument("--threads", type=int, default=1)
    args.add_argument("--repeats", type=int, default=15)
    args.add_argument("--note", default="")
    args = args.parse_args()

    model = llama_cpp.llama_model_load_from_file(args.model.encode(), llama_cpp.llama_model_default_params())
    params = llama_cpp.llama_context_default_params()
    params.n_ctx, params.n_batch, params.n_ubatch = 2048, 512, 512
    params.n_threads = params.n_threads_batch = args.threads
    context = llama_cpp.llama_init_from_model(model, params)
    memory = llama_cpp.llama_get_memory(context)
    ids = [(7 * i + 11) % llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model)) for i in range(N_PREFILL)]

    def prefill():
        decode(context, ids)
        return N_PREFILL

    def steps():
        for token in ids[:N_DECODE]:
            decode(context, [token])
        return N_DECODE

    rows = []
    for name, run in (("prefill-512", prefill), ("decode-128", steps)):
        rates = []
        for _ in range(args.repeats + 1):
            llama_cpp.llama_memory_clear(memory, True)
            start = time.perf_counter()
            n = run()
            rates.append(n / (time.perf_counter() - start))
        rates = rates[1:]
        load = os.getloadavg()[0]
        rows.append([args.date, "llama.cpp 4227c9be via llama-cpp-python " + llama_cpp.__version__, llama_cpp.llama_print_system_info().decode().strip(" |"), cpu_name(), args.threads,
                     os.path.basename(args.model), name, len(rates), f"{statistics.median(rates):.1f}", f"{min(rates):.1f}", f"{max(rates):.1f}", f"{load:.2f}",
                     " ".join(f"{r:.1f}" for r in rates), f"tests/bench_peer.py --model {os.path.basename(args.model)} --threads {args.threads} --repeats {args.repeats}", args.note])
        print(name, rows[-1][8:12])
    header = ["date", "engine", "system_info", "machine", "threads", "model", "test", "repeats", "median_tok_s", "min_tok_s", "max_tok_s", "load_average", "repeat_tok_s", "command", "note"]
    fresh = not os.path.exists(args.out)
    with open(args.out, "a", newline="") as f:
        writer = csv.writer(f, lineterminator="\n")
        writer.writerows(([header] if fresh else []) + rows)


if __name__ == "__main__":
    main()
