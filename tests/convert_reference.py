#!/usr/bin/env python3
"""Writes the float64 reference of the embedded model as CSV, from the JSON file that its own program made.

Not a computation: numbers are copied with 17 significant digits, so they read back to the same doubles.

    tests/convert_reference.py        (reads and writes fixtures/reference/)
"""
import csv
import json
import os

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fixtures", "reference")
STEM = "seedling_q8_0"


def write_rows(name, header, rows):
    with open(os.path.join(HERE, f"{STEM}_{name}.csv"), "w", newline="") as f:
        writer = csv.writer(f, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def main():
    with open(os.path.join(HERE, f"{STEM}_f64.json"), encoding="utf-8") as f:
        prompts = json.load(f)
    real = "{:.17g}".format
    write_rows("prompts", ["prompt", "n_prompt", "n_steps", "logsumexp0", "ids", "text_hex"],
               [[p["prompt"], p["n_prompt"], len(p["steps"]), real(p["logsumexp0"]), " ".join(map(str, p["prompt_ids"])), p["text"].encode().hex()]
                for p in prompts])
    write_rows("steps", ["prompt", "step", "top1", "top2", "logit1", "logit2"],
               [[p["prompt"], i, a, b, real(x), real(y)] for p in prompts for i, (a, b, x, y) in enumerate(p["steps"])])
    write_rows("first20", ["prompt", "rank", "id", "logit"],
               [[p["prompt"], i, t, real(x)] for p in prompts for i, (t, x) in enumerate(p["first_logits_top20"])])


if __name__ == "__main__":
    main()
