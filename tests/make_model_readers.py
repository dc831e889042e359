#!/usr/bin/env python3
"""make_model_readers.py - do other readers load what `forkgate make-model` writes? gguf-py (metadata, tensor table, first
and last row of every tensor dequantised) and llama.cpp by llama-cpp-python (the whole model; logits after eight tokens).
Not a comparison of values: their arithmetic is another. Needs gguf and, for the rows of llama.cpp, llama_cpp.
Source: ours. Exercise: make_model_readers.py FORKGATE [big] >reports/make_model_readers.csv
big: the 0.5B and the 7B shape too (6 GB in the temporary folder). Exit: 0 all loaded, 1 one was not, 2 nothing was tried"""
import csv
import datetime
import os
import subprocess
import sys
import tempfile
from importlib.metadata import version

import gguf
import numpy as np

try:
    import llama_cpp
except ImportError:
    llama_cpp = None

SMALL = [["--shape", "tiny", "--arch", a, "--quant", q] for a in ("llama", "qwen2", "qwen3") for q in ("f16", "q8_0")]
SMALL += [["--shape", "seedling-like", "--quant", q] for q in
          ("q4_k_m", "f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q4_k", "q5_k", "q6_k")]
SMALL += [["--from", "fixtures/models/seedling-f16.gguf", "--quant", q] for q in ("q4_k_m", "q8_0")]
BIG = [["--shape", "qwen2.5-0.5b", "--quant", "q4_k_m"], ["--shape", "qwen2.5-7b", "--quant", "q4_k_m", "--seed", "7"]]


def by_gguf_py(path):
    reader, size, types = gguf.GGUFReader(path), os.path.getsize(path), set()
    for t in reader.tensors:
        assert t.data_offset % 32 == 0 and t.data_offset + t.n_bytes <= size, f"{t.name} lies outside the file"
        rows = t.data.reshape(-1, t.data.shape[-1])
        ends = gguf.quants.dequantize(np.stack([rows[0], rows[-1]]), t.tensor_type)
        assert ends.shape[-1] == t.shape[0] and np.isfinite(ends).all(), f"{t.name} has no finite values"
        types.add(t.tensor_type.name)
    return len(reader.tensors), "types " + " ".join(sorted(types))


def by_llama_cpp(path):
    model = llama_cpp.Llama(path, n_ctx=64, n_batch=8, n_threads=2, logits_all=True, verbose=False)
    model.eval([1, 5, 300, 7, 41, 2, 64, 63])
    logits = model.scores[:8]
    assert np.isfinite(logits).all() and np.ptp(logits[-1]) > 0, "logits are not finite, or all equal"
    return "", f"8 rows of {logits.shape[1]} logits, all finite"


def main():
    forkgate, bad, tried = sys.argv[1], 0, 0
    readers = [("gguf-py", version("gguf"), by_gguf_py)]
    if llama_cpp is not None:
        readers.append(("llama.cpp (llama-cpp-python)", llama_cpp.__version__, by_llama_cpp))
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(["make_model", "bytes", "reader", "version", "tensors", "saw", "verdict", "date"])
    with tempfile.TemporaryDirectory() as folder:
        for options in SMALL + (BIG if sys.argv[2:] == ["big"] else []):
            path = os.path.join(folder, "m.gguf")
            subprocess.run([forkgate, "make-model", *options, path], check=True, stdout=subprocess.DEVNULL)
            for name, its_version, read in readers:
                try:
                    tensors, saw, verdict = *read(path), "PASS"
                except Exception as e:  # a reader may fail in any way: that is the answer
                    tensors, saw, verdict = "", f"{type(e).__name__}: {e}", "FAIL"
                bad, tried = bad + (verdict != "PASS"), tried + 1
                out.writerow([" ".join(options), os.path.getsize(path), name, its_version, tensors, saw, verdict,
                              datetime.date.today().isoformat()])
                sys.stdout.flush()
            os.remove(path)
    return 2 if tried == 0 else bad != 0


sys.exit(main())
