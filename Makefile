# Every check that CI runs is a target here, so CI can do nothing a laptop cannot.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --warn-undefined-variables --no-builtin-rules
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

GO    ?= go
CACHE := $(CURDIR)/.cache
TOOLS := $(CACHE)/tools/bin

# --- tools -------------------------------------------------------------------
# Pinned in tools/go.mod and built once into .cache; only what a target needs.

TOOL_buf                := github.com/bufbuild/buf/cmd/buf
TOOL_protoc-gen-go      := google.golang.org/protobuf/cmd/protoc-gen-go
TOOL_protoc-gen-go-grpc := google.golang.org/grpc/cmd/protoc-gen-go-grpc
TOOL_gofumpt            := mvdan.cc/gofumpt
TOOL_staticcheck        := honnef.co/go/tools/cmd/staticcheck
TOOL_golangci-lint      := github.com/golangci/golangci-lint/v2/cmd/golangci-lint
TOOL_benchstat          := golang.org/x/perf/cmd/benchstat
TOOL_gotestsum          := gotest.tools/gotestsum

# nfpm has a module of its own: what it needs and what the linters need exclude
# each other.
$(TOOLS)/nfpm: tools/nfpm/go.mod tools/nfpm/go.sum
	@mkdir -p $(TOOLS)
	$(GO) -C tools/nfpm build -o $@ github.com/goreleaser/nfpm/v2/cmd/nfpm
	@touch $@

$(TOOLS)/%: tools/go.mod tools/go.sum
	@mkdir -p $(TOOLS)
	$(GO) -C tools build -o $@ $(TOOL_$*)
	@touch $@

PROTO_TOOLS := $(TOOLS)/buf $(TOOLS)/protoc-gen-go $(TOOLS)/protoc-gen-go-grpc
BUF := BUF_CACHE_DIR=$(CACHE)/buf $(TOOLS)/buf

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /\1\t/' | expand -t 16

# --- what is checked ---------------------------------------------------------

# Packages of the module without e2e, which runs real processes and has its own
# target.
PACKAGES = $$($(GO) list ./... | grep -v '/e2e$$')
# Where goroutines meet; pure packages gain nothing from the race detector and
# cost a rebuild each.
RACE ?= $$($(GO) list ./internal/... | grep -v /testcluster) ./config ./gossip ./rpc ./client ./raftnode ./executor ./driver ./run ./masterd/... ./workerd/... ./web/... ./demo ./cmd/...

TEST_TIMEOUT ?= 20m
RACE_TIMEOUT ?= 20m
E2E_TIMEOUT  ?= 45m
E2E_SHORT_TIMEOUT ?= 15m
SIM_TIMEOUT  ?= 20m
SEEDS        ?= 2
FUZZTIME     ?= 10s
BENCH        ?= .
BENCHCOUNT   ?= 6
KILLS        ?= 100
STOPS        ?= 20
PAIRS        ?= 9
FAILOVER     ?= TestHA06|TestAClientOfStandbysIsAnswered|TestAMasterThatAnswersBefore|TestNobodyIsDeclaredDeadWhile|TestAFirewall|TestALeaderWhosePackets
BREAK        ?=

.PHONY: build
build: ## the binary, at bin/hearth
	$(GO) build -trimpath -o bin/hearth ./cmd/hearth

.PHONY: test
test: ## unit, property, transcript and virtual-time tests
	HEARTH_SIM_SEEDS=1 HEARTH_SIM_SCHEDULES=60 $(GO) test -shuffle=on -timeout $(TEST_TIMEOUT) $(PACKAGES)

.PHONY: race
race: ## the tests of all packages with goroutines under the race detector (RACE=packages)
	@command -v gcc >/dev/null || command -v clang >/dev/null || $(MAKE) --no-print-directory cc
	HEARTH_SIM_SEEDS=1 HEARTH_SIM_SCHEDULES=40 CGO_ENABLED=1 $(GO) test -race -shuffle=on -timeout $(RACE_TIMEOUT) $(RACE)

.PHONY: cc
cc: # the race detector is linked by a C compiler, which a bare machine lacks
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends gcc libc6-dev; \
	else \
		echo "the race detector needs a C compiler: install gcc" >&2; exit 1; \
	fi

