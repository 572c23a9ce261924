#!/usr/bin/env bash
# Installs what the interop tests run against, as package-lock.json pins it, and prints the folder with node_modules in it.
# It is its makers' property: it goes into a cache ($PITCREW_INTEROP_DIR, else the user's cache), never into the repository.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${PITCREW_INTEROP_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/pitcrew-interop}
pinned=$(sha256sum "$here/package-lock.json" | cut -c1-12)
place=$cache/$pinned
if [ ! -d "$place" ]; then
  mkdir -p "$cache"
  fresh=$(mktemp -d "$cache/installing-XXXXXX")
  trap 'rm -rf "$fresh"' EXIT
  cp "$here/package.json" "$here/package-lock.json" "$fresh"
  # --force: the program of today's client is for one platform, and on others the rest is still wanted.
  npm ci --force --loglevel=error --prefix "$fresh" --omit=optional --ignore-scripts --no-audit --no-fund >&2
  # Of several that install at once, one wins; the others find its folder there.
  mv -T "$fresh" "$place" 2>/dev/null || [ -d "$place" ]
fi
echo "$place"
