# Works with GNU make 3.81 (macOS) and any POSIX shell.
# ARGS goes to the command: make demo ARGS="--help", make test ARGS="-run Replay -v".

GOLANGCI_LINT = go tool -modfile=tools/go.mod golangci-lint

# Go asks git for the version to write into the program, and fails where git refuses a tree that belongs to somebody else.
STAMP = $(shell git rev-parse --quiet --verify HEAD >/dev/null 2>&1 && echo auto || echo false)

.PHONY: help run demo reconcile-demo contract test properties simulate chaos stopped scale reconcile-scale mutants alerts lint generate verify bench build clean

help: ## Show this list
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' Makefile

run: build ## Start a development server: private PostgreSQL, provider sandbox, demo stock and key
	@exec bin/paysaga dev $(ARGS)

demo: build ## Watch orders at three providers survive duplicates, timeouts and a killed server; ends by itself
	@exec bin/paysaga demo $(ARGS)

reconcile-demo: build ## Plant every kind of divergence between providers and database, find it, repair or explain it; ends by itself
	@exec bin/paysaga demo reconcile $(ARGS)

contract: build ## Check over HTTP what a server promises about Idempotency-Key: its own, or ARGS="--server URL"
	@exec bin/paysaga contract $(ARGS)

test: ## Run all tests, with the race detector where a C compiler is found
	@if go build -race net 2>/dev/null; then \
		echo 'go test -race -timeout 20m $(ARGS) ./...'; \
		go test -race -timeout 20m $(ARGS) ./...; \
	else \
		echo 'NOTE: no working C compiler here, which the race detector needs: data races will NOT be found.' >&2; \
		echo 'go test -timeout 20m $(ARGS) ./...'; \
		go test -timeout 20m $(ARGS) ./...; \
	fi

lint: ## Check style, import rules and common mistakes
	$(GOLANGCI_LINT) run $(ARGS) ./...

properties: ## Check fingerprints, sagas and whole lives of payments against random requests; ARGS="-rapid.checks=1000" for more
	go test -count 1 $(ARGS) ./internal/httpapi ./saga ./internal/lifecycle -run 'Fingerprint|AnySequence|AnyInterleaving|Interleavings'

SEED = 0
RUNS = 2000

simulate: ## Run servers over a simulated database and providers: SEED=1 RUNS=2000, PLAN=FILE, FIXTURE=FILE; 0 is any seed
	go test -count 1 -timeout 0 -v -run '^TestInvariants$$' ./saga/simulation -args -seed $(SEED) -runs $(RUNS) -plan "$(abspath $(PLAN))" -fixture "$(abspath $(FIXTURE))" $(ARGS)

DURATION = 2m

chaos: ## Kill, freeze and cut servers, database and providers while shops order, then compare all: SEED=7 DURATION=10m
	go test -count 1 -v -timeout 24h -run 'TestChaos$$' ./internal/chaos -args -seed $(SEED) -duration $(DURATION) $(ARGS)

stopped: ## Stop servers in the middle of requests (SIGSTOP), let others take over, and wake them up again
	go test -count 1 -run TestStopped $(ARGS) ./cmd/paysaga

scale: ## Measure what ten million keys cost, beside an empty table: takes long and some 10 GB of disk
	go test -tags scale -run TestTenMillionKeys -count 1 -timeout 120m -v $(ARGS) ./internal/postgres

ROWS = 1000000

reconcile-scale: ## Measure payments against a settlement file of as many rows, in time and memory: ROWS=1000000
	go test -tags scale -run TestAMillionPayments -count 1 -timeout 120m -v ./internal/postgres -args -rows $(ROWS) $(ARGS)

mutants: ## Take the guards out of the code, one at a time, and check that a test notices; ARGS="-only sub-key" for some
	@go -C tools run ./mutants -root .. $(ARGS)

alerts: ## Check the alert rules and run their tests
	@go -C tools/alerts run . ../../deploy/prometheus/paysaga.rules.test.yml

generate: ## Write the generated files anew
	go generate ./...

verify: ## Fail when a generated file, a go.mod, a mutant or an alert rule is not what the sources say
	@sh tools/verify.sh

bench: ## Run the benchmarks
	go test -run '^$$' -bench . -benchmem $(ARGS) ./...

build: ## Build bin/paysaga
	@go build -trimpath -buildvcs=$(STAMP) -o bin/paysaga ./cmd/paysaga

clean: ## Remove what was built (not .paysaga/, which holds the development database)
	rm -rf bin
