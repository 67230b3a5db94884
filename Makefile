# make book | make test | make serve set up .venv by themselves; make clean removes what was made. See CONTRIBUTING.md.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
N ?=
JOBS ?= 2
THREADS ?= 1
SEEDS ?= 10
export PYTHONDONTWRITEBYTECODE = 1
export OMP_NUM_THREADS = $(THREADS)
export PYDEVD_DISABLE_FILE_VALIDATION = 1

.PHONY: help help-all execute book pages test test-fast chapter alone mutants faults replicate serve pdf epub export text notebook \
	address wheel check ci clean

help:
	@echo "make book            execute what changed and build the book"
	@echo "make serve           look at the book on http://localhost:8000"
	@echo "make chapter N=03    execute one chapter"
	@echo "make text N=03       a chapter as text, to edit"
	@echo "make notebook N=03   take that text back"
	@echo "make export          chapters to package"
	@echo "make check           seconds: style, imports, types, notebooks, budgets, words"
	@echo "make test-fast       under a minute on two cores: no browser, no process, no test over three seconds"
	@echo "make test            the book, every chapter, every test"
	@echo "make clean           remove what was made (ALL=1: also the environment and all of .run: edited chapters, runs of hours)"
	@echo "make help-all        the other targets"

help-all: help
	@echo
	@echo "make pdf             the built book on A4: _build/paper/the-literate-transformer.pdf; wants Chromium"
	@echo "make epub            the built book for an e-reader, beside it"
	@echo "make wheel           both wheels and mixture-fr.zip, in a new dist/"
	@echo "make alone           each chapter as Colab runs it: an empty folder, the notebook, the wheel; 1 GB, and the time of all chapters"
	@echo "make ci              what the README says, on a clean checkout: make clean, then make test"
	@echo "make faults          plant faults in the package and see the tests find them"
	@echo "make mutants N=03    try to break one chapter's exported cells unnoticed"
	@echo "make replicate N=13  a chapter again with other seeds, instruction sets and threads: do its claims hold? SEEDS=10"
	@echo "make address URL=... set the repository's address everywhere"
	@echo "JOBS=1 THREADS=2 with book, execute and test: how many at a time, and how many threads each"

$(VENV)/ready: requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "The book is built with Python 3.11 or newer: make book PYTHON=python3.11")'
	@echo "setting up $(VENV): about 1.5 GB, some minutes"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --progress-bar on -r requirements.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps -e .
	@touch $@

execute: $(VENV)/ready
	$(BIN)/python tools/execute.py --jobs $(JOBS) --threads $(THREADS)

book: execute
	@$(MAKE) --no-print-directory pages

pages:  # of the chapters as they were executed
	@$(BIN)/python tools/build.py

pdf epub: $(VENV)/ready
	@test -f _build/html/index.html || $(MAKE) book
	@$(BIN)/python tools/$@.py

check: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/python -m mypy
	$(BIN)/python -m pytest tests/test_book.py tests/test_budget.py tests/test_terms.py

ci: clean test
	@test -z "$$(git status --porcelain)" || { git status --short; echo "the build has changed the working tree: it must not"; exit 1; }

test: execute
	@$(MAKE) --no-print-directory -j$(JOBS) check pages
	$(BIN)/python -m pytest tests -n $(JOBS) --dist worksteal

test-fast: $(VENV)/ready
	$(BIN)/python -m pytest tests -n $(JOBS) --dist worksteal --fast

chapter: $(VENV)/ready
	$(BIN)/python tools/execute.py --all $(N)

mutants: $(VENV)/ready
	$(BIN)/python tests/mutants.py $(N)

faults: $(VENV)/ready
	$(BIN)/python tests/faults.py

replicate: $(VENV)/ready
	$(BIN)/python tools/replicate.py $(SEEDS) $(JOBS) $(N)

alone: $(VENV)/ready
	$(BIN)/python tools/alone.py $(N)

serve: $(VENV)/ready
	@test -f _build/html/index.html || $(MAKE) book
	$(BIN)/python -m http.server 8000 --bind 127.0.0.1 --directory _build/html

export: $(VENV)/ready
	$(BIN)/python tools/export.py

text: $(VENV)/ready
	@$(BIN)/python tools/text.py out $(N)

notebook: $(VENV)/ready
	@$(BIN)/python tools/text.py in $(N)

address: $(VENV)/ready
	@$(BIN)/python tools/address.py $(URL)
	@$(BIN)/python tools/export.py

wheel: $(VENV)/ready
	@$(BIN)/python -c 'import sys; sys.path.insert(0, "tools"); import build; print(build.make_wheel(build.ROOT / "dist"))'

clean:
	rm -rf .run/out .run/work .run/site .run/look _build dist $(if $(ALL),.run)
	$(if $(ALL),test ! -e "$(VENV)/ready" || rm -rf "$(VENV)")
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
