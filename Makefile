# make demo   the main job on the bundled word vectors
# make test   everything the tests need, and the tests
# make docs   the pages as HTML, in build/docs
# make lint   ruff, mypy, clang-format, the native stub
# make integrations  what the tests of integrations need (LangChain, LlamaIndex, Ray, Faiss, ...), and these tests
# make wheels   a wheel and a source distribution, each tested where nothing else is
# make arm      NEON kernels against the portable ones, under an emulator
# make torture  the hard tests of storage, in full, and their figures; SEED=7 draws other forged indexes
# make lock     constraints.txt anew: the versions that CI tests with
# make symbols sanitize stub
#
# Each creates a virtual environment in .venv and installs what it needs there.

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
# pip takes the versions that are locked, for packages and for what builds them. On a Python that the file is not for, and with
# `make VENV=.venv-newest LOCK= test`, it takes the newest that pyproject.toml allows.
LOCK := $(shell $(PYTHON) tools/lock.py --file)
ifneq ($(LOCK),)
export PIP_CONSTRAINT := $(LOCK)
export PIP_BUILD_CONSTRAINT := $(LOCK)
endif
SOURCES = pyproject.toml CMakeLists.txt $(shell find src cpp -type f -not -name '*.pyc')
CPP = $(wildcard cpp/*/*.cpp cpp/*/*.h cpp/*/*.inl tests/native/*.cpp tests/native/*.h)
SANITIZED = build/sanitized
WORKERS = -n auto --maxprocesses 4
KERNEL_TESTS = tests/test_kernels.py tests/test_clustering.py tests/test_encoder.py tests/test_scorer.py \
               tests/test_scales.py tests/test_loss.py tests/test_extremes.py tests/test_index.py \
               tests/test_codebooks.py::test_everything_judged_in_float32_is_brute_force \
               tests/test_codebooks.py::test_a_guessed_threshold_changes_no_answer \
               tests/test_codebooks.py::test_rows_are_permuted_in_place \
               tests/test_tuning.py::test_hostile_candidates_are_refused \
               tests/test_tuning.py::test_what_is_measured_is_what_searches_find \
               tests/test_checksum.py tests/test_golden.py tests/test_names.py tests/test_corruption.py \
               tests/test_hostile.py
TORTURE_TESTS = tests/test_kills.py tests/test_faults.py tests/test_power_loss.py tests/test_corruption.py \
                tests/test_storage.py tests/test_snapshot.py tests/test_locks.py tests/test_backup.py \
                tests/test_hostile.py tests/test_tables.py
SANITIZERS = PYTHONPATH=$(SANITIZED) ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
    LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libstdc++.so)"
SEED ?= 0
# The sanitizer holds freed memory back to catch its use.
UNSANITIZED = --deselect tests/test_index.py::test_memory_does_not_grow_over_100_000_searches

# The report page is tested in a real browser; where there is none to be had, those tests are skipped.
browser:
	@command -v chromium > /dev/null || sh tools/install_chromium.sh || echo "no Chromium: the report page is not tested"

.PHONY: demo test integrations wheels arm browser docs lint lock symbols sanitized sanitize torture stub format clean

demo: $(VENV)/.package
	$(BIN)/python -m pcpq.cli.demo $(WORDS)

# Workers share the processors: BLAS threads of each would wait for those of the others.
test: $(VENV)/.package $(VENV)/.test browser
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest $(WORKERS) --ignore tests/integrations

# Tests of Ray make clusters, which want the machine for themselves. CI does this last, when everything is installed: then is the
# time to look for a package that is not locked.
RAY_TESTS = $(wildcard tests/integrations/test_ray_*.py)
integrations: $(VENV)/.package $(VENV)/.integrations
	$(if $(LOCK),$(BIN)/python tools/lock.py --check)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest $(WORKERS) tests/integrations $(RAY_TESTS:%=--ignore %)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest $(RAY_TESTS)
	$(BIN)/python -m pytest tests/test_docs.py -k integrations

wheels: $(VENV)/.created
	$(BIN)/python tools/check_wheels.py

arm:
	sh tools/check_arm.sh

lint: $(VENV)/.package $(VENV)/.test $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror $(CPP)
	$(BIN)/python tools/native_stub.py --check
	$(BIN)/python tools/cli_docs.py --check

docs: $(VENV)/.package $(VENV)/.docs
	$(BIN)/python -m sphinx -q -W --keep-going -n -b html docs build/docs

# No inline function of an AVX2 file may end up in a program that runs on an older processor.
symbols: $(VENV)/.package
	$(BIN)/python tools/check_symbols.py build

sanitized: $(VENV)/.test
	rm -rf $(SANITIZED)
	$(BIN)/pip install --quiet --no-deps --target $(SANITIZED) -C cmake.define.PCPQ_SANITIZE=ON \
	    -C build-dir=build/sanitized-objects .

sanitize: sanitized
	$(SANITIZERS) $(BIN)/python -m pytest -p no:cacheprovider $(WORKERS) $(KERNEL_TESTS) $(UNSANITIZED)

# What tests do in a small form, in full: a thousand of each signal, every bit flipped, thousands of power losses, two
# minutes of load on a million vectors (by itself: it keeps to a rate), ten minutes of forged indexes under sanitizers.
torture: sanitized
	PCPQ_TORTURE=1 $(BIN)/python -m pytest $(WORKERS) --dist worksteal --junit-xml build/torture.xml --durations 10 \
	    $(TORTURE_TESTS)
	PCPQ_TORTURE=1 $(BIN)/python -m pytest --junit-xml build/torture-load.xml tests/test_load.py
	$(SANITIZERS) $(BIN)/python tests/fuzz/fuzz_index.py --seconds 600 --seed $(SEED) --figures build/torture.json
	$(BIN)/python tools/torture.py build/torture.json build/torture.xml build/torture-load.xml

lock: $(VENV)/.created
	$(BIN)/python tools/lock.py

stub: $(VENV)/.package $(VENV)/.dev
	$(BIN)/python tools/native_stub.py
	$(BIN)/python tools/cli_docs.py

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CPP)

clean:
	rm -rf $(VENV) build

$(VENV)/.created: $(LOCK)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip setuptools
	touch $@

$(VENV)/.package: $(VENV)/.created $(SOURCES)
	$(BIN)/pip install --quiet ".[cli]"
	touch $@

$(VENV)/.test: $(VENV)/.package pyproject.toml
	$(BIN)/pip install --quiet ".[test]"
	touch $@

$(VENV)/.integrations: $(VENV)/.test pyproject.toml
	$(BIN)/pip install --quiet ".[test-integrations]"
	touch $@

$(VENV)/.docs: $(VENV)/.package pyproject.toml
	$(BIN)/pip install --quiet ".[docs]"
	touch $@

$(VENV)/.dev: $(VENV)/.package pyproject.toml
	$(BIN)/pip install --quiet ".[dev]"
	touch $@
