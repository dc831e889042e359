#!/bin/bash
# run_reports.sh - what `forkgate run` writes beside what it prints: HTML, Markdown, annotation lines, colours.
# usage: run_reports.sh FORKGATE
forkgate=$1
. "$(dirname "$0")/expect.sh"
unset GITHUB_ACTIONS

expect 0 "$forkgate" run --only op.add --csv run.csv --junit run.xml --html run.html --summary-md run.md
lacks out '::'
last out 'forkgate: 1 passed, 0 failed, 0 skipped'
has run.html '<h1>PASS of what was run, not a landing verdict (parity: op.add only; not run: suite, identity; cpu only)</h1>'
has run.html '<dt>command</dt><dd>forkgate run --only op.add --csv run.csv'
has run.md '## forkgate: PASS of what was run, not a landing verdict (parity: op.add only; not run: suite, identity; cpu only)'
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

# a table as wide as the terminal: nothing is cut in a file
if command -v python3 >/dev/null; then
  cat >terminal.py <<'P'
import fcntl, os, pty, struct, sys, termios
columns, command = int(sys.argv[1]), sys.argv[2:]
child, fd = pty.fork()
if child == 0:
    os.environ.update(TERM="xterm", NO_COLOR="1", CI="1")
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    os.execv(command[0], command)
text = b""
try:
    while part := os.read(fd, 65536):
        text += part
except OSError:
    pass
sys.stdout.write(text.decode().replace("\r", ""))
P
  expect 0 python3 terminal.py 64 "$forkgate" run --only op.rmsnorm
  grep '^  ok' out >line
  [ "$(wc -L <line)" -le 64 ] || fail 'a line is wider than the terminal'
  has line '..'
  last out 'forkgate: 1 passed, 0 failed, 0 skipped'
  expect 0 python3 terminal.py 150 "$forkgate" run --only op.rmsnorm
  lacks out '..'
fi

# refusals
expect 2 "$forkgate" run --only op.add --format xml
expect 2 "$forkgate" run --only op.add --html nowhere/x.html
has err 'nowhere/x.html'
expect 2 "$forkgate" run --only op.add --summary-md nowhere/x.md
for option in csv junit html summary-md; do # before the run, which may take long: not even a header is printed
  trouble "$forkgate" run --only op.add --$option nowhere/x
  has err 'nowhere/x'
done
mkdir folder
trouble "$forkgate" run --only op.add --csv folder
for option in csv junit html summary-md; do # the first of two would not be written
    expect 2 "$forkgate" run --only op.add --$option one --$option two
    has err "--$option is given twice"
done
trouble "$forkgate" run --only op.add --csv one --junit one
has err 'two reports in one file'
trouble "$forkgate" run --only op.add --csv one --junit ./one
has err 'two reports in one file'
[ ! -e one ] || fail 'a file is left behind'
echo old >one
ln -s one other
trouble "$forkgate" run --only op.add --summary-md other --html folder/../one
has err 'two reports in one file'
# standard output by its name, where it is a file: the table, behind what was printed, and no row of it lost
"$forkgate" run --only op.add --csv /dev/fd/1 >all 2>err || fail 'a table on standard output'
[ "$(grep -c '^1,parity,op.add,' all)" -eq "$(grep -c '^1,parity,op.add,' run.csv)" ] || fail 'rows are lost'
[ "$(tail -n 1 all)" = 'forkgate: 1 passed, 0 failed, 0 skipped' ] || fail 'what comes behind the table'
for option in junit html summary-md; do
    trouble "$forkgate" run --only op.add --$option /dev/fd/1
done
trouble "$forkgate" run --only op.add --csv -
has err '-: not a name of a file'
trouble "$forkgate" generate -f - -n 1
has err '-: not a name of a file'
mkfifo pipe
for option in junit html summary-md; do # a rename would put a file in its place
  trouble "$forkgate" run --only op.add --$option pipe
  has err 'pipe: exists and is not a regular file'
done
trouble "$forkgate" report export run.csv --junit pipe -o export.csv
[ -p pipe ] || fail 'the pipe is gone'

# rounds have names of their own
expect 0 "$forkgate" run --only op.add --repeat 3 --junit rounds.xml
grep -o 'classname="[^"]*" name="[^"]*"' rounds.xml | sort | uniq -d >twice
[ ! -s twice ] || fail "two tests of one name: $(head -n 1 twice)"
echo 'cli.run_reports: passed'
