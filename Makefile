# Short names for common tasks. The build itself is in CMakeLists.txt and CMakePresets.json. `make help`
# lists all targets.

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
release: ## builds the programs and libraries, optimized, in build/
	@cmake --preset release >/dev/null
	@cmake --build --preset release

.PHONY: dev tsan clang
dev tsan clang: ## builds with sanitizers (dev, tsan) or the other compiler (clang)
	@cmake --preset $@ >/dev/null
	@cmake --build --preset $@

.PHONY: deps
deps: ## installs the Debian packages the build needs, if any is missing
	@tools/deps.sh build

.PHONY: test
test: ## runs the whole test suite; ends with `N passed, N failed`
	@tools/test.sh

.PHONY: run
run: deps ## builds, runs the demo (the first time), starts the server with its data in ./data
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

.PHONY: run-cluster
run-cluster: ## builds and runs three members of etcd and three nodes, and kills the owner
	@tools/deps.sh cluster
	@$(MAKE) --no-print-directory release
	@tools/run-cluster.sh

.PHONY: story
story: deps ## builds and runs the demo: two processes, a crash and a lease
	@$(MAKE) --no-print-directory release
	@exec build/story

.PHONY: bench
bench: ## benchmarks the release build in 12 minutes; prints a table, writes build/bench.tsv and bench.svg
	@tools/deps.sh bench
	@$(MAKE) --no-print-directory release
	@tools/bench.sh $(foreach peer,$(WITHOUT),--without $(peer))

.PHONY: bench-quick
bench-quick: ## the same for Tenure, Redis and the disk only, in a minute
	@tools/deps.sh quick
	@$(MAKE) --no-print-directory release
	@tools/bench.sh --quick

.PHONY: bench-cluster
bench-cluster: ## benchmarks a cluster against bare etcd: three members and three nodes; takes 4 minutes
	@tools/deps.sh cluster
	@$(MAKE) --no-print-directory release
	@tools/bench.sh --long cluster

.PHONY: screenshots
screenshots: ## takes the pictures of the web page in docs/pictures: make screenshots MINUTES=12
	@tools/deps.sh pictures
	@$(MAKE) --no-print-directory release
	@TENURE_BUILD_DIR=build TENURE_SOURCE_DIR=. /usr/bin/python3 tools/screenshots.py

.PHONY: bench-import
bench-import: deps ## benchmarks import and export of a million allocations
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
sim: ## runs long random simulations, optimized: make sim SEEDS=1..1000 [SECONDS=600]
	@tools/deps.sh test
	@tools/sim.sh "$(SEEDS)" "$(SECONDS)"

.PHONY: plants
plants: ## plants each known bug and sees it found: a table
	@tools/deps.sh test
	@tools/plants.sh

.PHONY: crash
crash: ## starts from every disk state that a crash can leave: make crash SECONDS=1200 SEED=1
	@tools/deps.sh test
	@tools/crash.sh "$(or $(SECONDS),60)" "$(or $(SEED),1)"

.PHONY: nemesis
nemesis: ## checks linearizability while the server is killed repeatedly: make nemesis SECONDS=1200
	@tools/nemesis.sh "$(or $(SECONDS),60)"

.PHONY: nemesis-cluster
nemesis-cluster: ## checks linearizability of a cluster under mishaps: make nemesis-cluster MISHAPS=500 SEED=1
	@tools/nemesis-cluster.sh "$(or $(MISHAPS),500)" "$(or $(SEED),1)"

.PHONY: crowd
crowd: ## measures an honest client beside ten thousand hostile ones: make crowd SECONDS=300
	@tools/crowd.sh "$(or $(SECONDS),60)"

.PHONY: sensors-campaign
sensors-campaign: ## tests sensors at scale: kills, toggles, a thousand at once; takes minutes
	@tools/sensors-campaign.sh

.PHONY: run-campaign
run-campaign: ## interrupts tenure run at random: make run-campaign INTERRUPTIONS=500 SECONDS=3600 SEED=1
	@tools/run-campaign.sh "$(or $(INTERRUPTIONS),500)" "$(or $(SECONDS),3600)"

.PHONY: nemesis-plants
nemesis-plants: ## runs the nemesis against a server with planted bugs, which it must find
	@tools/nemesis-plants.sh

.PHONY: fuzz
fuzz: ## runs every libFuzzer target, two at a time: make fuzz SECONDS=60 (or FUZZ_SECONDS=60) each
	@tools/fuzz.sh "$(or $(SECONDS),$(FUZZ_SECONDS))"

.PHONY: valgrind
valgrind: ## runs the kernel's tests under Valgrind
	@tools/deps.sh valgrind
	@tools/valgrind.sh

.PHONY: coverage
coverage: ## measures line and branch coverage of src/, file by file
	@tools/deps.sh test
	@tools/coverage.sh

.PHONY: install
install: release ## installs under PREFIX (/usr/local), below DESTDIR if given
	@DESTDIR="$(DESTDIR)" cmake --install build --prefix "$(PREFIX)"

.PHONY: deb
deb: ## builds the Debian packages in build/deb and checks them with lintian
	@tools/deps.sh deb
	@tools/deb.sh

.PHONY: image
image: deb ## builds an OCI image from the packages, without a daemon: build/image, build/image.tar
	@tools/image.py build/deb build/image

.PHONY: clean
clean: ## removes build/
	rm -rf build

.PHONY: help
help: ## prints this list
	@awk -F ':.*## ' '/^[a-z -]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile
