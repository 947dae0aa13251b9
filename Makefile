# Two commands: `make compare` and `make test`. Both create .venv and install when needed.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# Where it is set (as in many images), every worker rewrites all tests and every command compiles all sources again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: compare studio test bench fuzz lint clean

compare: $(READY)
	$(BIN)/seqloom compare $(ARGS)

studio: $(READY)
	$(BIN)/seqloom studio $(ARGS)

test: $(READY)
	$(BIN)/python -m pytest -n auto --dist worksteal $(ARGS)

bench: $(READY)
	$(BIN)/python -m benchmarks $(ARGS)

fuzz: $(READY)
	$(BIN)/python -m tests.fuzz $(ARGS)

lint: $(READY)
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/ruff format --check --quiet src tests benchmarks
	$(BIN)/mypy

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "seqloom needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --only-binary :all: -c constraints.txt --editable '.[dev]'
	@touch $(READY)

clean:
	rm -rf $(VENV) build *.egg-info src/*.egg-info .pytest_cache .hypothesis .mypy_cache .ruff_cache
