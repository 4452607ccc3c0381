# The commands of this project. Each does its own set-up; a second run installs and rebuilds nothing.
#
#   make demo                 build, then distil the laboratory pair with five objectives, each at its tuned rate (about a minute)
#   make test                 build everything, then run all tests
#   make build                the program, at build/routeopd
#   make bench                our speed as ratios (several minutes; docs/performance.md explains each)
#   make peers                live comparisons with transformers, tokenizers, TRL, Math-Verify, vLLM, llama.cpp and lm-evaluation-harness, in environments
#                             of their own, with one table (docs/peers.md); QUICK=1, RESUME=1, ONLY=NAME,…, SKIP=NAME,…
#   make fuzz                 every reader of untrusted bytes under libFuzzer, 15 minutes each (FUZZ_SECONDS=900), two at a time
#   make mutate               does a test fail when an operator or a constant changes? 200 mutants, resumed where it was stopped
#   make install PREFIX=DIR   the program, as DIR/bin/routeopd, with the LibTorch that it needs
#   make wheel                the Python package, as dist/routeopd-….whl
#   make integrations         the package in clean environments: other releases of torch, TRL, DeepSpeed, verl
#   make asan                 the tests under AddressSanitizer and UndefinedBehaviorSanitizer
#   make tsan                 what is threaded without OpenMP (server, clients, request queue, writers) under ThreadSanitizer
#   make format | lint        pinned clang-format | clang-tidy
#
# TORCH_PYTHON=/path/to/python uses that interpreter's torch 2.13.0 in place of a .venv.

PREFIX ?= /usr/local
TORCH_PYTHON ?=
FUZZ_SECONDS ?= 900
JOBS ?= $(shell nproc)
PRESET ?= release
LEAST_CHECKS := 3500  # GoogleTest cases and script checks that `make test` must have run
LEAST_TSAN_CHECKS := 300
BUILD := $(if $(filter release,$(PRESET)),build,build-$(PRESET))
PYTHON := $(or $(TORCH_PYTHON),$(CURDIR)/.venv/bin/python)

.PHONY: reconfigure demo test build tests bench install wheel integrations peers fuzz mutate asan tsan format format-check lint setup clean

demo: build
	@./examples/demo.sh $(BUILD)/routeopd

test: tests
	@ctest --test-dir $(BUILD) --output-on-failure --no-tests=error -j $(JOBS)
	@scripts/test_summary.py $(BUILD) --at-least $(LEAST_CHECKS)

build: $(BUILD)/build.ninja
	@ninja -C $(BUILD) --quiet -j $(JOBS) routeopd routeopd_shared

tests: $(BUILD)/build.ninja
	@ninja -C $(BUILD) --quiet -j $(JOBS) all

# Configured anew when another Python is named than the one in the cache.
CONFIGURED := $(shell sed -n 's/^ROUTEOPD_TORCH_PYTHON:[A-Z]*=//p' $(BUILD)/CMakeCache.txt 2>/dev/null)
$(BUILD)/build.ninja: $(if $(filter $(PYTHON),$(CONFIGURED)),,reconfigure) | setup
	@cmake --preset $(PRESET) -DROUTEOPD_TORCH_PYTHON=$(PYTHON) --log-level=NOTICE

reconfigure:

setup:
	@TORCH_PYTHON="$(TORCH_PYTHON)" scripts/setup.sh

bench: build
	@$(BUILD)/routeopd bench

peers: tests
	@python3 scripts/peers.py $(BUILD)/routeopd $(if $(QUICK),--quick) $(if $(RESUME),--resume) $(if $(ONLY),--only "$(ONLY)") $(if $(SKIP),--skip "$(SKIP)")

fuzz:
	@TORCH_PYTHON="$(TORCH_PYTHON)" scripts/fuzz.sh --seconds $(FUZZ_SECONDS)

mutate: setup
	@TORCH_PYTHON="$(TORCH_PYTHON)" scripts/mutate.py

install: export PREFIX := $(PREFIX)
install: build
	@scripts/install.sh $(BUILD)

wheel:
	@TORCH_PYTHON="$(TORCH_PYTHON)" scripts/wheel.sh

integrations: build wheel
	@ninja -C $(BUILD) --quiet -j $(JOBS) learner_gradients
	@scripts/integrations.sh

asan:
	@$(MAKE) --no-print-directory test PRESET=asan

# ThreadSanitizer wants addresses that are not drawn from more bits than it knows.
tsan:
	@setarch -R $(MAKE) --no-print-directory tests PRESET=tsan
	@setarch -R ctest --preset tsan -j $(JOBS)
	@scripts/test_summary.py build-tsan --at-least $(LEAST_TSAN_CHECKS)

format format-check:
	@scripts/tools.sh $@

lint: build
	@scripts/tools.sh lint

clean:
	rm -rf build build-asan build-tsan build-debug build-fuzz build-mutate