.PHONY: sim
sim: ## virtual-time cluster scenarios (SEEDS=n); a failure prints its seed
	HEARTH_SIM_SEEDS=$(SEEDS) $(GO) test -run '^TestSim' -count=1 -timeout $(SIM_TIMEOUT) \
		$$(grep -rlE '^func TestSim' --include='*_test.go' . | xargs -r -n1 dirname | sort -u)

SIM_FULL_TIMEOUT ?= 3h

.PHONY: sim-full
sim-full: ## simulations with the full counts of the field reports, which take long
	HEARTH_SIM_FULL=1 HEARTH_SIM_SCHEDULES=10000 HEARTH_SIM_SEEDS=200 $(GO) test -run 'TestSim(HA01|HA02|HA28|HA34|PR15)' \
		-count=1 -timeout $(SIM_FULL_TIMEOUT) ./internal/testcluster
	HEARTH_SIM_FULL=1 $(GO) test -run 'TestGO0|TestPR07' -count=1 -timeout $(SIM_FULL_TIMEOUT) ./gossip ./workerd/keeper

.PHONY: cases-full
cases-full: ## simulations of scheduling, books and processes with the full counts of the field reports
	GOGC=400 HEARTH_SIM_FULL=1 HEARTH_SIM_SEEDS=1 $(GO) test -run '^TestSim(SC|AC|PR18|PR20)' -v -count=1 -timeout $(SIM_FULL_TIMEOUT) ./internal/testcluster

# The race detector gives up after very long virtual time in one process, so each
# takes a few seeds; and each has one thread, because the cores are busy with
# other seeds.
RACE_SEEDS       ?= 200
RACE_CHUNK       ?= 10
SIM_RACE_TIMEOUT ?= 10m

