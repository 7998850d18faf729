# mcp-server-suite. `make` alone lists the targets.
#
# A bare machine needs Go (the version in go.mod), gcc, pkg-config, the libseccomp headers, make and bash. Everything else
# that a target needs is built from pinned modules, or named by the target that needs it.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS   += --no-builtin-rules
.DEFAULT_GOAL := help
# Two of these at once would only fight for the same cores and the same bin/.
.NOTPARALLEL:

GO      ?= go
VERSION ?= $(shell scripts/version.sh)
# More for every `go test` of `make test`, for instance TESTFLAGS=-count=1 (no cached results).
TESTFLAGS ?=
TESTTIMEOUT ?= 15m
# All fuzz targets together.
FUZZTIME ?= 5m
# Each of the two ways to swap a symlink.
RACETIME ?= 15s
# The soak of the locked daemon.
SOAKTIME ?= 10m

# The owner of a clone may be another user (a container, CI); git then refuses, and go with it, unless go asks nothing
# of git. This holds for the tests that run `go build` themselves, too.
export GOFLAGS := $(strip $(GOFLAGS) -buildvcs=false)

GOBUILD = GO='$(GO)' VERSION='$(VERSION)' scripts/build.sh

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## static binaries bin/mcp-server-suite and bin/mcp-proof
	$(GOBUILD) -o bin/ ./cmd/mcp-server-suite ./cmd/mcp-proof

.PHONY: wiretest
wiretest: ## bin/mcp-server-suite-wiretest, the daemon with the extra tools of the wire tests (never shipped)
	TAGS=wiretest $(GOBUILD) -o bin/mcp-server-suite-wiretest ./cmd/mcp-server-suite

.PHONY: test
test: gcc build ## build, then every test under the race detector (TESTFLAGS=-count=1: nothing cached)
	$(GO) test -race -timeout $(TESTTIMEOUT) $(TESTFLAGS) ./...
	@# Holes can be planted in this build only; the tests of the daemon build it themselves.
	$(GO) test -tags lockdownhole -timeout $(TESTTIMEOUT) $(TESTFLAGS) ./pkg/landlock ./pkg/seccomp

.PHONY: coverage
coverage: ## every test once without the race detector, and what they execute held against scripts/coverage/law.go
	@GO='$(GO)' scripts/coverage-gate.sh

.PHONY: gcc
gcc:
	@command -v "$${CC:-gcc}" >/dev/null || { echo "make test: the race detector needs a C compiler; install gcc" >&2; exit 2; }

.PHONY: check
check: tools ## format, modules, vet, staticcheck, gosec, floors, docs, hygiene (CHECK="fmt vet": only these)
	@GO='$(GO)' scripts/check.sh $(CHECK)

.PHONY: fmt
fmt: tools ## rewrite the Go files the way `make check` wants them
	bin/tools/gofumpt -w $(wildcard cmd pkg smoke compose scripts/mkimage scripts/notices scripts/workflows)

.PHONY: fuzz
fuzz: ## every fuzz target, one after the other, FUZZTIME in all (default 5m)
	@GO='$(GO)' FUZZTIME='$(FUZZTIME)' scripts/fuzz.sh run

.PHONY: race
race: ## swap symlinks under a running reader, RACETIME for each of two ways (default 15s)
	@GO='$(GO)' RACETIME='$(RACETIME)' scripts/race.sh

.PHONY: soak
soak: ## the load of all tools on a daemon that dies of any unlisted system call, for SOAKTIME (default 10m)
	@GO='$(GO)' SOAKTIME='$(SOAKTIME)' scripts/soak.sh

.PHONY: kernels
kernels: ## boot other kernels in qemu and try the daemon on each (KERNELS=--all: those of other Debian suites, too)
	@GO='$(GO)' smoke/smoke-kernels.sh $(KERNELS)

.PHONY: smoke
smoke: ## the image on a live Docker daemon (a private one if none answers): every claim, every control, the README's lines
	@GO='$(GO)' scripts/ci-dockerd.sh bash -ec 'smoke/smoke-docker.sh; smoke/smoke-docker.sh --self-test; \
		COMPOSE_LIVE=require $(GO) test -count=1 -run Live ./compose'

.PHONY: image
image: ## the container image as one archive in bin/image, the same bytes each time
	@GO='$(GO)' VERSION='$(VERSION)' scripts/image.sh

.PHONY: bench
bench: build wiretest ## latency and throughput of the built daemon, measured by bin/mcp-proof (queries: where PostgreSQL is installed)
	@if [ -n "$$(find /usr/lib/postgresql /usr/pgsql-* -path '*/bin/postgres' 2>/dev/null)" ]; then \
		MORE_SQL=pkg/latency/readings.sql scripts/with-postgres.sh \
			sh -c 'exec bin/mcp-proof latency --dsn-file "$$POSTGRES_SOCKET_DSN_FILE"'; \
	else bin/mcp-proof latency; fi

.PHONY: demo
demo: ## the whole system once, from a bare machine (as root it installs the Debian packages that are missing)
	@GO='$(GO)' MAKE='$(MAKE)' scripts/demo.sh

.PHONY: golden
golden: ## rewrite golden files and README tables (tests *Golden* and *Docs* with UPDATE_GOLDEN=1); then read the diff
	UPDATE_GOLDEN=1 $(GO) test -count=1 -run 'Golden|Docs' ./...

.PHONY: tools
tools: ## bin/tools: gofumpt, staticcheck and gosec as pinned in scripts/tools/go.mod
	@# go build looks at its own inputs, go.sum and toolchain included: a stamp would know less.
	@CGO_ENABLED=0 $(GO) build -C scripts/tools -trimpath -ldflags '-s -w' -o ../../bin/tools/ tool

.PHONY: clean
clean: ## remove bin/
	rm -rf bin
