# Two commands to know: `make demo` shows what truerank does, `make test` runs every gate.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help demo test quick fuzz pythons package check bench coverage docs gallery papers picture rivals clean

help:
	@echo "make demo   evaluate five recommenders on the embedded demo data: a table and demo/report.html"
	@echo "make test   format, lint, types, import directions, doctests and tests, on all cores"
	@echo "make quick  the daily loop: without papers, docs, clusters, slow and statistical tests"
	@echo "make fuzz   46,500 hostile inputs of every kind, counted (make fuzz SEED=1; inputs of bad ones go to fuzz/)"
	@echo "make pythons  the daily loop under Python 3.12 and 3.13 (make test-3.12), without torch"
	@echo "make package  build wheel and source archive into dist/, check and try them"
	@echo "make docs   build the documentation site into site/; warnings are errors"
	@echo "make bench  print the speed tables (minutes; results under benchmarks/results)"
	@echo "make coverage  how often intervals hold the exact value (hours; can be resumed)"
	@echo "make papers every table and figure of the papers (hours; can be resumed)"
	@echo "make gallery  every recipe in full (hours), then the record, docs/gallery.md and the table of docs/papers.md"
	@echo "make rivals   other libraries on the same job (downloads them into environments of their own)"
	@echo "make clean  remove the virtual environment and caches"

demo: $(VENV)/.run
	@mkdir -p demo
	$(BIN)/truerank evaluate demo --split leave-last-out \
	  --model popularity --model item-knn --model ease --model ials --model 'ials(factors=64)' \
	  --metrics ndcg@10,recall@10,ap,auc --out demo/result.json --report demo/report.html

picture: demo
	$(BIN)/python scripts/readme_picture.py

# tests of one file stay in one process, because they share what their fixtures fit; a process that crashes ends
# the run, because a new one in its place may never be given the tests that are left
PYTEST := pytest --numprocesses auto --dist loadfile --max-worker-restart 0

test: check
	$(BIN)/$(PYTEST)

quick: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/$(PYTEST) -m 'not (cluster or slow or stat or data)' \
	  --ignore tests/papers --ignore tests/docs --ignore tests/distributed

# bounded: about half an hour on one core; make fuzz SEED=7 ATTACK=options runs other cases, of one class
fuzz: $(VENV)/.test
	$(BIN)/python -m tests.fuzz --seed $(or $(SEED),0) --only "$(ATTACK)"

# make test-3.12: the daily loop under another Python, in an environment of its own, without torch
pythons: test-3.12 test-3.13


.PRECIOUS: .venv-3.%/.python
test-3.%: .venv-3.%/.python
	.venv-3.$*/bin/python -m $(PYTEST) -m 'not (cluster or slow or stat or data)' \
	  --ignore tests/papers --ignore tests/docs --ignore tests/distributed --ignore tests/benchmarks

.venv-3.%/.python: pyproject.toml constraints.txt
	test -d .venv-3.$* || $$(ls ~/.pyenv/versions/3.$*.*/bin/python 2>/dev/null | tail -1 | grep . || echo python3.$*) -m venv .venv-3.$*
	.venv-3.$*/bin/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	.venv-3.$*/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e . --group python
	@touch $@

# wheel and source archive, checked as the package index would, installed and run in an environment of their own
package: $(BIN)/python
	rm -rf dist .venv-package
	$(PYTHON) -m venv .venv-package
	.venv-package/bin/python -m pip install --quiet --disable-pip-version-check build twine
	.venv-package/bin/python -m build --outdir dist .
	.venv-package/bin/python -m twine check --strict dist/*
	.venv-package/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl
	cd dist && ../.venv-package/bin/truerank evaluate demo --model popularity --metrics ndcg@10 --report report.html

check: $(VENV)/.test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# site/index.html opens from disk, without a network
docs: $(VENV)/.docs
	$(BIN)/python scripts/decision_figure.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks.exact_ranks
	$(BIN)/python -m benchmarks.read_interactions
	$(BIN)/python -m benchmarks.fit_models
	$(BIN)/python -m benchmarks.sampled_ranks
	$(BIN)/python -m benchmarks.corrections
	$(BIN)/python -m benchmarks.estimators
	$(BIN)/python -m benchmarks.adaptive_ranks
	$(BIN)/python -m benchmarks.linear_adaptive
	$(BIN)/python -m benchmarks.neural_models
	$(BIN)/python -m benchmarks.subsample
	$(BIN)/python -m benchmarks.subsample_proxy
	$(BIN)/python -m benchmarks.subsample_seeds
	$(BIN)/python -m benchmarks.bounds
	$(BIN)/python -m benchmarks.uncertainty
	$(BIN)/python -m benchmarks.precision
	$(BIN)/python -m benchmarks.agreement
	$(BIN)/python -m benchmarks.engines

# hours: 500 repetitions on three data sets; finished pieces are kept and a second call goes on from there
coverage: $(VENV)/.bench
	$(BIN)/python -m benchmarks.coverage --keep coverage
	$(BIN)/python -m benchmarks.hidden_items --keep coverage

# hours: quick runs are no reference
gallery: $(VENV)/.test
	mkdir -p papers
	$(BIN)/truerank paper run all --keep papers/kept
	$(BIN)/python scripts/gallery.py papers/kept

rivals: $(VENV)/.bench
	$(BIN)/python -m benchmarks.rivals

# hours: every recipe, finished pieces are kept and a second call goes on from there
papers: $(VENV)/.test
	mkdir -p papers
	$(BIN)/truerank paper run all --out papers

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "truerank needs Python 3.11 or newer: make PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'

$(VENV)/.run: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(VENV)/.test: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[data]' --group test
	@touch $@ $(VENV)/.run

$(VENV)/.docs: $(VENV)/.run
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --group docs
	@touch $@

$(VENV)/.bench: $(VENV)/.test
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --group bench
	@touch $@

clean:
	rm -rf $(VENV) .venv-* dist .mypy_cache .pytest_cache .ruff_cache .hypothesis demo site fuzz
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
