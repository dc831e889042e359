#!/bin/sh
# Writes build_info.h (commit and dirty flag of the source tree) when it changed. Run by every build.
# usage: build-info.sh SOURCE_DIR OUT.h
set -eu
commit=$(git -C "$1" rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
dirty=0
if [ -n "$(git -C "$1" status --porcelain --untracked-files=no -- engine gates tools CMakeLists.txt 2>/dev/null)" ]; then dirty=1; fi
new="#define FORKGATE_COMMIT \"$commit\"
#define FORKGATE_DIRTY \"$dirty\""
if [ "$new" != "$(cat "$2" 2>/dev/null || true)" ]; then printf '%s\n' "$new" >"$2"; fi
