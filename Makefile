# Everything runs in a virtual environment of its own; PYTHON names the interpreter that makes it.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test check lint types tests test-slow bench wheel lock format clean

demo: $(STAMP)
	$(BIN)/metronome demo

test: check lint types tests

# The exact versions of requirements.lock, then the package itself, editable, its kernels compiled.
$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "metronome-opt needs Python 3.11 or later; say: make PYTHON=python3.12 ..."; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || \
		{ echo "no virtual environment could be made; on Debian: apt install python3-venv"; exit 2; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
	$(BIN)/python -m metronome_opt.kernels
	@touch $@

check: $(STAMP)
	$(BIN)/python -m pip check --disable-pip-version-check

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

tests: $(STAMP)
	$(BIN)/pytest -n 2

test-slow: $(STAMP)
	$(BIN)/pytest -m slow

bench: $(STAMP)
	$(BIN)/python -m benchmarks run

wheel: $(STAMP)
	$(BIN)/python -m build --no-isolation --outdir dist .

lock: $(STAMP)
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url \
		--no-emit-find-links --python-version 3.11 --group dev --extra notebook pyproject.toml \
		--output-file requirements.lock

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) dist build demo-output .pytest_cache .mypy_cache .ruff_cache .hypothesis
