# Everything runs in a virtual environment of its own; PYTHON names the interpreter that makes it.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
KERNELS := $(VENV)/.compiled

.PHONY: help demo test check lint types docs tests test-slow test-cluster test-netns bench evaluate evaluate-small paper wheel lock format clean

help: ## these lines
	@sed -n 's/^\([a-z-]*\):.*## /\1 /p' Makefile | while read -r name text; do \
		printf '%-22s%s\n' "make $$name" "$$text"; done

demo: $(KERNELS) ## allocate two shipped scenarios: tables, pictures, claims in demo-output/
	@$(BIN)/metronome demo

# Two at a time: what a new environment has not compiled yet is compiled beside the type checks.
test: $(STAMP) ## check, lint, types, docs and fast tests
	$(MAKE) --jobs 2 check lint types docs tests

# The exact versions of requirements.lock, then the package itself, editable.
$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "metronome-opt needs Python 3.11 or later; say: make PYTHON=python3.12 ..."; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || \
		{ echo "no virtual environment could be made; on Debian: apt install python3-venv"; exit 2; }
	@echo "setting up $(VENV), once: some minutes, 1.5 GB"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
	@touch $@

$(KERNELS): $(STAMP)
	@echo "compiling kernels, once: some minutes"
	@{ $(BIN)/metronome allocate eight-nodes --time-limit 1 && \
		$(BIN)/metronome solve paper-24 --time-limit 1; } >$@.log 2>&1 || { cat $@.log; exit 1; }
	@touch $@

check: $(STAMP) ## whether installed packages agree
	$(BIN)/python -m pip check --disable-pip-version-check

lint: $(STAMP) ## ruff: style and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP) ## mypy: types
	$(BIN)/mypy

# The site, in build/docs; its sources are read where they lie.
docs: $(STAMP) ## the site, in build/docs
	$(BIN)/sphinx-build -q -W --keep-going -c docs . build/docs

tests: $(KERNELS) ## fast tests
	$(BIN)/pytest -n 2 -m "not slow"

# What is marked slow, and all cases of property tests, of which the others draw a part.
test-slow: $(KERNELS) ## slow tests, and all cases of property tests
	METRONOME_THOROUGH=1 $(BIN)/pytest -n 2 -m "(slow or hypothesis) and not netns"

# Against the cluster in KUBECONFIG, or with METRONOME_TEST_APISERVER=1 against a server of its own.
test-cluster: $(KERNELS) ## tests against a Kubernetes API server
	$(BIN)/pytest -m cluster

# Jobs on real networks of this machine; needs Linux, root and iproute2, and for those of a cluster
# METRONOME_TEST_APISERVER=1 and KUBE_CACHE, a folder of the programs of Kubernetes.
test-netns: $(KERNELS) ## tests on real networks of this machine (Linux, root)
	$(BIN)/pytest -m netns

bench: $(KERNELS) ## all benchmarks of benchmarks/
	$(BIN)/python -m benchmarks run

# Needs latexmk; on Debian: apt install latexmk lmodern texlive-latex-recommended texlive-fonts-recommended
paper: $(STAMP) ## the paper, in build/main.pdf
	$(BIN)/python -m paper
	latexmk -cd -pdf -interaction=nonstopmode -halt-on-error -outdir=build paper/main.tex

# Hours of simulations: `python -m benchmarks.evaluation left` says how many are left. What is interrupted
# goes on with the same command. TRACES is a folder with sia/newtrace-1.csv and muri/trace3.csv.
evaluate: $(KERNELS) ## the evaluation: hours of simulations
	$(BIN)/python -m benchmarks.evaluation run $(TRACES:%=--traces %)

# Few cells and seeds of all of it, in build/evaluation-small.
evaluate-small: $(KERNELS) ## a few cells and seeds of it
	$(BIN)/python -m benchmarks.evaluation run --small $(TRACES:%=--traces %)

wheel: $(STAMP) ## a wheel, in dist/
	$(BIN)/python -m build --no-isolation --outdir dist .

lock: $(STAMP) ## requirements.lock
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url \
		--no-emit-find-links --python-version 3.11 --group dev --all-extras pyproject.toml \
		--output-file requirements.lock

format: $(STAMP) ## source code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove everything that was made
	rm -rf $(VENV) dist build demo-output .pytest_cache .mypy_cache .ruff_cache .hypothesis
