#!/usr/bin/env bash
# The part of sealed.sh that is inside: loopback and the model server come up, then the command runs.
# The port is fixed: this network has nobody else in it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
script=$1
shift
ip link set lo up
# The server says one line when it listens.
exec 3< <(exec python3 "$here/mock_model.py" "$script" 8123 "$OUT/requests.ndjson")
read -r _ <&3 || { echo "the model server did not start" >&2; exit 3; }
cd "$OUT/work"
"$@"
