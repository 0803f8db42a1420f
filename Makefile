# Two commands do everything: `make run` starts the agent here, `make test` passes the tests.
# Both set up what is missing first (scripts/setup.sh).

STALLWATCH = .venv/bin/stallwatch
PYTEST = .venv/bin/python -m pytest
# A machine whose Python is started with PYTHONPATH or PYTHONHOME set must not leak into the venv.
unexport PYTHONPATH PYTHONHOME

.PHONY: run test check e2e odd-one-out kills test-kernels soak endurance cuda-minute gpu-bundle gpu-check overhead \
  bench-account bench-baselines bench-traps bench-counts bench-agent \
	bench-anomaly bench-peers bench-delivery demo venv venv-dev venv-e2e venv-kernels clean

run: venv
	@$(STALLWATCH) run $(ARGS)

demo: venv
	@$(STALLWATCH) demo $(ARGS)

test: venv-dev
	@$(PYTEST) tests --ignore=tests/e2e $(ARGS)

check: venv-dev
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/mypy
	@.venv/bin/lint-imports
	@.venv/bin/python scripts/check_docs.py

# As root a test that skips has failed: this is where the real thing is tried.
e2e: venv-e2e
	@[ "$$(id -u)" -ne 0 ] || export STALLWATCH_STRICT=1; $(PYTEST) tests/e2e $(ARGS)

# Four ranks, clean for ten minutes, then one of them odd: on a calm machine, half an hour.
odd-one-out: venv-e2e
	@STALLWATCH_CLEAN_SECONDS=600 $(PYTEST) -s tests/e2e/test_odd_one_out.py $(ARGS)

# 200 times kill -9 at random instants, under load: three minutes.
kills: venv-dev
	@STALLWATCH_KILLS=200 $(PYTEST) -s --timeout 1800 tests/notifiers/kills $(ARGS)

# The shipped pack itself, durations undivided: about half an hour.
soak: venv-e2e
	@STALLWATCH_SOAK=1 $(PYTEST) tests/e2e/test_first_light.py $(ARGS)

# Every test marked each_kernel, on Debian's 5.10, 6.1 and 6.12 in emulation: five to ten
# minutes of a core for each, side by side.
# ARGS="--kernel 5.10 tests/probes/process/test_process.py" narrows it; ARGS=--write keeps what was
# run in the table of probes/README.md.
test-kernels: venv-kernels
	@.venv/bin/python -m tests.kernels $(ARGS)

# What the agent costs a real training job, beside an A/A run: about twenty minutes.
overhead: venv-e2e
	@.venv/bin/python -m bench.overhead $(ARGS)

# The same by the kernel's own count of what the probes did to the job: about three minutes.
bench-account: venv-e2e
	@.venv/bin/python -m bench.account $(ARGS)

# Every probe and jobs for each, for an hour: is anything lost, does memory grow?
endurance: venv-e2e
	@.venv/bin/python -m bench.endurance $(ARGS)

# 20,000 launches a second for a minute, exactly and within a budget: about three minutes, as root.
cuda-minute: venv-dev
	@STALLWATCH_CUDA_SECONDS=60 STALLWATCH_STRICT=1 $(PYTEST) tests/e2e/test_cuda_load.py $(ARGS)

# What the probes say on an NVIDIA GPU, beside what the job and CUPTI say: under five minutes, as root.
gpu-check:
	@sh tests/gpu/check.sh $(ARGS)

# What `make gpu-check` needs on a machine without a network; TORCH=yes adds PyTorch, several GB.
gpu-bundle:
	@sh tests/gpu/bundle.sh $(ARGS)

# A function called 20,000 times a second, watched by us and by others: about twenty-five minutes.
bench-traps: venv
	@.venv/bin/python -m bench.traps $(ARGS)

# Whether scaled counts lie within their bound, twenty runs: about twelve minutes.
bench-counts: venv
	@.venv/bin/python -m bench.traps.counts $(ARGS)

# What the agent takes with 64 processes watched, beside its peers: about four minutes.
bench-agent: venv
	@.venv/bin/python -m bench.agent $(ARGS)

# The same rules over the same data here, in Prometheus and in VictoriaMetrics: about an hour.
bench-peers: venv
	@.venv/bin/python -m bench.peers $(ARGS)

# A week of 1,000 series dry-run with anomaly_score and without: a few minutes of two cores.
bench-baselines: venv
	@.venv/bin/python -m bench.baselines $(ARGS)

# The same alerts through our delivery and a real Alertmanager, message by message: ten minutes.
bench-delivery: venv
	@.venv/bin/python -m bench.delivery $(ARGS)

# The anomaly model on labelled series that others made, beside other detectors: about five minutes.
# $STALLWATCH_SHARED is where they are; river (Python 3.11 or newer) is a peer where it can be had.
bench-anomaly: venv-dev
	@.venv/bin/python -c 'import river' 2>/dev/null || .venv/bin/python -m pip install -q 'river>=0.26' || true
	@.venv/bin/python -m bench.anomaly $(ARGS)

venv:
	@sh scripts/setup.sh

venv-dev:
	@sh scripts/setup.sh --dev

venv-kernels:
	@sh scripts/setup.sh --dev --kernels

venv-e2e:
	@sh scripts/setup.sh --dev --torch

clean:
	rm -rf .venv dist build
