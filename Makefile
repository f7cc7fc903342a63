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

$(TOOLS)/%: tools/go.mod tools/go.sum
	@mkdir -p $(TOOLS)
	$(GO) -C tools build -o $@ $(TOOL_$*)
	@touch $@

PROTO_TOOLS := $(TOOLS)/buf $(TOOLS)/protoc-gen-go $(TOOLS)/protoc-gen-go-grpc
BUF := BUF_CACHE_DIR=$(CACHE)/buf $(TOOLS)/buf

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /\1\t/' | expand -t 14

.PHONY: proto
proto: $(PROTO_TOOLS) ## generate Go code from the .proto files
	$(BUF) generate
