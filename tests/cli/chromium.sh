# chromium.sh - sourced by the CLI tests of pages, after expect.sh: with a second argument (browser) they need $chromium, and
# end with SKIP (exit 77) where there is none.
browser=${2-}
chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [ -n "$browser" ] && { [ -z "$chromium" ] || ! command -v python3 >/dev/null; }; then
  echo "SKIP: no Chromium or no python3 to look at the page with"
  exit 77
fi
