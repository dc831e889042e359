#!/bin/bash
# run_html.sh - `forkgate run --html` of a red identity tier: the first stream that left its golden is in the page, with both
# texts, the gaps and the fault matrix. With a second argument a browser looks at it (no Chromium: SKIP, exit 77).
# usage: run_html.sh FORKGATE [browser]
forkgate=$1
here=$(cd "$(dirname "$0")/../.." && pwd)
. "$(dirname "$0")/expect.sh"
. "$here/tests/cli/chromium.sh"
kept() { ls -d "${TMPDIR:-/tmp}"/forkgate-run* 2>/dev/null | wc -l; }
export TMPDIR=$work

# on q8 another key tile moves int8 codes, and some stream takes another token
expect 1 "$forkgate" run --tier identity --only stream.golden.q8 --geometry fa_tkv=16 --html q8.html
has q8.html '<h1>FAIL: must not land (cpu only)</h1>'
has q8.html 'stream.golden.q8 '
has q8.html ' against its golden (1 of '
has q8.html '<h3>A: the golden</h3>'
has q8.html '<h3>B: this run</h3>'
has q8.html '<h2 id="fork">The fork, at token '
has q8.html '<h2 id="gaps">How close the choices were</h2>'
has q8.html '<h2 id="faults">Fault matrix</h2>'
has q8.html 'Made 2'
has q8.html '<h2 id="coverage">Coverage</h2>'
has q8.html '<h2 id="provenance">Provenance</h2>'
lacks q8.html "$work"
[ "$(kept)" -eq 0 ] || fail 'the kept streams are removed'

if [ -n "$browser" ]; then
  expect 0 python3 "$here/tests/html_browser.py" "$chromium" q8.html
  echo 'cli.run_html_browser: passed'
  exit 0
fi

# other logits, the same tokens: no fork to show, yet how close the choices were
expect 1 "$forkgate" run --tier identity --only stream.golden.f16 --battery small --geometry fa_tkv=16 --html f16.html
lacks f16.html 'id="fork"'
has f16.html ' against its golden (1 of '
has f16.html '<h2 id="gaps">'

# a green run has no such streams, and a run without --html keeps none
expect 0 "$forkgate" run --only op.add --html green.html
has green.html 'Not in this report: Fork (no stream left its golden)'
lacks green.html 'id="gaps"'
[ "$(kept)" -eq 0 ] || fail 'nothing is left behind'
echo 'cli.run_html: passed'
