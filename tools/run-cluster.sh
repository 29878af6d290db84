#!/usr/bin/env bash
# A cluster on this machine, and what happens when its owner dies: three members of etcd and three nodes on
# loopback, in a temporary directory. Allocates, kills the owner with SIGKILL, and continues with the next.
#
#   tools/run-cluster.sh [--stay]     --stay: leaves the cluster running until Ctrl-C
#
# BUILD (build) is where tenured and tenure are.
set -euo pipefail
cd "$(dirname "$0")/.."

build=${BUILD:-build}
dir=$(mktemp -d)
declare -A pid=()
declare -A port=()
cleanup() {
    for name in "${!pid[@]}"; do
        kill -9 "${pid[$name]}" 2>/dev/null || true
        wait "${pid[$name]}" 2>/dev/null || true
    done
    rm -rf "$dir"
}
trap cleanup EXIT

# Ports that are free at this moment.
mapfile -t free < <(/usr/bin/python3 - <<'END'
import socket
held = [socket.socket() for _ in range(12)]
for s in held:
    s.bind(("127.0.0.1", 0))
for s in held:
    print(s.getsockname()[1])
END
)

say() { printf '\n# %s\n' "$1"; }
show() {
    printf '$ tenure'
    printf ' %s' "$@"
    printf '\n'
    "$build/tenure" "$@"
}

say "Three members of etcd"
members=""
endpoints=""
for i in 0 1 2; do
    members+="${members:+,}etcd$i=http://127.0.0.1:${free[$((i + 3))]}"
    endpoints+="${endpoints:+,}http://127.0.0.1:${free[$i]}"
done
for i in 0 1 2; do
    client=http://127.0.0.1:${free[$i]}
    peer=http://127.0.0.1:${free[$((i + 3))]}
    etcd --name "etcd$i" --data-dir "$dir/etcd$i" --listen-client-urls "$client" \
        --advertise-client-urls "$client" --listen-peer-urls "$peer" \
        --initial-advertise-peer-urls "$peer" --initial-cluster "$members" \
        --initial-cluster-token "tenure-$$" --pre-vote >"$dir/etcd$i.log" 2>&1 &
    pid[etcd$i]=$!
    echo "etcd$i on $client"
done

head -c 24 /dev/urandom | base64 >"$dir/secret"
chmod 600 "$dir/secret"
start() { # NAME [FLAG]
    "$build/tenured" --data "$dir/$1" --listen "127.0.0.1:${port[$1]}" \
        --http "127.0.0.1:$((free[${2}]))" --node "$1" --etcd-endpoints "$endpoints" \
        --cluster-secret-file "$dir/secret" "${@:3}" 2>>"$dir/$1.log" &
    pid[$1]=$!
}

# The node that serves as the owner, among those that live.
owner() {
    local name
    for _ in $(seq 600); do
        for name in a b c; do
            if [ -n "${pid[$name]:-}" ] && kill -0 "${pid[$name]}" 2>/dev/null &&
                [ "$(grep -c event=owner_ready "$dir/$name.log")" -gt \
                    "$(grep -c event=owner_ended "$dir/$name.log")" ]; then
                echo "$name"
                return
            fi
        done
        sleep 0.1
    done
    echo "nobody owns the log; the logs of the nodes:" >&2
    cat "$dir"/[abc].log >&2
    exit 1
}

say "Three nodes: the first begins the cluster, the others start empty"
port=([a]=${free[6]} [b]=${free[7]} [c]=${free[8]})
start a 9 --cluster-init
first=$(owner)
start b 10
start c 11
echo "node $first owns the log: RESP on 127.0.0.1:${port[$first]}"

say "An allocation, with its fencing token (lease and epoch)"
show -p "${port[$first]}" pool create ports --range 30000 30999 --lease 1h
show -p "${port[$first]}" alloc ports build/17
read -r lease epoch < <("$build/tenure" -p "${port[$first]}" --json alloc ports build/18 |
    /usr/bin/python3 -c 'import json, sys; r = json.load(sys.stdin); print(r["lease"], r["epoch"])')
echo "build/18 has the token ($lease, $epoch)"

say "kill -9 of the owner, node $first"
for name in a b c; do # both standbys must be there, or there would be nobody to go on
    until grep -q event=ready "$dir/$name.log"; do sleep 0.1; done
done
kill -9 "${pid[$first]}"
wait "${pid[$first]}" 2>/dev/null || true
unset "pid[$first]"
second=$(owner)
echo "node $second owns the log: RESP on 127.0.0.1:${port[$second]}"

say "The same token still verifies there, and the next allocation goes on"
show -p "${port[$second]}" verify "$lease" "$epoch"
show -p "${port[$second]}" alloc ports build/19
show -p "${port[$second]}" leases

if [ "${1:-}" = --stay ]; then
    say "The nodes: ${port[a]} ${port[b]} ${port[c]}. Ctrl-C ends them"
    wait
fi
say "Done. docs/cluster.md explains the settings"
