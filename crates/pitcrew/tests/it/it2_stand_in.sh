#!/bin/bash
# Stands in for iTerm2's helper `it2`: takes the calls of version 0.2, records them, and runs what is typed.
#
# Sessions are folders below $IT2_STAND_IN; a session ends with its process, as iTerm2 closes one by default.
set -u
sessions=$IT2_STAND_IN/sessions
mkdir -p "$sessions"
printf '%s\n' "${*@Q}" >> "$IT2_STAND_IN/calls"

is_alive() {
  [ -e "$1/process" ] || return 0 # still a shell at its prompt
  kill -0 "$(< "$1/process")" 2> /dev/null && ! grep -q '^State:.Z' "/proc/$(< "$1/process")/status"
}

[ "$1" = --version ] && { echo "it2, version 0.2.3"; exit; }
verb=$2 words=() session=
shift 2
while (($#)); do
  case $1 in
    --session) session=$2; shift 2 ;;
    --) shift; words+=("$@"); break ;;
    --*) shift ;;
    *) words+=("$1"); shift ;;
  esac
done
at=$sessions/$session
if [[ $verb != @(list|focus) && -n $session && $session != w0t0p0:* ]]; then
  is_alive "$at" || rm -r "$at"
  [ -d "$at" ] || { echo "Error: Session '$session' not found" >&2; exit 3; }
fi

case $verb in
  split)
    made=$(tr a-f A-F < /proc/sys/kernel/random/uuid)
    mkdir "$sessions/$made"
    echo "Created new pane: $made"
    ;;
  list)
    comma=
    printf '['
    for at in "$sessions"/*; do
      [ -d "$at" ] && is_alive "$at" || continue
      printf '%s{"id": "%s", "name": "", "title": "", "tty": "", "rows": 24, "cols": 80, "is_tmux": false}' "$comma" "${at##*/}"
      comma=,
    done
    echo ']'
    ;;
  run)
    setsid sh -c "${words[0]}" < /dev/null > "$at/screen" 2>&1 &
    echo $! > "$at/process"
    ;;
  set-var) printf '%s' "${words[1]}" > "$at/${words[0]}" ;;
  get-var) if [ -e "$at/${words[0]}" ]; then cat "$at/${words[0]}"; else echo "Variable '${words[0]}' not set"; fi ;;
  read) cat "$at/screen" ;;
  close)
    [ -e "$at/process" ] && kill -HUP -- "-$(< "$at/process")"
    rm -r "$at"
    echo "Session closed"
    ;;
  set-name | focus) ;;
  *) echo "Error: No such command '$verb'." >&2; exit 2 ;;
esac
