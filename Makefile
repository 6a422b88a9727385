# Everything here needs Go and nothing else. CONTRIBUTING.md says when to use what.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Executions per fuzz target. A count and not a duration: it means the same on every machine.
FUZZ ?= 10000x
# Packages that the race detector slows down so much that it runs their short tests only; all of
# their tests run without it.
HEAVY := ./adapters/... ./conformance/... ./cmd/...
# Packages without concurrency of their own, or whose tests are slow under the race detector and say
# nothing that the others do not.
NORACE := ./sdk/internal/nfc ./docs/... ./internal/hygiene ./internal/importrules ./examples/...

step = @printf '\n== %s\n' "$(1)"

.PHONY: help test lint generate unit race servers fuzz bench certify

help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' Makefile | sed -E 's/:.*## /\t/' | expand -t 12

test: export FENCEDSTORE_SERVERS_REQUIRED := 1
test: lint servers unit race fuzz ## everything that CI runs

lint: ## formatting, vet, staticcheck, vulnerabilities, go.mod, generated files
	$(call step,gofmt)
	@out=$$(gofmt -l .); [ -z "$$out" ] || { echo "not formatted; run gofmt -w:"; echo "$$out"; exit 1; }
	$(call step,go vet)
	@go vet ./...
	$(call step,staticcheck)
	@go tool staticcheck ./...
	$(call step,go mod tidy)
	@go mod tidy -diff
	$(call step,generated files)
	@.ci/generated
	$(call step,protocol)
	@.ci/proto
	$(call step,govulncheck)
	@.ci/vulncheck

generate: ## write every generated file anew, and the output that the pages show
	@go generate ./...
	@go test ./docs -count=1 -run '^TestCommands$$' -args -update

unit: ## every test, without the race detector
	$(call step,go test)
	@go test -timeout 30m ./...

race: ## the tests under the race detector, short ones for the heavy packages
	$(call step,go test -race)
	@go test -race -timeout 30m $$(go list ./... | grep -vxFf <(go list $(HEAVY) $(NORACE)))
	$(call step,go test -race -short (heavy packages))
	@go test -race -short -timeout 30m $$(go list $(HEAVY))

servers: ## install the servers that tests need, pinned, below .cache, which git ignores
	$(call step,test servers)
	@go run ./internal/lab/labctl setup

fuzz: ## every fuzz target, FUZZ executions each (make fuzz FUZZ=10m runs for ten minutes each)
	$(call step,fuzz ($(FUZZ) each))
	@.ci/fuzz $(FUZZ)

bench: ## benchmarks, each beside the plain operation
	@go test -run '^$$' -bench . -benchmem ./...

certify: ## certify the durable embedded store with the standard profile
	@go run ./cmd/adaptercheck certify sqlite
