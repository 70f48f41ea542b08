# Two commands for a fresh machine; each does all of its own set-up in .venv.
#   make demo   the core: cluster a generated data set over ten clients, write demo.png
#   make test   ruff, mypy, import-linter, pytest with doctests and coverage
#   make quick  the tests that are neither slow nor of the federation nor of DeepFeCA: under two minutes
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test quick lint bench results docs clean

demo: $(VENV)/.core
	$(BIN)/fedjigsaw demo --out demo.png --force

test: lint
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --cov --cov-report=term

quick: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 -q -m "not slow and not federation and not deep"

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

# speed and memory, as ratios; their rows in results/benchmarks.jsonl are made anew
bench: $(VENV)/.dev
	$(BIN)/python benchmarks/run.py

# the rows behind README and docs: all tables of the paper, and FeCA on S1 to S4 with 100 seeds; finished cells are kept
results: $(VENV)/.dev
	mkdir -p results/ssets
	for set in s1 s2 s3 s4; do for split in "iid" "dirichlet --alpha 0.3" "dirichlet --alpha 0.1"; do \
	  $(BIN)/fedjigsaw simulate --dataset $$set --split $$split --method feca -k 15 --runs 100 \
	    --rows "results/ssets/$$set-$$(echo $$split | tr -d ' -' | sed s/alpha//).jsonl" --force || exit 1; \
	done; done
	FEDJIGSAW_BACKEND=sklearn $(BIN)/fedjigsaw simulate --dataset s1 --split dirichlet --alpha 0.3 --method feca -k 15 \
	  --runs 100 --rows results/ssets/s1-dirichlet0.3-sklearn.jsonl --force
	$(BIN)/fedjigsaw demo --out docs/roadmap.svg --rows results/demo.jsonl --force
	$(BIN)/fedjigsaw reproduce all

# README.md and docs/reproduction.md with their pictures, from the rows in results/ alone
docs: $(VENV)/.dev
	$(BIN)/python -m fedjigsaw.bench.pages

$(VENV)/.python:
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.core: $(VENV)/.python pyproject.toml constraints.txt
	$(INSTALL) -e '.[plots,fast]'
	touch $@

$(VENV)/.dev: $(VENV)/.python pyproject.toml constraints.txt
	$(INSTALL) -e '.[dev,fast,flower,onnx]'
	touch $@

clean:
	rm -rf $(VENV) build dist src/*.egg-info .coverage* .mypy_cache .pytest_cache .ruff_cache .hypothesis
