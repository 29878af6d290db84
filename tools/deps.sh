#!/usr/bin/env bash
# Installs the Debian packages a task needs, those that are missing and no others, without asking.
#
#   tools/deps.sh build|test|lint|deb|cluster|quick|bench|crowd|pictures|fuzz|valgrind
#
# Does nothing (and needs no network) when all of them are there. On other systems it says what is
# needed and leaves it to you.
set -euo pipefail

build=(
    "gcc:the compiler"
    "libc6-dev:the C library's headers"
    "cmake:describes the build"
    "ninja-build:runs the build"
    "make:puts names on the build's targets"
    "pkg-config:finds libraries and checks our own tenure.pc"
    "libuv1-dev:the server's event loop"
    "libjansson-dev:JSON, in the server"
    "libsodium-dev:hashes, in the server"
    "libmicrohttpd-dev:HTTP, in the server"
    "librabbitmq-dev:RabbitMQ, in the server"
    "libinih-dev:the configuration file's form"
    "libsystemd-dev:telling systemd that the server is ready"
    "libnghttp2-dev:HTTP/2, in the client of etcd"
    "libprotobuf-c-dev:messages, in the client of etcd"
    "protobuf-c-compiler:makes them from their description"
    "libssl-dev:TLS, in the server and the client of etcd"
    "zlib1g-dev:compressed answers, in the server"
)
deb=(
    "${build[@]}"
    "debhelper:builds the Debian packages"
    "dh-python:puts the Python client into one of them"
    "dpkg-dev:dpkg-buildpackage"
    "lintian:checks the packages"
)
# gcc brings the runtimes of its sanitizers along.
test=(
    "${deb[@]}"
    "libcmocka-dev:the unit test framework"
    "redis-tools:redis-cli and redis-benchmark, which the server is tested with"
    "python3-redis:a client library that the server is tested with"
    "chromium:a browser that shows the page, and pages that attack the server"
    "curl:HTTP from a shell, which the server is tested with"
    "prometheus:its promtool, which reads the server's metrics"
    "zsh:a shell that completes words, in tests"
    "groff-base:sets the pages of the manual, in a test"
    "golang-go:the compiler of the Go client, in tests"
    "mypy:checks the types of the Python client"
    "python3-yaml:reads .pre-commit-config.yaml, in a test"
    "mariadb-server:a database that allocations are taken over from, in a test"
    "postgresql:another"
    "rabbitmq-server:a broker that rules come from and events go to, in a test"
    "python3-pika:a client of it, in that test"
    "openssl:certificates for it"
    "etcd-server:a store that logs are replicated in, in tests"
    "etcd-client:sets up users of it, in tests"
    "debootstrap:a fresh root to install packages in, in a test"
    "faketime:a clock that has jumped, in a test"
    "iproute2:the loopback device of a network namespace, in tests"
    "umoci:unpacks the image"
)
# Whatever node is on the path will do; Debian's comes only where there is none.
if ! command -v node >/dev/null; then
    test+=("nodejs:client libraries and a validator from npm, which the server is tested with")
fi
if ! command -v npm >/dev/null; then
    test+=("npm:installs those")
fi
redis=("redis-server:what the server is measured against")
cluster=(
    "${build[@]}"
    "etcd-server:the store that the log of a cluster is in"
    "python3:finds free ports, in the story of a cluster"
)
quick=("${build[@]}" "${redis[@]}")
# Libraries of the servers that Tenure is compared with; bench/peers.c is built where they are.
peers=(
    "libpq-dev:the client library of PostgreSQL, in the benchmark"
    "libmariadb-dev:that of MariaDB"
    "libsqlite3-dev:SQLite, in the benchmark"
)
bench=(
    "${quick[@]}"
    "${peers[@]}"
    "postgresql:a server that Tenure is compared with"
    "mariadb-server:another"
    "etcd-server:another"
)
lint=(
    "${test[@]}"
    "${peers[@]}"
    "clang-format:checks the formatting"
    "clang-tidy:static analysis"
    "cppcheck:static analysis, a second opinion"
    "shellcheck:checks the shell scripts"
)
crowd=("${test[@]}" "${redis[@]}")
pictures=(
    "${build[@]}"
    "chromium:the browser that shows the page"
    "python3-redis:a client library, for the data on the page"
    "pngquant:makes pictures small"
)
valgrind=("${test[@]}" "valgrind:memcheck")
fuzz=(
    "${build[@]}"
    "clang:the compiler with libFuzzer"
    "libclang-rt-dev:libFuzzer and sanitizers"
    "libcmocka-dev:what the targets share with the tests"
)

case "${1:-}" in
build) wanted=("${build[@]}") ;;
test) wanted=("${test[@]}") ;;
lint) wanted=("${lint[@]}") ;;
deb) wanted=("${deb[@]}") ;;
cluster) wanted=("${cluster[@]}") ;;
quick) wanted=("${quick[@]}") ;;
bench) wanted=("${bench[@]}") ;;
crowd) wanted=("${crowd[@]}") ;;
pictures) wanted=("${pictures[@]}") ;;
fuzz) wanted=("${fuzz[@]}") ;;
valgrind) wanted=("${valgrind[@]}") ;;
*)
    echo "usage: tools/deps.sh build|test|lint|deb|cluster|quick|bench|crowd|pictures|fuzz|valgrind" >&2
    exit 2
    ;;
esac

if ! command -v dpkg-query >/dev/null; then
    echo "deps: not a Debian system; make sure you have: ${wanted[*]%%:*}" >&2
    exit 0
fi

missing=()
for entry in "${wanted[@]}"; do
    package=${entry%%:*}
    status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
    if [ "$status" != installed ]; then
        echo "deps: installing $package (${entry#*:})"
        missing+=("$package")
    fi
done
if [ ${#missing[@]} -eq 0 ]; then
    exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "deps: neither root nor sudo; as root: apt-get install ${missing[*]}" >&2
        exit 1
    fi
    as_root=(sudo -n)
fi
apt() {
    # RUNLEVEL=1: a package that brings a service must not start it.
    "${as_root[@]}" env RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get -q "$@" </dev/null
}
apt update
apt install -y --no-install-recommends "${missing[@]}"
