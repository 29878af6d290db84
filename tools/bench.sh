#!/usr/bin/env bash
# Runs the benchmark programs of the release build, all or those named, one after the other.
#
#   tools/bench.sh [--quick | --long | --smoke] [--without PEER]... [NAME...]
#
# --quick: Tenure, Redis and the disk only, in less than a minute. --long: for the cluster, fifty kills.
# --smoke: a fraction of a second each, to see that the programs work. --without: leaves out a peer (redis,
# postgresql, mariadb, etcd, sqlite) on purpose; a peer that cannot be started is an error otherwise.
#
# A program prints one line per result on stdout, four fields separated by tabs: name, value, ratio, value
# of the peer. Remarks go to stderr. bench/rows.tsv has the units, peers and goals. tools/bench-table.py
# puts them together: a table in Markdown (build/bench.md), build/bench.tsv and build/bench.svg.
set -euo pipefail
cd "$(dirname "$0")/.."

length=()
without=()
names=()
while [ $# -gt 0 ]; do
    case "$1" in
    --quick | --long | --smoke) length=("$1") ;;
    --without)
        without+=(--without "${2:?bench: --without needs a peer}")
        shift
        ;;
    -*)
        echo "usage: tools/bench.sh [--quick | --long | --smoke] [--without PEER]... [NAME...]" >&2
        exit 2
        ;;
    *) names+=("$1") ;;
    esac
    shift
done
if [ ${#names[@]} -eq 0 ]; then
    if [ "${length[*]-}" = --quick ]; then
        names=(engine kernel server)
    else
        for source in bench/*.c; do
            name=$(basename "$source" .c)
            if [ "$name" = cluster ] && [[ " ${without[*]-} " == *" etcd "* ]]; then
                continue # there is no cluster without etcd
            fi
            names+=("$name")
        done
    fi
fi

lines=build/bench.lines
status=0
: >"$lines"
for name in "${names[@]}"; do
    echo "== $name" >&2
    begun=$SECONDS
    if [ ! -x "build/bench/$name" ]; then
        echo "bench: there is no build/bench/$name: tools/deps.sh bench installs what it needs" >&2
        status=1
    elif ! "build/bench/$name" "${length[@]}" "${without[@]}" >build/bench.part; then
        echo "bench: $name failed" >&2
        status=1
    fi
    sed "s/^/$name\t/" build/bench.part >>"$lines"
    echo "   $name took $((SECONDS - begun)) s" >&2
done
rm -f build/bench.part

echo "$(nproc) cores, $(uname -sr), $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(date +%F)"
echo
quick=()
[ "${length[*]-}" != --quick ] || quick=(--quick)
/usr/bin/python3 tools/bench-table.py "${quick[@]}" "${without[@]}" "$lines" build/bench.tsv \
    build/bench.svg "${names[@]}" | tee build/bench.md || status=1
exit "$status"
