# Everything here works in a fresh checkout: each target first makes what it needs, and is quick when it is there.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c

PYTHON := .venv/bin/python

# Sets have their own order in each process unless this is fixed, and no simulated group would play the same way twice.
export PYTHONHASHSEED ?= 0

.PHONY: help test check fix demo lock venv controlplanes
help: ## say what there is
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' Makefile

test: controlplanes ## run all tests, on real control planes
	@$(PYTHON) -m pytest -n $$(( $$(nproc) < 4 ? $$(nproc) + 1 : 4 )) --dist loadfile --no-loadscope-reorder

demo: controlplanes ## see three clusters find each other and keep in step; CONTEXTS="a b c" [IMAGE=...] on your own
	@$(PYTHON) -m hack.demo $(CONTEXTS) $(if $(IMAGE),--image '$(IMAGE)')

check: venv ## look at style, types and layers, and run the tests that need no cluster
	@hack/check

fix: venv ## put right what a program can put right
	@hack/fix

lock: ## pin the newest versions that pyproject.toml allows
	@hack/lock

venv: ## make the virtual environment in .venv
	@hack/venv

controlplanes: venv ## build the programs of the control planes, once for all checkouts
	@$(PYTHON) -m hack.controlplane build >/dev/null
