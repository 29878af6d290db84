#!/usr/bin/env bash
# How fast allocations move in and out: rows of a table of networks into a server of its own, the same
# again, as a dry run, and back out.
#
#   tools/bench-import.sh [ROWS]      a million by default
#
# Uses the release build. Prints a line each: what, seconds, rows a second.
set -euo pipefail
cd "$(dirname "$0")/.."
rows=${1:-1000000}
build=$PWD/build
directory=$(mktemp -d)
server=

finish() {
    if [ -n "$server" ]; then
        kill "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
    fi
    rm -rf "$directory"
}
trap finish EXIT

# Every value once, in no order; uuids of the usual length.
shuf -i 1-16777215 -n "$rows" --random-source=<(yes) | awk '
    BEGIN { print "vxid,uuid,created_at" }
    { printf "%d,%08x-6f1c-4e2a-9b3d-%012x,2026-01-01 00:00:00\n", $1, $1, $1 }
' >"$directory/networks.csv"

"$build/tenured" --config packaging/tenured.conf.example --data "$directory/data" \
    --listen 127.0.0.1:0 --http off --port-file "$directory/port" 2>"$directory/log" &
server=$!
until [ -s "$directory/port" ]; do
    kill -0 "$server"
    sleep 0.05
done
tenure=("$build/tenure" -p "$(head -n 1 "$directory/port")")

measure() {
    local what=$1 begin end
    shift
    begin=$(date +%s%N)
    "$@" >"$directory/out" 2>"$directory/err"
    end=$(date +%s%N)
    awk -v what="$what" -v rows="$rows" -v ns=$((end - begin)) \
        'BEGIN { printf "%-12s %7.2f s %9d rows/s\n", what, ns / 1e9, rows * 1e9 / ns }'
}

import=(import vxlan "$directory/networks.csv" --map "value=vxid,holder=uuid" --holder-type network)
measure "dry run" "${tenure[@]}" "${import[@]}" --dry-run
measure "import" "${tenure[@]}" "${import[@]}"
measure "again" "${tenure[@]}" "${import[@]}"
measure "export csv" "${tenure[@]}" export vxlan
measure "export sql" "${tenure[@]}" export vxlan --format sql
