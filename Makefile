# Two commands do everything: `make probe` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
# One worker a core, one thread each: torch with more threads than free cores is many times slower.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile

.PHONY: install probe preview test test-fast check bench format clean

install: .venv/installed

.venv/installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

probe: install
	$(BIN)/hatlens models pull smollm2-135m
	$(BIN)/hatlens probe smollm2-135m --preset main --out runs/main
	@echo "open runs/main/report.html"

preview: install
	$(BIN)/hatlens models pull smollm2-135m
	$(BIN)/hatlens probe smollm2-135m --preset main --preview --out runs/preview
	@echo "open runs/preview/report.html"

test: install
	$(BIN)/hatlens models pull smollm2-135m
	$(PYTEST)

test-fast: install
	$(PYTEST) -m "not model"

check: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: install
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	$(BIN)/hatlens models pull smollm2-135m
	$(BIN)/python benchmarks/capture.py --json
	$(BIN)/python benchmarks/similarity.py --json

format: install
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache
