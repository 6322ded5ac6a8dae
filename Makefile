# The work is in scripts/develop.py; ARGS goes to the program that a target runs.
#   make lab ARGS="--port 9999"     make pytest ARGS="tests/state -x"

candidates := python3 python3.14 python3.13 python3.12 python3.11 python3.10 python
is_new_enough = $(shell $(1) -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null && echo $(1))
PYTHON ?= $(or $(firstword $(foreach python,$(candidates),$(call is_new_enough,$(python)))),python3)

.PHONY: help lab test setup lint types pytest jest ui soak bench clean

help:
	@$(PYTHON) -m scripts.develop --help

develop = @$(PYTHON) -m scripts.develop $@ $(ARGS)

# JupyterLab on the example notebook, with the extension, in an environment of its own.
lab:
	$(develop)

# All that checks the project.
test:
	$(develop)

setup lint types pytest jest ui soak bench clean:
	$(develop)
