#!/usr/bin/env python3
"""Rows for reports/ out of what tests/device_evidence.sh left: device, driver, commit, command and date behind each.

usage: device_rows.py WORK OUT COMMIT "NAME, DRIVER, ..."
"""
import csv
import datetime
import glob
import os
import shutil
import statistics
import sys

WORK, OUT, COMMIT, CARD = sys.argv[1:5]
NAME, DRIVER = [x.strip() for x in CARD.split(",")[:2]]
DATE = datetime.date.today().isoformat()
COMMANDS = {
    "device_tc": "device_tc",
    "device_parity": "device_parity",
    "device_golden": "see column 1",
    "device_run": "forkgate run --backend cuda --tier parity,identity --keep-going [--geometry ..]",
    "device_battery": "forkgate generate --backend cuda --battery fixtures/battery.csv -n 256; forkgate diff --bits",
    "device_fresh_process": "forkgate generate --backend cuda -f fixtures/prompts/holmes.txt -n 64",
    "sanitizers": "see column 2",
    "device_occupancy": "forkgate-probe occupancy --device",
    "device_occupancy_plain": "forkgate occupancy --device",
    "device_failures": "tests/device_failures.sh",
    "device_stream_7b": "forkgate generate -m 7b --seed 42 -n 32 -f PROMPT; forkgate replay --follow",
    "device_kernels": "forkgate bench --kernels --backend cuda --rounds 7",
    "device_bench_7b": "forkgate bench -m 7b --tokens 3325 --chunk 4096 --decode 32 --rounds 5, or --decode 8 --ops",
    "device_ab": "forkgate ab -m 7b --tokens 3325 --chunk 4096 --decode 0 --rounds 15 --a-geometry .. --b-geometry ..",
    "device_tolerance": "forkgate run --backend cuda --tier tolerance --class fa --cause 'FA_TKV 32->16' --geometry fa_tkv=16",
    "device_under": "forkgate run --backend cuda --tier parity --under memcheck",
    "device_both": "forkgate run --backend cpu,cuda --tier parity,identity",
    "device_memory": "forkgate bench --rounds 100 --decode 32",
    "device_run_7b": "forkgate run --backend cuda -m 7b --tier parity,identity --battery full --jobs 4",
}


PARTS = {"device_kernels": "kernels", "device_bench_7b": "bench7b", "device_ab": "ab"}


def clock(name):
    """The median SM clock while this part kept the device busy, as a column; none for what times nothing."""
    if name not in PARTS:
        return [], []
    try:
        busy = [float(r[0]) for r in read(f"{WORK}/log/clocks-{PARTS[name]}.csv") if len(r) > 4 and float(r[4]) > 0]
    except (OSError, ValueError):
        busy = []
    return ["sm_clock_mhz"], [statistics.median(busy) if busy else ""]


def write(name, header, rows):
    more, mhz = clock(name)
    with open(f"{OUT}/{name}.csv", "w", newline="") as f:
        w = csv.writer(f, lineterminator="\n")
        w.writerow(header + more + ["device", "driver", "commit", "command", "date"])
        for r in rows:
            w.writerow(r + mhz + [NAME, DRIVER, COMMIT, COMMANDS.get(name, name), DATE])


def read(path):
    """Rows of a CSV or TSV; paths below the tree without the tree."""
    root = os.getcwd() + "/"
    with open(path, newline="") as f:
        return [[c.replace(root, "") for c in r] for r in csv.reader(f, delimiter="\t" if path.endswith(".tsv") else ",") if r]


def groups(rows, key, count):
    out = {}
    for r in rows:
        count(out.setdefault(key(r), {}), r)
    return out


def parity():
    def count(g, r):
        g["cases"] = g.get("cases", 0) + 1
        g["values"] = g.get("values", 0) + int(r[4])
        g["bad"] = g.get("bad", 0) + (r[-1] != "PASS")
        if r[7]:
            g["oracle"] = max(g.get("oracle", 0.0), float(r[7]))

    rows = [r for p in sorted(glob.glob(f"{WORK}/raw/parity-*.csv")) for r in read(p) if r[0] not in ("op", "summary")]
    found = groups(rows, lambda r: (r[0], r[1], r[3]), count)
    write("device_parity",
          ["op", "dtype", "arm", "cases", "mismatching_values", "cases_not_passed", "worst_share_of_oracle_budget"],
          [list(k) + [g["cases"], g["values"], g["bad"], g.get("oracle", "")] for k, g in sorted(found.items())])


