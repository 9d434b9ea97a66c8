# make run             set up the environment if need be, then run the grid-lines workflow
# make run ARGS="…"    the same with overrides, e.g. ARGS="probe=zone_plate set_phi=true"
# make test            set up the environment with the development tools, then run the tests
# make lite            .venv-lite: runs exported networks, has no TensorFlow (RUNTIME=onnxruntime: runs .onnx)
# make docs            the pages and the reference as a site, site/index.html
# make lint            ruff, mypy, and the contract of who may import whom
# make clean           remove the environments and the site

VENV ?= .venv
LITE_VENV ?= .venv-lite
RUNTIME ?= ai-edge-litert
ARGS ?=
PYTEST_ARGS ?=
PIP_FLAGS ?= --quiet --disable-pip-version-check
PARTS := extras/report extras/live extras/export[onnx,lite] extras/images extras/pretrain extras/tune extras/lsqml
IN_VENV := $(VENV)/bin/python
# Without bytecode every new process compiles TensorFlow's modules again: 14 s instead of 4.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: run test lite lint docs clean
.DEFAULT_GOAL := help

help:
	@sed -n 's/^# //p' Makefile

run: $(VENV)/.installed
	$(IN_VENV) scripts/grid_lines_workflow.py $(ARGS)

test: $(VENV)/.installed-dev
	$(IN_VENV) -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

lint: $(VENV)/.installed-dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

docs: $(VENV)/.installed-dev
	$(IN_VENV) -m mkdocs build --strict --quiet

lite:
	$(MAKE) --no-print-directory VENV=$(LITE_VENV) $(LITE_VENV)/bin/python
	$(LITE_VENV)/bin/python -m pip install $(PIP_FLAGS) --constraint constraints.txt --requirement requirements-lite.txt $(RUNTIME)
	$(LITE_VENV)/bin/python -m pip install $(PIP_FLAGS) --no-deps --editable . --editable extras/export

clean:
	rm -rf $(VENV) $(LITE_VENV) site

# The first Python on the PATH that is 3.11 to 3.13 and can make environments; PYTHON=… overrides.
$(IN_VENV):
	@for python in $(PYTHON) python3.11 python3.12 python3.13 python3 python; do \
	  if $$python -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' \
	    2>/dev/null; then \
	    echo "creating $(VENV) with $$($$python --version)"; \
	    $$python -m venv $(VENV) && exit 0 || exit 1; \
	  fi; \
	done; \
	echo "No suitable Python found. Needed: Python 3.11, 3.12 or 3.13 with the modules venv and ensurepip" >&2; \
	echo "(on Debian and Ubuntu: apt install python3 python3-venv). Or name one: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11" >&2; \
	exit 1

$(VENV)/.installed: pyproject.toml constraints.txt extras/report/pyproject.toml | $(IN_VENV)
	@echo "installing the pinned packages (about a minute)"
	$(IN_VENV) -m pip install $(PIP_FLAGS) --constraint constraints.txt --editable . --editable extras/report
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt $(wildcard extras/*/pyproject.toml) | $(IN_VENV)
	@echo "installing the pinned packages and the development tools (about a minute)"
	$(IN_VENV) -m pip install $(PIP_FLAGS) --constraint constraints.txt --editable ".[dev]" $(PARTS:%=--editable %)
	@touch $(VENV)/.installed $@
