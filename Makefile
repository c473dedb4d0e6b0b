# make demo   the main job on the bundled word vectors
# make test   everything the tests need, and the tests
# make docs   the pages as HTML, in build/docs
# make lint   ruff, mypy, clang-format, includes of C++, the native stub, workflows
# make coverage  which lines of Python and C++ the tests run
# make integrations  what the tests of integrations need (LangChain, LlamaIndex, Ray, Faiss, ...), and these tests
# make wheels   a wheel and a source distribution, each tested where nothing else is
# make arm      NEON kernels against the portable ones, under an emulator
# make torture  the hard tests of storage, in full, and their figures; SEED=7 draws other forged indexes
# make lock     constraints.txt anew: the versions that CI tests with
# make symbols sanitize golden stub
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
SOURCES = pyproject.toml CMakeLists.txt $(shell find src cpp cmake -type f -not -name '*.pyc')
EXTRAS = test test-integrations coverage docs dev
CPP = $(shell find cpp tests/native -name '*.cpp' -o -name '*.h')
SANITIZED = build/sanitized
COVERED = build/covered
WORKERS = -n auto --maxprocesses 4
# pyproject.toml says what the markers of tests mean.
TESTS = $(BIN)/python -m pytest --ignore tests/integrations
SANITIZERS = PYTHONPATH=$(SANITIZED) ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
    LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libstdc++.so)"
SEED ?= 0
# The pages of `pcpq report` and `pcpq explore` are tested in a real browser; where there is none to be had, those tests are skipped.
browser:
	@command -v chromium > /dev/null || sh tools/install_chromium.sh || echo "no Chromium: the pages of report and explore are not tested"

.PHONY: demo test golden coverage integrations wheels arm browser docs lint lock symbols sanitized sanitize torture stub format clean

demo: $(VENV)/.package
	$(BIN)/python -m pcpq.cli.demo $(WORDS)

test: $(VENV)/.package $(VENV)/.test browser
	$(TESTS) $(WORKERS)

# Tests of Ray make clusters, which want the machine for themselves. CI does this last, when everything is installed: then is the
# time to look for a package that is not locked.
integrations: $(VENV)/.test $(VENV)/.test-integrations
	$(if $(LOCK),$(BIN)/python tools/lock.py --check)
	$(BIN)/python -m pytest $(WORKERS) -m "not ray" tests/integrations
	$(BIN)/python -m pytest -m ray tests/integrations
	$(TESTS) -m integrations

wheels: $(VENV)/.created
	$(BIN)/python tools/check_wheels.py

arm:
	sh tools/check_arm.sh

# The checks of .pre-commit-config.yaml, without git: a source distribution can be checked too.
WORKFLOWS = $(wildcard .github/workflows/*.yml)
FORMS = $(filter-out %/config.yml,$(wildcard .github/ISSUE_TEMPLATE/*.yml))
lint: $(VENV)/.package $(VENV)/.test $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror $(CPP)
	$(BIN)/python tools/check_includes.py
	$(BIN)/python tools/native_stub.py --check
	$(BIN)/python tools/cli_docs.py --check
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows $(WORKFLOWS)
	$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-forms $(FORMS)
	$(BIN)/check-jsonschema --builtin-schema vendor.citation-file-format CITATION.cff
	$(BIN)/zizmor --offline --quiet $(WORKFLOWS)
	$(BIN)/python tools/actionlint.py $(WORKFLOWS)

docs: $(VENV)/.package $(VENV)/.docs
	$(BIN)/python -m sphinx -q -W --keep-going -n -b html docs build/docs

golden: $(VENV)/.package $(VENV)/.test
	$(TESTS) -m golden

# No inline function of an AVX2 file may end up in a program that runs on an older processor.
symbols: $(VENV)/.package
	$(BIN)/python tools/check_symbols.py build

sanitized: $(VENV)/.test
	rm -rf $(SANITIZED)
	$(BIN)/pip install --quiet --no-deps --target $(SANITIZED) -C cmake.define.PCPQ_SANITIZE=ON \
	    -C build-dir=build/sanitized-objects .

sanitize: sanitized
	$(SANITIZERS) $(TESTS) -p no:cacheprovider $(WORKERS) -m "kernels and not unsanitized"

# Pages of every line in build/coverage, and a summary in benchmarks/results. Integrations and clusters are left out.
coverage: $(VENV)/.test $(VENV)/.coverage browser
	rm -rf $(COVERED) build/coverage
	mkdir -p build/coverage/cpp
	$(BIN)/pip install --quiet --no-deps --target $(COVERED) -C cmake.define.PCPQ_COVERAGE=ON \
	    -C build-dir=build/covered-objects .
	find build/covered-objects -name '*.gcda' -delete
	PYTHONPATH=$(COVERED) $(TESTS) -p no:cacheprovider $(WORKERS) -m "not unsanitized" \
	    --cov --cov-report html:build/coverage/python --cov-report json:build/coverage/python.json
	$(BIN)/gcovr --root . --filter cpp/ --gcov-ignore-parse-errors all build/covered-objects \
	    --html-details build/coverage/cpp/index.html \
	    --json-summary build/coverage/cpp.json
	$(BIN)/python tools/coverage_summary.py build/coverage/python.json build/coverage/cpp.json

# What tests do in a small form, in full: a thousand of each signal, every bit flipped, thousands of power losses, two
# minutes of load on a million vectors (by itself: it keeps to a rate), ten minutes of forged indexes under sanitizers.
torture: sanitized
	PCPQ_TORTURE=1 $(TESTS) $(WORKERS) -m torture --dist worksteal --junit-xml build/torture.xml --durations 10
	PCPQ_TORTURE=1 $(TESTS) -m load --junit-xml build/torture-load.xml
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
	$(BIN)/pip install --quiet --no-compile --upgrade pip
	touch $@

$(VENV)/.package: $(VENV)/.created $(SOURCES)
	@echo "Installing pcpq. The first time, this compiles its native core, which takes about half a minute; later, what has changed."
	$(BIN)/pip install --quiet --no-compile ".[cli]"
	touch $@

# pcpq is already installed here: pip adds the packages of the extra and builds nothing.
$(EXTRAS:%=$(VENV)/.%): $(VENV)/.%: $(VENV)/.package
	$(BIN)/pip install --quiet "pcpq[$*]"
	touch $@
