# Two commands for a fresh machine; each sets up what it needs in .venv.
#   make demo   install the core, cluster a generated data set over ten clients, write demo.png
#   make test   run ruff, mypy, import-linter, the check of sizes, and the tests with doctests
#   make test-real  run the tests of federations, DeepFeCA and pages in a browser
#   make quick  run the tests of algorithms, privacy and tables without the slow ones: a minute
#   make test-long  run the long tests that the others leave out
#   make coverage   run the tests of `make test` and `make test-real`, and say which lines they miss
#   make release-check  build the package, try it in an empty environment, and leave it in dist/
#   make newest     first steps and tests with the newest dependencies, with extras and with none
#   make oldest     the same with the oldest dependencies that pyproject.toml allows
#   make site   build the documentation into build/site, offline; warnings and broken links are errors
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CONSTRAINTS ?= constraints.txt
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check -c $(CONSTRAINTS)

# tests start hundreds of processes, which would compile all modules anew
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-real test-long coverage quick kernels newest oldest lint bench results docs site release-check clean

demo: $(VENV)/.core
	$(BIN)/fedjigsaw demo --out demo.png --force

TESTS := $(BIN)/python -m pytest --dist loadfile --no-loadscope-reorder
REAL := federation or deep or browser

test: $(VENV)/.dev
	$(MAKE) -j 2 lint kernels $(VENV)/.collected
	$(TESTS) -n 2 -m "not long and not ($(REAL))" --durations=20

test-real: kernels
	$(TESTS) -n 4 -m "not long and ($(REAL))" --durations=20  # they mostly wait

coverage: kernels
	$(TESTS) -n 4 -m "not long" --cov --cov-report=term

test-long: $(VENV)/.dev $(VENV)/.docs
	$(BIN)/python -m pytest -m long --durations=0 tests

# What needs neither commands nor whole rounds: algorithms, privacy and the reading of tables.
QUICK := -q -m "not slow and not long and not ($(REAL))" --ignore=tests/kernels/device tests/test_*.py \
  $(foreach part,columns contracts io kernels methods number privacy records robust,tests/$(part))

quick: kernels
	$(BIN)/python -m pytest -n 2 $(QUICK)

# Machine code that each of the processes above would compile.
kernels: $(VENV)/.dev
	$(BIN)/python .ci/kernels.py

# Environments of their own: empty but for the package, and then the tools of the tests, unless
# STEPS_ONLY=1 asks for the first steps of a user alone. What Numba
# compiles is kept there, too: another version would replace that of .venv.
EXTRAS := plots,report,excel,fast,privacy
TOOLS := hypothesis pandas polars pytest pytest-xdist pyyaml scikit-fuzzy dp-accounting websockets
ENVIRONMENTS := build/newest build/bare build/oldest
.PHONY: $(ENVIRONMENTS)
build/newest build/oldest: WITH := [$(EXTRAS)]
build/newest build/oldest: TRIED := $(QUICK)
build/bare: TRIED := $(QUICK) tests/cli
build/oldest: PIP := -c build/oldest.txt
$(ENVIRONMENTS): export NUMBA_CACHE_DIR = $(CURDIR)/$@/numba

newest: build/newest build/bare
oldest: build/oldest

$(ENVIRONMENTS):
	$(PYTHON) -m venv --clear $@
	$(PYTHON) .ci/oldest.py $(EXTRAS) > build/oldest.txt
	$@/bin/pip install --quiet --disable-pip-version-check $(PIP) -e ".$(WITH)"
	$@/bin/pip check
	$@/bin/python .ci/first_steps.py
ifndef STEPS_ONLY
	$@/bin/pip install --quiet --disable-pip-version-check $(PIP) $(TOOLS)
	$@/bin/python -m pytest -n 2 --doctest-ignore-import-errors $(TRIED)
endif

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python .ci/size.py

# Measure speed and memory, as ratios, and replace their rows in results/benchmarks.jsonl.
bench: $(VENV)/.dev
	$(BIN)/python benchmarks/speed.py

# Compute the rows that are missing in results/, and write reproduction/RESULTS.md from all of them.
results: $(VENV)/.reproduction
	$(BIN)/python reproduction/run.py all
	$(BIN)/python reproduction/tables.py

# Draw the pictures of docs/.
docs: $(VENV)/.dev
	$(BIN)/fedjigsaw demo --out docs/roadmap.svg --rows results/demo.jsonl --force
	$(BIN)/python reproduction/figures.py

# Everything that a release needs but the upload: see .ci/release_check.py. Leaves the package in dist/.
# PYTHONS="python3.12 python3.13" tries the wheel with these, too.
release-check: $(VENV)/.release
	$(BIN)/python -m pytest -q tests/repository
	$(BIN)/python .ci/release_check.py $(PYTHONS)

# Build the documentation from docs/, the docstrings and the gallery: start with build/site/index.html.
site: $(VENV)/.docs
	rm -rf build/site
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet -d build/doctrees docs build/site
	$(BIN)/python docs/_ext/check.py build/site

$(VENV)/.python:
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.core: $(VENV)/.python pyproject.toml constraints.txt
	$(INSTALL) -e '.[plots,fast]'
	touch $@

$(VENV)/.dev: $(VENV)/.python pyproject.toml constraints.txt
	$(INSTALL) -e '.[dev,deep,fast,flower]'
	touch $@

# pytest compiles the tests in its own way; in a fresh checkout, each worker would do so
$(VENV)/.collected: $(VENV)/.dev
	-$(BIN)/python -m pytest --collect-only -qq > $(VENV)/collected.txt
	touch $@

$(VENV)/.release: $(VENV)/.dev
	$(INSTALL) -e ".[release]"
	touch $@

$(VENV)/.reproduction: $(VENV)/.python pyproject.toml constraints.txt
	$(INSTALL) -e '.[reproduction]'
	touch $@

$(VENV)/.docs: $(VENV)/.python pyproject.toml constraints.txt
	$(INSTALL) -e '.[docs,fast]'
	touch $@

clean:
	rm -rf $(VENV) build dist docs/api/generated docs/gallery src/*.egg-info .coverage* .mypy_cache .pytest_cache .ruff_cache .hypothesis
