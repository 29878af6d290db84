# The targets people remember. The build itself is in CMakeLists.txt and CMakePresets.json; this
# file only puts names on it. `make help` lists what there is.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := release
.DELETE_ON_ERROR:

PREFIX ?= /usr/local
DESTDIR ?=
SEEDS ?= 1..1000
SECONDS ?=
SEED ?=
FUZZ_SECONDS ?= 60

# Ninja where it is installed; a directory that is already configured keeps its generator.
ifneq ($(shell command -v ninja),)
export CMAKE_GENERATOR ?= Ninja
endif
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(shell nproc)

CODE_DIRS := $(wildcard src include examples bench tests)
CODE = $(sort $(shell find $(CODE_DIRS) -name '*.[ch]'))

.PHONY: release
release: ## the release build: programs and libraries directly under build/
	@cmake --preset release >/dev/null
	@cmake --build --preset release

.PHONY: dev tsan clang
dev tsan clang: ## builds with other tools: sanitizers (dev, tsan), the other compiler (clang)
	@cmake --preset $@ >/dev/null
	@cmake --build --preset $@

.PHONY: deps
deps: ## installs the Debian packages the build needs, if any is missing
	@tools/deps.sh build

.PHONY: test
test: ## everything that must pass before a commit; ends with `N passed, N failed`
	@tools/test.sh

.PHONY: run
run: deps ## builds, tells the story (the first time), starts the server with its data in ./data
	@$(MAKE) --no-print-directory release
	@[ -d data ] || { build/story && echo; }
	@echo "Tenure: RESP on 127.0.0.1:7411, HTTP on 127.0.0.1:7412, its data in ./data; Ctrl-C stops it."
	@echo "In another terminal:"
	@echo
	@echo "  build/tenure pool create ports --range 30000 30009 --lease 60"
	@echo "  build/tenure alloc ports job/42"
	@echo "  redis-cli -p 7411 ALLOC ports job/43      # any Redis client; and type: help @tenure"
	@echo "  curl --json '{\"holder\":\"job/44\"}' http://127.0.0.1:7412/v1/pools/ports/leases"
	@echo "  build/tenure leases"
	@echo
	@echo "In a browser: http://127.0.0.1:7412/"
	@echo
	@exec build/tenured

.PHONY: story
story: deps ## builds and tells the story of two processes, a crash and a lease
	@$(MAKE) --no-print-directory release
	@exec build/story

.PHONY: bench
bench: ## measures the release build: a table, and the same in build/bench.tsv
	@tools/deps.sh bench
	@$(MAKE) --no-print-directory release
	@tools/bench.sh

.PHONY: bench-import
bench-import: deps ## measures how fast a million allocations move in and out
	@$(MAKE) --no-print-directory release
	@tools/bench-import.sh

.PHONY: lint
lint: ## formatting, clang-tidy, cppcheck, shellcheck, mypy and the rules between the rooms
	@tools/deps.sh lint
	@tools/lint.sh

.PHONY: format
format: ## formats all C in place
	@clang-format -i $(CODE)

.PHONY: sim
sim: ## long random runs of tests/sim, optimised: make sim SEEDS=1..1000 [SECONDS=600]
	@tools/deps.sh test
	@tools/sim.sh "$(SEEDS)" "$(SECONDS)"

.PHONY: plants
plants: ## plants each known bug and sees it found: a table
	@tools/deps.sh test
	@tools/plants.sh

.PHONY: crash
crash: ## every disk that a crash may leave, and a start from each: make crash SECONDS=1200 SEED=1
	@tools/deps.sh test
	@tools/crash.sh "$(or $(SECONDS),60)" "$(or $(SEED),1)"

.PHONY: nemesis
nemesis: ## clients of a server that is killed again and again, and judges: make nemesis SECONDS=1200
	@tools/nemesis.sh "$(or $(SECONDS),60)"

.PHONY: crowd
crowd: ## ten thousand hostile sockets, and how long an honest client waits: make crowd SECONDS=300
	@tools/crowd.sh "$(or $(SECONDS),60)"

.PHONY: sensors-campaign
sensors-campaign: ## sensors in large numbers: kills, toggles, a thousand at once; takes minutes
	@tools/sensors-campaign.sh

.PHONY: nemesis-plants
nemesis-plants: ## the same clients at a server with bugs planted in it: they must be found
	@tools/nemesis-plants.sh

.PHONY: fuzz
fuzz: ## libFuzzer on every target, two at a time: make fuzz SECONDS=60 (or FUZZ_SECONDS=60) each
	@tools/fuzz.sh "$(or $(SECONDS),$(FUZZ_SECONDS))"

.PHONY: valgrind
valgrind: ## Valgrind over the tests of the kernel
	@tools/deps.sh valgrind
	@tools/valgrind.sh

.PHONY: coverage
coverage: ## line and branch coverage of src/ by the tests, file by file
	@tools/deps.sh test
	@tools/coverage.sh

.PHONY: install
install: release ## installs under PREFIX (/usr/local), below DESTDIR if given
	@DESTDIR="$(DESTDIR)" cmake --install build --prefix "$(PREFIX)"

.PHONY: clean
clean: ## removes build/
	rm -rf build

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z -]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile
