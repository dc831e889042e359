#!/bin/bash
# report_html.sh - `forkgate report html`: what it is made of, what is refused, and (with a second argument) how a browser
# takes it; without a Chromium that part says SKIP and exits 77.
# usage: report_html.sh FORKGATE [browser]
forkgate=$1
here=$(cd "$(dirname "$0")/../.." && pwd)
. "$(dirname "$0")/expect.sh"
. "$here/tests/cli/chromium.sh"

# two streams with hostile texts that fork at token 3, and an explanation and a fault matrix as their commands write them
hostile='</p><script>alert(1)</script>'
keys="$keys -P note=$hostile"
stream a '1, the,20,50,15' "2,$hostile,20,50,15" '3,\xE2\x80\xAE\n,20,50,15' '5, cat,20,6,19.999' '7, sat,20,50,15'
stream b '1, the,20,50,15' "2,$hostile,20,50,15" '3,\xE2\x80\xAE\n,20,50,15' '6, \x22dog\x22 & co,20.001,5,20' '8, ran,20,50,15'
cat >explain.csv <<'E'
step,pos,layer,op,tensor,kernel_a,kernel_b,rows,cols,differing,max_abs,row_max,max_ulp,worst,worst_a,worst_b,first
0,4,0,matmul,q,matmul_f16,matmul_f16,1,8,0,0,1,0,0,0,0,0
0,4,0,attention,attn,attention_f16,attention_f16,1,8,3,1e-6,1,12,0,0,0,1
0,4,0,add,attn_residual,add,add,1,8,8,2e-6,1,12,0,0,0,0
0,4,1,add,ffn_residual,add,add,1,8,8,5e-5,2,12,0,0,0,0
3,7,0,attention,attn,attention_f16,attention_f16,1,8,3,1e-7,1,12,0,0,0,0
3,7,1,add,ffn_residual,add,add,1,8,8,5e-4,2,12,0,0,0,0
E
cat >mutants.csv <<'E'
date,backend,device,arch,commit,command,id,where,op,class,size,legal,tier,cell,expected,killed_by,how,ms,verdict
d,cpu,cpu,sm_90,c,x,mm-skip,twin,matmul,any,large,0,parity,killed,1,op.matmul,twin,1,ok
d,cpu,cpu,sm_90,c,x,rope-fast,twin,rope,any,ulp,0,parity,survived,1,,,1,HOLE
E
expect 0 "$forkgate" run --only op.add --csv run.csv
sed '4s/,PASS,/,ERROR,/' run.csv >red.csv

expect 0 "$forkgate" report html run.csv -o run.html
lines out 0
has run.html '<h1>PASS of what was run, not a landing verdict (parity: op.add only; not run: suite, identity; cpu only)</h1>'
has run.html 'Not in this report: Fork (--diff A.fgd B.fgd)'
expect 0 "$forkgate" report html red.csv --diff a.fgd b.fgd --explain explain.csv --mutants mutants.csv -o all.html
has all.html '<h1>NOT JUDGED'
has all.html '<h2 id="fork">The fork, at token 3</h2>'
has all.html '<mark> &quot;dog&quot; &amp; co</mark>'
has all.html '<h2 id="growth">'
has all.html '1 ok, 1 HOLE'
for f in run.html all.html; do
  lacks $f '<script'
  lacks $f 'http:'
  lacks $f 'https:'
  [ "$(wc -c <$f)" -lt 200000 ] || fail "$f is large"
  if command -v xmllint >/dev/null; then # its parser does not know the newer elements by name
    xmllint --html --noout $f 2>lint || true
    if grep 'error' lint | grep -v 'Tag [a-z]* invalid' >errors; then fail "xmllint: $(head -3 errors)"; fi
  fi
done

look() { expect "$1" python3 "$here/tests/html_browser.py" "$chromium" "$2"; }
if [ -n "$browser" ]; then
  look 0 run.html
  look 0 all.html
  # the looking itself is not blind: a script, a request, a page that is too wide, a link that leads nowhere
  sed 's/default-src [^"]*/x/;s|</main>|<script>console.log(1)</script></main>|' run.html >bad.html
  look 1 bad.html
  has err 'FAILED: console'
  sed 's|</main>|<img src="other.png" alt=""></main>|' run.html >bad.html
  look 1 bad.html
  sed "s|</main>|<table><tr><td class=\"n\">$(printf 'wide%.0s' $(seq 80))</td></tr></table></main>|" run.html >bad.html
  look 1 bad.html
  has err 'scrolls sideways'
  sed 's/id="fork"/id="frok"/' all.html >bad.html
  look 1 bad.html
  echo 'cli.html_browser: passed'
  exit 0
fi

# to standard output; only the fork; refusals
expect 0 "$forkgate" report html --diff a.fgd b.fgd
has out '</html>'
trouble "$forkgate" report html none.csv
trouble "$forkgate" report html run.csv --diff a.fgd none.fgd
trouble "$forkgate" report html run.csv --explain mutants.csv -o x.html
has err "mutants.csv: no column 'step'"
trouble "$forkgate" report html run.csv --mutants explain.csv -o x.html
trouble "$forkgate" report html run.csv -o nowhere/x.html
[ ! -e x.html ] || fail 'a refused report left a file'
expect 2 "$forkgate" report html
expect 2 "$forkgate" report html run.csv --diff a.fgd
expect 2 "$forkgate" report html run.csv --verdict FAIL
expect 2 "$forkgate" report export run.csv --mutants mutants.csv
expect 2 sh -c "'$forkgate' report html run.csv > /dev/full"
echo 'cli.report_html: passed'
