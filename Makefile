# Everything here sets itself up; VENV= (empty) uses the current python3 and installs nothing.
VENV ?= .venv
ARGS ?=

ifeq ($(strip $(VENV)),)
PYTHON := python3
READY :=
else
PYTHON := $(VENV)/bin/python
READY := $(VENV)/.ready
endif

comma := ,
# Without nvcc on PATH, in CUDA_HOME or in /usr/local/cuda, its wheels are installed too.
HAVE_NVCC := $(or $(shell command -v nvcc),$(wildcard $(CUDA_HOME)/bin/nvcc),$(wildcard /usr/local/cuda/bin/nvcc))
EXTRAS := test$(if $(HAVE_NVCC),,$(if $(filter Linux,$(shell uname -s)),$(comma)nvcc))

.PHONY: help sweep show seed doctor readme test check
.DEFAULT_GOAL := help

help:
	@echo "make sweep   race every contender and record it   ARGS='linear_seed --only triton'"
	@echo "make show    the newest run's winners             ARGS='--columns m,n,k,contender,us'"
	@echo "make seed    what each step from nn.Linear to a fused MLP changes, guessed and checked"
	@echo "make test    the tests"
	@echo "make check   the linter and the tests"
	@echo "make readme  put the committed run's winners into README.md"
	@echo "make doctor  what this machine can run, and what to install for the rest"

sweep: $(READY)
	$(PYTHON) -m lab sweep $(ARGS)

show: $(READY)
	$(PYTHON) -m lab show $(ARGS)

seed: $(READY)
	$(PYTHON) -m lab guess seed_table --table --allow-surprises $(ARGS)

doctor: $(READY)
	$(PYTHON) -m lab doctor

readme: $(READY)
	$(PYTHON) -m lab show results/reference/nvidia-h200 --into README.md

test: $(READY)
	$(PYTHON) -m pytest $(ARGS)

check: $(READY)
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m pytest $(ARGS)

$(VENV)/.ready: pyproject.toml constraints.txt
	python3 -c 'import sys; sys.exit(sys.version_info < (3, 11) and "python3 is older than 3.11")'
	python3 -m venv $(VENV)
	$(PYTHON) -m pip install --quiet --constraint constraints.txt --editable '.[$(EXTRAS)]'
	touch $@