VERDICTS = ["PASS", "FAIL", "SKIP", "ERROR", "BLIND", "INCONCLUSIVE"]


def evidence(path):
    with open(path, newline="") as f:
        return list(csv.DictReader(f))


def by_gate(rows, *keys):
    found = groups(rows, lambda r: tuple(r[k] for k in keys),
                   lambda g, r: g.__setitem__(r["verdict"], g.get(r["verdict"], 0) + 1))
    return [[*k] + [g.get(v, 0) for v in VERDICTS] for k, g in sorted(found.items())]


def run_7b(rows):
    """One row a gate with the time of its checks, and one for the whole: the seconds that the card was held."""
    seconds = groups(rows, lambda r: (r["tier"], r["gate"]), lambda g, r: g.__setitem__("s", g.get("s", 0) + float(r["ms"]) / 1e3))
    out = [[*r, f'{seconds[(r[0], r[1])]["s"]:.1f}'] for r in by_gate(rows, "tier", "gate")]
    total = [str(sum(int(r[2 + i]) for r in out)) for i in range(len(VERDICTS))]
    with open(f"{WORK}/raw/run7b.seconds") as f:
        out.append(["all", "wall", *total, f.read().strip()])
    write("device_run_7b", ["tier", "gate"] + VERDICTS + ["seconds"], out)


def run():
    """The evidence of `forkgate run`: counts by gate, but for tier 4 and the sanitizer, whose rows are few and their own."""
    out = []
    for p in sorted(glob.glob(f"{WORK}/raw/run-*.csv")):
        out += [[os.path.basename(p)[4:-4], *r] for r in by_gate(evidence(p), "tier", "gate")]
    if out:
        write("device_run", ["geometry", "tier", "gate"] + VERDICTS, out)
    if os.path.exists(f"{WORK}/raw/run7b.csv"):
        run_7b(evidence(f"{WORK}/raw/run7b.csv"))
    for name, header, rows in (
            ("both", ["backend", "tier", "gate"] + VERDICTS, lambda e: by_gate(e, "backend", "tier", "gate")),
            ("under", ["gate", "errors", "verdict", "note"],
             lambda e: [[r["gate"], r["value"], r["verdict"], r["note"]] for r in e if r["arm"] == "memcheck"]),
            ("tolerance", ["gate", "case", "arm", "metric", "value", "bound", "verdict", "note"],
             lambda e: [[r[k] for k in ("gate", "case", "arm", "metric", "value", "bound", "verdict", "note")]
                        for r in e if r["gate"].startswith("tolerance.stream")])):
        if os.path.exists(f"{WORK}/raw/{name}.csv"):
            write("device_" + name, header, rows(evidence(f"{WORK}/raw/{name}.csv")))


def main():
    os.makedirs(OUT, exist_ok=True)
    if glob.glob(f"{WORK}/raw/parity-*.csv"):
        parity()
    run()
    families = {}
    for p in sorted(glob.glob(f"{WORK}/rows/*")):
        rows, stem = read(p), os.path.basename(p).rsplit(".", 1)[0]
        if not rows:
            continue
        if stem.startswith("mutants_"):  # its rows say all that themselves
            shutil.copy(p, f"{OUT}/{stem}.csv")
            continue
        family = next((f for f in ("device_bench_7b", "device_ab", "device_memory") if stem.startswith(f + "_")), None)
        if family is None:
            write(stem, rows[0], rows[1:])
        else:  # one file, what was varied in the first column
            families.setdefault(family, []).append((stem[len(family) + 1:], rows))
    for family, members in families.items():
        write(family, ["of"] + members[0][1][0], [[of] + r for of, rows in members for r in rows[1:]])


main()
