# Two commands do all the set-up on a machine with only make and Python 3.11, 3.12 or 3.13
# (PYTHON=python3.12 picks one):
#   make demo   runs flash attention through every form and prints a short report
#   make test   runs every test: lit + filecheck, pytest, ruff, pyright
# EXTRAS=dev,aot (as in CI) also installs JAX and the TPU compiler, and with them the tests they serve.

PYTHON ?= python3
VENV ?= .venv
EXTRAS ?= dev
BIN = $(VENV)/bin
# Recursive makes and tools must find the environment's own console scripts.
RUN = PATH="$(abspath $(BIN)):$$PATH" OPENBLAS_NUM_THREADS=1

.PHONY: demo test lit pytest ruff pyright pyright-core pyright-jax clean

$(VENV)/base.stamp: pyproject.toml
	@$(PYTHON) -c 'import sys; v = "%d.%d" % sys.version_info[:2]; sys.version_info >= (3, 11) or \
	  sys.exit("expected Python 3.11 or newer, $(PYTHON) is %s: make PYTHON=python3.12 ..." % v)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/$(EXTRAS).stamp: $(VENV)/base.stamp
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[$(EXTRAS)]"
	touch $@

demo: $(VENV)/base.stamp
	$(RUN) $(BIN)/python examples/flash_attention.py

# Pyright takes one core, and lit fills the others meanwhile.
test: ruff
	$(MAKE) --jobs=2 pyright lit
	$(MAKE) pytest

ruff: $(VENV)/$(EXTRAS).stamp
	$(RUN) ruff check .
	$(RUN) ruff format --quiet --check .

pyright: pyright-core pyright-jax

pyright-core: $(VENV)/$(EXTRAS).stamp
	$(RUN) pyright --pythonpath $(BIN)/python

pyright-jax: $(VENV)/$(EXTRAS).stamp
	@if $(BIN)/python -c 'import jax' 2>/dev/null; then \
	  $(RUN) pyright --pythonpath $(BIN)/python -p pyrightconfig.jax.json; fi

lit: $(VENV)/$(EXTRAS).stamp
	$(RUN) lit -q test

pytest: $(VENV)/$(EXTRAS).stamp
	$(RUN) pytest -q -n auto

clean:
	rm -rf $(VENV)