.PHONY: sim-race
sim-race: ## random faults under the race detector (RACE_SEEDS=n); a failure prints its seed
	@command -v gcc >/dev/null || command -v clang >/dev/null || $(MAKE) --no-print-directory cc
	@mkdir -p $(CACHE)/sim-race && rm -f $(CACHE)/sim-race/*
	CGO_ENABLED=1 $(GO) test -race -c -o $(CACHE)/testcluster.race ./internal/testcluster
	@cd internal/testcluster && seq 0 $(RACE_CHUNK) $$(( $(RACE_SEEDS) - 1 )) | xargs -P "$$(nproc)" -I{} \
		env GOMAXPROCS=1 GOGC=400 HEARTH_SIM_FIRST_SEED={} HEARTH_SIM_SEEDS=$(RACE_CHUNK) \
		sh -c '$(CACHE)/testcluster.race -test.run "^TestSimRandomFaults$$" -test.timeout $(SIM_RACE_TIMEOUT) \
			>$(CACHE)/sim-race/{} 2>&1 || { cat $(CACHE)/sim-race/{}; exit 255; }'
	@echo "$(RACE_SEEDS) seeds under the race detector: ok"

.PHONY: fuzz
fuzz: ## each fuzz target for FUZZTIME; its seeds alone run in test
	@for dir in $$(grep -rlE '^func Fuzz' --include='*_test.go' . | xargs -r -n1 dirname | sort -u); do \
		for target in $$($(GO) test -list '^Fuzz' $$dir | grep '^Fuzz'); do \
			echo "--- $$dir $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$dir; \
		done; \
	done

.PHONY: e2e
e2e: build netns-tools ## real processes, killed and paused
	$(GO) test -tags e2e -count=1 -timeout $(E2E_TIMEOUT) ./e2e/...

# Without the tests that take long or only repeat; those say so with skipLong.
.PHONY: e2e-short
e2e-short: build ## the same, as much as fits into a few minutes
	$(GO) test -tags e2e -short -count=1 -timeout $(E2E_SHORT_TIMEOUT) ./e2e/...

# Every cluster has TLS with roles, encrypted gossip and tokens.
.PHONY: e2e-secure
e2e-secure: build netns-tools ## all of e2e once more with everything on that protects a cluster
	HEARTH_E2E_SECURE=1 $(GO) test -tags e2e -count=1 -timeout $(E2E_TIMEOUT) ./e2e/...

.PHONY: web-test
web-test: build chromium ## the pages in a real browser (HEARTH_WEB_SHOTS=directory keeps pictures)
	$(GO) test -tags e2e -count=1 -v -timeout $(E2E_SHORT_TIMEOUT) -run '^TestTheStatusPageLivesInARealBrowser$$' ./e2e/

.PHONY: chromium
chromium: # without it the test says so and is skipped
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; \
		else \
			echo "the browser test is skipped without Chromium: install chromium" >&2; \
		fi

# Longer than the runs of the same tests in e2e, and with the claims about
# percentiles judged: meant for a machine that does nothing else.
.PHONY: failover
failover: build netns-tools ## leaders killed (KILLS=n) and frozen under load, busy cores, firewalls; prints percentiles
	HEARTH_FAILOVER_KILLS=$(KILLS) HEARTH_FAILOVER_STOPS=$(STOPS) HEARTH_FAILOVER_BUSY=60s \
		$(GO) test -tags e2e -count=1 -v -timeout $(E2E_TIMEOUT) -run '$(FAILOVER)' ./e2e/

# A peer that cannot be built, for want of its modules, is missing: the test
# says so and fails, and nothing else does.
.PHONY: bench-failover
bench-failover: build ## the same beside etcd, in turns (PAIRS=n)
	@rm -f $(CACHE)/peers/etcd
	-$(GO) -C bench/peers build -o $(CACHE)/peers/etcd ./etcd
	HEARTH_BENCH_ETCD=$(CACHE)/peers/etcd HEARTH_BENCH_PAIRS=$(PAIRS) \
		$(GO) test -tags e2e -count=1 -v -timeout $(E2E_TIMEOUT) -run '^TestFailoverIsNoSlowerThanThatOfEtcd$$' ./e2e/

.PHONY: netns-tools
netns-tools: # firewalls between masters are made with nft in network namespaces
	@command -v ip >/dev/null && command -v nft >/dev/null && command -v ss >/dev/null || \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends iproute2 nftables; \
		else \
			echo "the tests with firewalls are skipped without root and the tools ip, ss and nft" >&2; \
		fi

.PHONY: lint
lint: $(TOOLS)/gofumpt $(TOOLS)/staticcheck $(TOOLS)/golangci-lint $(TOOLS)/buf ## formatting, vet, linters, architecture, .proto style
	@bad="$$(git ls-files -co --exclude-standard '*.go' ':!*.pb.go' | xargs $(TOOLS)/gofumpt -l)"; \
		if [ -n "$$bad" ]; then echo "not formatted, run make fmt:" >&2; echo "$$bad" >&2; exit 1; fi
	$(GO) vet -tags e2e ./...
	$(TOOLS)/staticcheck -tags e2e ./...
	GOLANGCI_LINT_CACHE=$(CACHE)/golangci-lint $(TOOLS)/golangci-lint run --allow-parallel-runners --timeout 15m ./...
	$(GO) test -count=1 ./internal/archtest
	$(BUF) lint

.PHONY: fmt
fmt: $(TOOLS)/gofumpt ## format all Go files
	git ls-files -co --exclude-standard '*.go' ':!*.pb.go' | xargs $(TOOLS)/gofumpt -w

# --- generated ---------------------------------------------------------------

.PHONY: proto
proto: $(PROTO_TOOLS) ## generate Go code from the .proto files
	$(BUF) generate

.PHONY: proto-check
proto-check: $(PROTO_TOOLS) ## generated code is current, and nothing breaks proto/image.binpb
	@rm -rf $(CACHE)/proto && mkdir -p $(CACHE)/proto
	$(BUF) generate -o $(CACHE)/proto
	@for f in $$({ (cd $(CACHE)/proto && find proto -name '*.pb.go'); find proto -name '*.pb.go'; } | sort -u); do \
		cmp -s $(CACHE)/proto/$$f $$f || { echo "$$f is not current: run make proto" >&2; exit 1; }; \
	done
	$(BUF) breaking --against proto/image.binpb

.PHONY: proto-image
proto-image: $(TOOLS)/buf ## accept the .proto files as released (BREAK=1 if they break what was)
	@if [ -e proto/image.binpb ] && [ -z "$(BREAK)" ]; then $(BUF) breaking --against proto/image.binpb; fi
	$(BUF) build --exclude-source-info -o proto/image.binpb

.PHONY: tidy-check
tidy-check: ## go.mod is tidy and replaces nothing
	$(GO) mod tidy -diff
	@! grep -nE '^replace|^\s+.*=>' go.mod tools/go.mod

.PHONY: golden
golden: ## rewrite transcripts and golden files; review the diff
	@for dir in $$(grep -rlE 'flag\.Bool\("update"|Getenv\("UPDATE"\)' --include='*_test.go' . | xargs -r -n1 dirname | sort -u); do \
		if grep -qE 'flag\.Bool\("update"' $$dir/*_test.go; then args=-update; else args=; fi; \
		if [ $$dir = ./e2e ]; then args="-tags e2e -run Transcripts"; fi; \
		UPDATE=1 $(GO) test -count=1 -timeout $(TEST_TIMEOUT) $$dir $$args; \
	done

# --- packages ----------------------------------------------------------------

# Times in packages are that of the commit, so that the same commit gives the same
# bytes everywhere. The version is the one that the binary says of itself.
PACKAGES_FOR ?= amd64 arm64
PACKAGE_DIR  ?= $(CURDIR)/dist
export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct)

.PHONY: package
package: $(TOOLS)/nfpm ## deb, rpm and OCI images for PACKAGES_FOR, in dist/
	@rm -rf $(PACKAGE_DIR) $(CACHE)/package && mkdir -p $(PACKAGE_DIR) $(CACHE)/package
	@for arch in $(PACKAGES_FOR); do \
		echo "build for $$arch"; \
		CGO_ENABLED=0 GOOS=linux GOARCH=$$arch $(GO) build -trimpath -buildvcs=true -ldflags '-s -w' -o $(CACHE)/package/hearth-$$arch ./cmd/hearth; \
	done
	@$(GO) build -o $(CACHE)/package/dist ./cmd/internal/dist
	@version="$$($(GO) version -m $(CACHE)/package/hearth-$(firstword $(PACKAGES_FOR)) | awk '$$1 == "mod" { print $$3 }')"; \
	version="$${version#v}"; \
	$(CACHE)/package/dist manual -version "$$version" -configuration docs/configuration.md $(CACHE)/package; \
	for arch in $(PACKAGES_FOR); do \
		for kind in deb rpm; do \
			VERSION="$$version" ARCH=$$arch BINARY=$(CACHE)/package/hearth-$$arch GENERATED=$(CACHE)/package \
				$(TOOLS)/nfpm package --config deploy/package/nfpm.yaml --packager $$kind --target $(PACKAGE_DIR)/; \
		done; \
		$(CACHE)/package/dist image -version "$$version" -arch $$arch -binary $(CACHE)/package/hearth-$$arch $(PACKAGE_DIR)/image-$$arch; \
		mv $(PACKAGE_DIR)/image-$$arch/image.tar "$(PACKAGE_DIR)/hearth_$${version//+/-}_$$arch.oci.tar"; \
	done
	@$(CACHE)/package/dist sums $(PACKAGE_DIR)
	@cat $(PACKAGE_DIR)/SHA256SUMS

.PHONY: package-check
package-check: package ## packages are reproducible, and install, upgrade and uninstall as they should
	umask 077; $(MAKE) --no-print-directory package PACKAGE_DIR=$(CACHE)/package-again
	cmp $(PACKAGE_DIR)/SHA256SUMS $(CACHE)/package-again/SHA256SUMS
	HEARTH_PACKAGES=$(PACKAGE_DIR) $(GO) test -tags packages -count=1 ./cmd/internal/dist

# --- reports -----------------------------------------------------------------

.PHONY: cover
cover: ## coverage by package
	@mkdir -p $(CACHE)
	$(GO) test -timeout $(TEST_TIMEOUT) -coverprofile=$(CACHE)/cover.out $(PACKAGES)
	$(GO) tool cover -func=$(CACHE)/cover.out | tail -1

.PHONY: bench
bench: $(TOOLS)/benchstat ## benchmarks, summed up by benchstat (BENCH=regexp)
	@mkdir -p $(CACHE)
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -count $(BENCHCOUNT) $(PACKAGES) | tee $(CACHE)/bench.txt
	$(TOOLS)/benchstat $(CACHE)/bench.txt

.PHONY: vuln
vuln: ## known vulnerabilities; advisory, needs the network
	-$(GO) run golang.org/x/vuln/cmd/govulncheck@v1.9.0 ./...

.PHONY: demo
demo: build ## three masters, three workers, a real job, and two kills
	bin/hearth demo

# What every change must pass, within half an hour on two cores. The rest is as
# binding and takes longer: check-all before a release.
.PHONY: ci
ci: ## what must pass for every change
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory test
	@$(MAKE) --no-print-directory race
	@$(MAKE) --no-print-directory proto-check
	@$(MAKE) --no-print-directory tidy-check
	@$(MAKE) --no-print-directory sim-race
	@$(MAKE) --no-print-directory e2e-short

.PHONY: check-all
check-all: ## every check there is, which takes more than an hour
	@$(MAKE) --no-print-directory ci
	@$(MAKE) --no-print-directory sim
	@$(MAKE) --no-print-directory e2e
	@$(MAKE) --no-print-directory e2e-secure
	@$(MAKE) --no-print-directory package-check

# --- benchmarks beside peers ---------------------------------------------------
# A peer that cannot be built, for want of its modules, is missing: claims about
# it fail, and nothing else does.

BENCH_DIR ?= /var/tmp

.PHONY: bench-peers
bench-peers: # etcd, and Raft with stores in memory, at .cache/peers
	@mkdir -p $(CACHE)/peers && rm -f $(CACHE)/peers/etcd $(CACHE)/peers/memraft
	-$(GO) -C bench/peers build -o $(CACHE)/peers/ ./etcd ./memraft

.PHONY: bench-place
bench-place: build bench-peers ## durable placements beside etcd, in turns (PAIRS=n, BENCH_DIR=directory on a disk)
	bin/hearth bench place --dir $(BENCH_DIR) --pairs $(PAIRS) \
		--etcd "$$(ls $(CACHE)/peers/etcd 2>/dev/null)" --memraft "$$(ls $(CACHE)/peers/memraft 2>/dev/null)"

.PHONY: bench-tasks
bench-tasks: build ## tasks beside a gRPC stream, in turns (PAIRS=n, BENCH_DIR=directory on a disk)
	bin/hearth bench tasks --dir $(BENCH_DIR) --pairs $(PAIRS)

.PHONY: bench-run
bench-run: build ## shell tasks beside xargs and GNU parallel, in turns (PAIRS=n, BENCH_DIR=directory on a disk)
	bin/hearth bench run --dir $(BENCH_DIR) --pairs $(PAIRS)

.PHONY: bench-decide
bench-decide: build ## placement decisions beside a full scan (PAIRS=n)
	bin/hearth bench decide --pairs $(PAIRS)

.PHONY: bench-idle
bench-idle: build bench-peers ## what masters cost while nothing happens, beside etcd; 100 workers, 1,000 applications that wait (BENCH_DIR=directory)
	bin/hearth bench idle --dir $(BENCH_DIR) --etcd "$$(ls $(CACHE)/peers/etcd 2>/dev/null)"

# --- the scheduler against the rules -------------------------------------------

STATES ?= 100000
# Runs of random entries for the state: 20,500 of them have more than a million commands.
ENTRIES ?= 20500

.PHONY: property
property: ## plans of random clusters against the rules read one by one, and against the state (STATES=n)
	$(GO) test -count=1 -timeout $(SIM_TIMEOUT) -run '^(TestThePlanIsThatOfTheRulesReadOneByOne|TestAnIndexPlansWhatTheRulesSayWhateverHappened|TestDriversArePlacedAsTheRulesSay)$$' ./scheduler -rapid.checks=$(STATES)
	$(GO) test -count=1 -timeout $(SIM_TIMEOUT) -run '^(TestWhatTheSchedulerPlansIsAccepted|TestSC13AnIdenticalRefusedPlacementIsNeverProposedMoreThanTwice)$$' ./fsm -rapid.checks=1000
	$(GO) test -count=1 -v -timeout $(SIM_TIMEOUT) -run '^TestAC07AnyCommandsKeepTheInvariants$$' ./fsm -rapid.checks=$(ENTRIES)

.PHONY: bench-launch
bench-launch: build ## starts of executors beside plain starts of processes (PAIRS=n, BENCH_DIR=directory on a disk)
	@mkdir -p $(CACHE)/peers
	CGO_ENABLED=0 $(GO) -C bench/peers build -trimpath -ldflags='-s -w' -o $(CACHE)/peers/ ./noop
	bin/hearth bench launch --dir $(BENCH_DIR) --pairs $(PAIRS) --noop $(CACHE)/peers/noop
