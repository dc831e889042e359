#!/bin/bash
# run_reports.sh - what `forkgate run` writes beside what it prints: HTML, Markdown, annotation lines, colours.
# usage: run_reports.sh FORKGATE
forkgate=$1
. "$(dirname "$0")/expect.sh"
unset GITHUB_ACTIONS

expect 0 "$forkgate" run --only op.add --csv run.csv --junit run.xml --html run.html --summary-md run.md
lacks out '::'
last out 'forkgate: 1 passed, 0 failed, 0 skipped'
has run.html '<h1>PASS: may land</h1>'
has run.html '<dt>command</dt><dd>forkgate run --only op.add --csv run.csv'
has run.md '## forkgate: PASS: may land'
has run.md '| 1 parity | are the numbers right? | 1 | 0 | 0 |'
[ -s run.csv ] && [ -s run.xml ] || fail 'a report is missing'

# a red run: annotation lines by option or by environment, before the closing line
expect 0 "$forkgate" run --only op.add --format github
lacks out '::error'
red() { "$forkgate" run --tier identity --only stream.golden.f16 --battery small --geometry fa_tkv=16 "$@"; }
expect 1 red --format github --summary-md red.md --html red.html
has out '::error title=FAIL stream.golden.f16::'
has out '; rerun: forkgate run --only stream.golden.f16'
last out 'forkgate: 0 passed, 1 failed, 0 skipped'
has red.md '### FAIL stream.golden.f16'
has red.html '<a href="#gate-stream.golden.f16">'
export GITHUB_ACTIONS=true
expect 1 red
has out '::error title='
expect 1 red --format text
lacks out '::error'
unset GITHUB_ACTIONS

# colours: none in a file, none with NO_COLOR, some when forced; the words are the same
expect 0 "$forkgate" run --only op.add
lacks out $'\033['
expect 0 env CLICOLOR_FORCE=1 "$forkgate" run --only op.add
has out $'\033[32mok'
expect 0 env CLICOLOR_FORCE=1 NO_COLOR=1 "$forkgate" run --only op.add
lacks out $'\033['

# refusals
expect 2 "$forkgate" run --only op.add --format xml
expect 2 "$forkgate" run --only op.add --html nowhere/x.html
has err 'nowhere/x.html'
expect 2 "$forkgate" run --only op.add --summary-md nowhere/x.md
expect 2 "$forkgate" run --only op.add --csv nowhere/x.csv
echo 'cli.run_reports: passed'
