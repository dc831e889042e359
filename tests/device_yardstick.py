#!/usr/bin/env python3
"""Yardsticks on the same card: cuBLAS f16 products, FlashAttention-2 and cuDNN attention, copy bandwidth, through PyTorch.

Prints CSV: op, shape, us, GBps, TFLOPps. The engine itself never loads these libraries.
usage: device_yardstick.py > yardstick.csv
"""
import statistics

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

REPEATS = 7


def time_us(call, iterations=10):
    for _ in range(3):
        call()
    times = []
    for _ in range(REPEATS):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(iterations):
            call()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1e3 / iterations)
    return statistics.median(times)


def row(op, shape, us, moved, flop):
    print(f"{op},{shape},{us:.2f},{moved / us * 1e-3:.1f},{flop / us * 1e-6:.2f}", flush=True)


def products():
    for m in (3325, 512):
        for n, k in ((3584, 3584), (512, 3584), (18944, 3584), (3584, 18944)):
            a = torch.randn(m, k, device="cuda", dtype=torch.float16)
            w = torch.randn(n, k, device="cuda", dtype=torch.float16)
            us = time_us(lambda: torch.matmul(a, w.t()))
            row("cublas_f16", f"rows={m} n={n} k={k}", us, 2.0 * n * k, 2.0 * m * n * k)


def attention():
    for s in (3325, 16384):
        q = torch.randn(1, 28, s, 128, device="cuda", dtype=torch.float16)
        k, v = (torch.randn(1, 28, s, 128, device="cuda", dtype=torch.float16) for _ in range(2))
        flop = 4.0 * (s + 1) / 2 * s * 28 * 128
        for name, backend in (("flash_attention_2", SDPBackend.FLASH_ATTENTION), ("cudnn", SDPBackend.CUDNN_ATTENTION)):
            with sdpa_kernel(backend):
                us = time_us(lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True))
            row(f"attention_{name}", f"rows={s} heads=28 (keys expanded) hd=128", us, 4.0 * s * 28 * 128, flop)


def bandwidth():
    a = torch.randn(1 << 29, device="cuda")
    b = torch.empty_like(a)
    us = time_us(lambda: b.copy_(a), 4)
    row("copy", "2 GiB read and written", us, 2.0 * a.numel() * 4, 0.0)
    us = time_us(lambda: a.sum(), 4)
    row("read", "2 GiB summed", us, 1.0 * a.numel() * 4, 0.0)


print("op,shape,us,GBps,TFLOPps")
products()
attention()
bandwidth()
