# Everything here works in a fresh checkout: each target first creates what it needs, and is quick when it exists.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c

PYTHON := .venv/bin/python

# The order of sets is random in each process unless this is fixed: then a simulated group plays the same way again.
export PYTHONHASHSEED ?= 0
# The tests start hundreds of daemons: without bytecode in the checkout, each of them compiles all modules.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help test test-nightly test-pods check fix demo lock venv controlplanes
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' Makefile

# A test on clusters waits often, so there are more processes than cores; each of them may run three clusters, in 3 GB.
PYTEST = $(PYTHON) -m pytest -n $$(( $$(nproc) < 4 ? $$(nproc) + 2 : 5 )) --dist loadfile --no-loadscope-reorder

test: controlplanes ## run the tests, on real control planes
	@$(PYTHON) -m hack.controlplane build --for-tests >/dev/null
	@$(PYTEST) --daily

test-nightly: controlplanes ## run also the tests that take long: all combinations, and faults that other tests show in the simulation
	@$(PYTHON) -m hack.controlplane build --for-tests >/dev/null
	@$(PYTEST)

test-pods: controlplanes ## run the image in Pods, on two clusters with real nodes; needs root, Linux and Debian's packages
	@$(PYTHON) -m hack.pods

demo: controlplanes ## show three clusters that find each other and synchronize objects; CONTEXTS="a b c" [IMAGE=...] on your own clusters
	@$(PYTHON) -m hack.demo $(CONTEXTS) $(if $(IMAGE),--image '$(IMAGE)')

check: venv ## check style, types and layers, and run the tests that need no cluster
	@hack/check

fix: venv ## correct style and format
	@hack/fix

lock: ## pin the newest versions that pyproject.toml allows
	@hack/lock

venv: ## create the virtual environment in .venv
	@hack/venv

controlplanes: venv ## build the programs of the control planes, once for all checkouts
	@$(PYTHON) -m hack.controlplane build >/dev/null
