# A recipe for every habit. Each one calls ./nearfar, which needs nothing but git and Python.

# List the recipes.
default:
    @"{{just_executable()}}" --list --unsorted

# Make the command line's environment, and check the machine.
setup:
    ./nearfar doctor

# Start the whole stack on this machine: `just up --ask "Why is the sky blue?"`.
up *arguments:
    ./nearfar up {{arguments}}

# Run everything that continuous integration runs; arguments go to pytest.
test *arguments:
    ./nearfar test -- {{arguments}}

# Check format, lint and types, without the tests.
check:
    ./nearfar test --only format --only lint --only types

# Put the code into the form that `check` asks for.
format:
    NEARFAR_GROUP=dev ./nearfar --version
    .nearfar/env-dev/bin/ruff format
    .nearfar/env-dev/bin/ruff check --fix

# Build the edge component if its source changed.
build-edge host="wasmtime":
    ./nearfar build --host {{host}}

# Measure the edge beside what it could be replaced with; `--help` lists the arguments.
bench-edge *arguments:
    NEARFAR_GROUP=dev ./nearfar --version >&2
    PYTHONPATH=edge-frontend:gpu-backend:operator-cli .nearfar/env-dev/bin/python -m tests.bench.edge {{arguments}}

# Measure the load generator of `nearfar bench` itself: its own error against its rate.
bench-self *arguments: dev
    {{dev_python}} -m tests.bench.generator {{arguments}}

# Measure nearfar beside direct calls, vllm-router and LiteLLM, and with --generators its load generator.
bench-peers *arguments: dev
    {{dev_python}} -m tests.bench.peers {{arguments}}

# Check every kind of fault that people met in products like this one: `just faults --kind 6`.
faults *arguments: dev
    {{dev_python}} -m tests.faults {{arguments}}

# Send malformed requests to the edge by the thousand, then ask it by its own description.
fuzz *arguments: dev
    {{dev_python}} -m tests.fuzz {{arguments}}
    NEARFAR_EXAMPLES=300 {{dev_python}} -m pytest -q tests/stack/test_description.py

# Try to tell by timing what another tenant asked: `just tenancy --pairs 1000`.
tenancy *arguments: dev
    {{dev_python}} -m tests.tenancy {{arguments}}

# Measure goodput with and without admission, up to three times an engine's capacity.
overload *arguments: dev
    {{dev_python}} -m tests.bench.overload {{arguments}}

# Send mixed requests while Redis and the upstream fail, then compare the books.
soak *arguments: dev
    {{dev_python}} -m tests.soak {{arguments}}

# Put delays into the real stack, and see whether the comparison finds where: `--runs 100`.
attribution *arguments: dev
    {{dev_python}} -m tests.attribution {{arguments}}

# Simulate runs of known difference: does the 95% interval cover, is nothing falsely called slower?
coverage *arguments: dev
    {{dev_python}} -m tests.simulation.pairs {{arguments}}

# Measure three placements with real network delay: a user 10, 80 and 200 ms from the GPU.
distance *arguments: dev
    {{dev_python}} -m distance {{arguments}}

# Print what a model needs of a GPU.
budget *arguments:
    ./nearfar budget {{arguments}}

# Say what `deploy` would do, creating nothing: `just preview --stack dev`; without arguments on the test bed.
preview *arguments:
    NEARFAR_GROUP={{ if arguments == "" { "dev" } else { "infra" } }} ./nearfar --version >&2
    {{ if arguments == "" { dev_python + " -m tests.infra.engine preview" } else { infra_python + " -m nearfar_infra preview " + arguments } }}

# Deploy both halves, and ask the edge one question (docs/deploy.md).
deploy *arguments:
    NEARFAR_GROUP=infra ./nearfar --version >&2
    {{infra_python}} -m nearfar_infra up {{arguments}}

# Take everything away again; `nearfar leftovers` looks for what stayed.
destroy *arguments:
    NEARFAR_GROUP=infra ./nearfar --version >&2
    {{infra_python}} -m nearfar_infra destroy {{arguments}}

# Deploy, break, mend and destroy everything on a real Pulumi and a real control plane, without a cloud account.
deploy-test *arguments: dev
    {{dev_python}} -m tests.infra.engine pass {{arguments}}

# Further passes: a fault after the pools, recycled nodes, another context length.
deploy-test-further *arguments: dev
    {{dev_python}} -m tests.infra.engine further {{arguments}}

# Make the lock files again from pyproject.toml: hashes, no addresses. gpu-backend has its own.
lock *arguments:
    {{compile}} {{arguments}} --group edge -o edge-frontend/requirements.lock
    {{compile}} {{arguments}} --group operator -c edge-frontend/requirements.lock -o operator-cli/requirements.lock
    {{compile}} {{arguments}} --group installer -o operator-cli/installer.lock
    {{compile}} {{arguments}} --group go -o tests/go.lock
    {{compile}} {{arguments}} --group infra -c edge-frontend/requirements.lock -c operator-cli/requirements.lock -o infra/requirements.lock
    {{compile}} {{arguments}} --group router -o infra/nearfar_infra/router.lock
    {{compile}} {{arguments}} --group dev -c infra/requirements.lock -o tests/requirements.lock

[private]
dev:
    NEARFAR_GROUP=dev ./nearfar --version >&2

infra_python := "PYTHONPATH=edge-frontend:gpu-backend:infra:operator-cli .nearfar/env-infra/bin/python"
dev_python := "PYTHONPATH=edge-frontend:gpu-backend:infra:operator-cli:tests .nearfar/env-dev/bin/python"

# The launcher puts uv into .nearfar/uv where PATH has none.
uv := `command -v uv || echo .nearfar/uv/bin/uv`
compile := uv + " pip compile --quiet --generate-hashes --no-emit-index-url --no-header --universal --python-version 3.11 pyproject.toml"
