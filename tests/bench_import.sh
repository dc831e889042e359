#!/usr/bin/env bash
# How fast, and in how much memory, `forkgate import` takes a large server answer: the recorded llama.cpp stream repeated to
# the wanted size (its last, closing message once), as one stream and as one JSON document of that size.
# usage: bench_import.sh FORKGATE [MEGABYTES]      default 1024; needs twice that in TMPDIR
# prints CSV rows (reports/bench_import.csv); exit 1 when its own memory is not bounded (64 MiB) or a core does less than 15 MB/s
set -uo pipefail
forkgate=$(realpath "$1") megabytes=${2:-1024}
here=$(cd "$(dirname "$0")/.." && pwd)
export FORKGATE_ROOT=$here LC_ALL=C.UTF-8
command -v python3 >/dev/null || { echo 'bench_import: no python3 to make the answer with' >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
commit=$("$forkgate" --version | sed -nE 's/^forkgate.*\(([0-9a-f]{12}).*/\1/p' | head -1)
machine=$(awk -F': ' '/^model name/ { n = $2 } /^cpu family/ { f = $2 } /^model\t/ { m = $2 }
  END { printf "%s family %s model %s", n, f, m }' /proc/cpuinfo)", $(nproc) cores"

python3 - "$here/fixtures/peer/server" "$work" "$megabytes" <<'P' || exit 2
import json, sys
source, work, size = sys.argv[1], sys.argv[2], int(sys.argv[3]) << 20
lines = [l for l in open(source + "/llamacpp-q8kv-completion.sse").read().split("\n") if l.startswith("data: ")]
tokens, last = lines[:-1], lines[-1]
block = "".join(l + "\n\n" for l in tokens).encode()
with open(work + "/stream.sse", "wb") as f:
    for _ in range(size // len(block)):
        f.write(block)
    f.write((last + "\n\n").encode())
answer = json.load(open(source + "/llamacpp-f16kv-completion.json"))
entries = [json.dumps(p, separators=(",", ":")) for p in answer["completion_probabilities"]]
block = (",".join(entries) + ",").encode()
answer["completion_probabilities"] = ["HERE"]
head, tail = json.dumps(answer, separators=(",", ":")).split('"HERE"')
with open(work + "/whole.json", "wb") as f:
    f.write(head.encode())
    for _ in range(size // len(block)):
        f.write(block)
    f.write(block[:-1] + tail.encode())
P

bad=0
echo 'date,commit,machine,command,answer,megabytes,tokens,seconds_of_processor,mb_per_s,peak_mib,peak_own_mib,floor_mb_per_s,ceiling_own_mib,verdict'
for answer in stream.sse whole.json; do
  python3 - "$forkgate" "$work/$answer" "$work/out.fgd" >"$work/cost" <<'P'
import os, resource, subprocess, sys, time
p = subprocess.Popen([sys.argv[1], "import", sys.argv[2], "-o", sys.argv[3]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
own = 0  # KiB that are no page of a file: the finished dump is mapped to be verified, and its pages can go at any time
while p.poll() is None:
    try:
        own = max([own] + [int(l.split()[1]) for l in open("/proc/%d/status" % p.pid) if l.startswith("RssAnon")])
    except OSError:
        pass
    time.sleep(0.02)
text = p.stdout.read().decode(errors="replace")
records = next((w[0] for w in map(str.split, text.splitlines()) if w[1:2] == ["records,"]), "?")
r = resource.getrusage(resource.RUSAGE_CHILDREN)
print(p.returncode, records, round(r.ru_utime + r.ru_stime, 2), round(r.ru_maxrss / 1024, 1), round(own / 1024, 1), os.path.getsize(sys.argv[2]) / 1e6)
P
  read -r code tokens seconds peak own mb <"$work/cost"
  [ "$code" -eq 0 ] || { echo "bench_import: import of $answer: exit $code" >&2; exit 2; }
  row=$(awk -v s="$seconds" -v p="$peak" -v m="$mb" -v t="$tokens" -v o="$own" 'BEGIN { printf "%.0f,%s,%.2f,%.1f,%.1f,%.1f,15,64,%s", m, t, s, m / s, p, o, ((m / s >= 15 && o <= 64) ? "ok" : "BAD") }')
  case $row in *BAD) bad=1 ;; esac
  echo "$(date -u +%F),$commit,\"$machine\",tests/bench_import.sh,$answer,$row"
  rm -f "$work/out.fgd"
done
exit $bad
