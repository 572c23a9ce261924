#!/usr/bin/env bash
# Runs a command with the reference client on PATH as `claude`, sealed: in a network of its own with loopback only, with a
# made-up key, a home of its own, and mock_model.py in place of a model. Nothing of it reaches outside, and nothing of it
# outlives this script: all processes are in a process namespace that ends with it.
#
# usage: sealed.sh SCRIPT.json OUT COMMAND [ARG...]
#   OUT          must be empty or absent. OUT/home is the home, OUT/home/.claude the client's root, OUT/work where the
#                command starts, OUT/requests.ndjson every model request.
#   EXTRA_PATH   a folder to be found before the system's, such as the one of our own binary
#   CLIENT       "today" makes `claude` today's client (2.1.332, a program for Linux on x86-64); else it is 2.1.39
# needs: root or user namespaces, ip, node, npm, python3
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
script=$(realpath "$1")
out=$(realpath -m "$2")
shift 2
[ -z "$(ls -A "$out" 2>/dev/null)" ] || { echo "$out is not empty" >&2; exit 2; }

namespaces=(--net --pid --mount --fork --mount-proc --kill-child)
unshare "${namespaces[@]}" true 2>/dev/null || namespaces+=(--user --map-root-user)
unshare "${namespaces[@]}" true || { echo "there are no namespaces to seal it in" >&2; exit 3; }

cache=$("$here/install.sh")
# Today's client keeps its sockets in the folder for temporary files, so it gets one of its own.
mkdir -p "$out/home/.claude" "$out/work" "$out/bin" "$out/tmp"
if [ "${CLIENT:-}" = today ]; then
  ln -s "$cache/node_modules/@anthropic-ai/claude-code-linux-x64/claude" "$out/bin/claude"
else
  printf '#!/bin/sh\nexec node %q "$@"\n' "$cache/node_modules/@anthropic-ai/claude-code/cli.js" >"$out/bin/claude"
  chmod +x "$out/bin/claude"
fi
# What a first start would ask its user.
cat >"$out/home/.claude/.claude.json" <<J
{"hasCompletedOnboarding": true, "theme": "dark", "bypassPermissionsModeAccepted": true,
 "customApiKeyResponses": {"approved": ["sk-not-a-key", "k-not-a-key"], "rejected": []},
 "projects": {"$out/work": {"hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true, "allowedTools": []}}}
J

exec env -i PATH="$out/bin:${EXTRA_PATH:+$EXTRA_PATH:}$PATH" NODE_PATH="$cache/node_modules" HOME="$out/home" TMPDIR="$out/tmp" \
  SHELL=/bin/bash TERM=xterm-256color LANG=C.UTF-8 OUT="$out" CLAUDE_CONFIG_DIR="$out/home/.claude" \
  ANTHROPIC_BASE_URL=http://127.0.0.1:8123 ANTHROPIC_API_KEY=sk-not-a-key \
  CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS=1 CLAUDE_CODE_ENABLE_TASKS=1 CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 \
  DISABLE_TELEMETRY=1 DISABLE_ERROR_REPORTING=1 DISABLE_AUTOUPDATER=1 \
  unshare "${namespaces[@]}" "$here/inside.sh" "$script" "$@"
