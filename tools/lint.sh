#!/usr/bin/env bash
# Formatting, static analysis, shell scripts, the types of the Python, Node and Go programs, the rules
# between the rooms, the word list and the documents. Continues after a failure, so that one run shows all of them.
#
#   tools/lint.sh [format|tidy|cppcheck|shell|python|node|go|rooms|words|docs]...      all, if none is named
# shellcheck disable=SC2317 # functions are called through step()
set -euo pipefail
cd "$(dirname "$0")/.."

status=0
step() {
    echo "== $1"
    shift
    if ! "$@"; then
        status=1
    fi
}

dirs=()
for dir in src include examples bench tests; do
    if [ -d "$dir" ]; then
        dirs+=("$dir")
    fi
done
mapfile -t code < <(find "${dirs[@]}" -name '*.[ch]' | sort)
mapfile -t units < <(find "${dirs[@]}" -name '*.c' | sort)

tidy() {
    cmake --preset dev >/dev/null
    cmake --build --preset dev --target made >/dev/null
    tools/tidy.py build/dev/compile_commands.json build/lint/tidy "${units[@]}"
}

check_cpp() {
    mkdir -p build/lint/cppcheck
    cppcheck --quiet --std=c17 --language=c --enable=warning,performance,portability \
        --inline-suppr --suppressions-list=.cppcheck-suppressions --error-exitcode=1 \
        -j "$(nproc)" --cppcheck-build-dir=build/lint/cppcheck \
        -D_GNU_SOURCE -D__BYTE_ORDER__=1234 -D__ORDER_LITTLE_ENDIAN__=1234 \
        -I src -I include -I tests "${units[@]}"
}

check_shell() {
    local maintainers
    mapfile -t maintainers < <(find packaging/debian -name '*.p*inst' -o -name '*.p*rm')
    shellcheck .ci/run tools/*.sh tests/lint/*.sh "${maintainers[@]}"
}

check_python() {
    # Debian's, whatever else is on the path. What tools/screenshots.py imports from tests/e2e has no types.
    /usr/bin/mypy --strict --python-version 3.9 --cache-dir build/lint/mypy clients/python/tenure.py &&
        /usr/bin/mypy --strict --ignore-missing-imports --cache-dir build/lint/mypy tools/*.py
}

check_node() {
    local modules
    modules=$(tools/npm.sh) &&
        "$modules/.bin/tsc" --noEmit --strict --allowJs --checkJs --target es2022 --lib es2023,dom \
            --module nodenext --typeRoots "$modules/@types" --types node tests/clients/types.mts
}

check_go() {
    export GOCACHE=$PWD/build/go GOPROXY=off
    local dir unformatted
    for dir in clients/go tests/clients/godriver; do
        unformatted=$(gofmt -l "$dir") || return 1
        if [ -n "$unformatted" ]; then
            echo "gofmt: $unformatted"
            return 1
        fi
        (cd "$dir" && go vet ./...) || return 1
    done
}

if [ $# -eq 0 ]; then
    set -- format tidy cppcheck shell python node go rooms words docs
fi
for name in "$@"; do
    case "$name" in
    format) step "clang-format" clang-format --dry-run -Werror "${code[@]}" ;;
    tidy) step "clang-tidy" tidy ;;
    cppcheck) step "cppcheck" check_cpp ;;
    shell) step "shellcheck" check_shell ;;
    python) step "mypy" check_python ;;
    node) step "tsc" check_node ;;
    go) step "gofmt, go vet" check_go ;;
    rooms) step "rooms" tools/check-rooms.py ;;
    words) step "words" tools/check-words.py ;;
    docs) step "documents" tools/check-docs.py ;;
    *)
        echo "lint: unknown step '$name'" >&2
        exit 2
        ;;
    esac
done
exit "$status"
