package main

import (
	"bytes"
	"context"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"paysaga/internal/hygiene"
)

// flaw is a way in which a server breaks the contract.
type flaw string

const (
	executesTwice     flaw = "repeats that meet the first request execute as well"
	executesAgain     flaw = "every repeat executes"
	otherBytes        flaw = "a replay has other bytes"
	otherHeaders      flaw = "a replay has no Location"
	unmarked          flaw = "a replay is not marked"
	marksAll          flaw = "every answer is marked as a replay"
	keepsNothing      flaw = "a refusal is not kept"
	keepsInvalid      flaw = "an invalid request claims its key"
	conflates         flaw = "another request under the key gets the first one's answer"
	leaks             flaw = "the refusal of another request tells the first one's order"
	leaksInHeaders    flaw = "the refusal of another request has the first one's Location"
	countsMetadata    flaw = "metadata is part of what a request means"
	countsSpelling    flaw = "the body's bytes are what a request means"
	sharesKeys        flaw = "a key is the same for all accounts"
	showsOthers       flaw = "another account's order is shown"
	showsOthersKeys   flaw = "another account's key is shown"
	acceptsNoKey      flaw = "a request without a key is executed, and nothing is said"
	acceptsBadKeys    flaw = "any key is taken"
	hurries           flaw = "409 has no Retry-After"
	failsWhileRunning flaw = "503 instead of 409 while the request runs"
	plainProblems     flaw = "problems are plain text"
	noLocation        flaw = "201 has no Location"
	chargesTwice      flaw = "an order is charged twice"
	keepsTrouble      flaw = "a 503 is kept under its key"
	trouble404        flaw = "a provider that is away is answered 404"
	limitsEach        flaw = "each process counts new keys by itself"
	limitsRepeats     flaw = "repeats count as new keys"
	limitsSilently    flaw = "429 does not say when to come back"
	ignoresLimit      flaw = "new keys are not limited"
)

// seeFake plays scenarios against a server with a flaw, and gives what they saw by name.
func seeFake(t *testing.T, f flaw, names ...string) map[string]sighting {
	t.Helper()
	run := fakeRun(t, contractOptions{server: newFakeServer(t, f, nil).URL})
	seen := map[string]sighting{}
	for _, s := range chosenScenarios(names) {
		seen[s.name] = run.see(t.Context(), s)
	}
	return seen
}

func fakeRun(t *testing.T, o contractOptions) *contractRun {
	t.Helper()
	o.apiKey, o.otherAPIKey = "one", "two"
	run, err := openContract(t.Context(), o, func(error) {})
	noError(t, err)
	return run
}

// wantSight: with words, a scenario that breaks and tells them; without, one that holds.
func wantSight(t *testing.T, seen sighting, words string) {
	t.Helper()
	problems := strings.Join(seen.Problems, "\n")
	if words == "" && problems != "" {
		t.Errorf("%s is broken at a server that keeps it: %q", seen.Name, seen.Problems)
	}
	if words != "" && !strings.Contains(problems, words) {
		t.Errorf("%s does not tell %q: %q", seen.Name, words, seen.Problems)
	}
}

// httpScenarios are those that the fake server can be asked for.
var httpScenarios = []string{
	"first-call", "repeat", "running", "other-request", "same-request", "other-account", "declined", "invalid", "no-key",
}

func TestContractHolds(t *testing.T) {
	t.Parallel()
	for _, seen := range seeFake(t, "", httpScenarios...) {
		wantSight(t, seen, "")
	}
}

// Each flaw breaks the scenarios that are about it, with words that tell it.
func TestContractBreaks(t *testing.T) {
	t.Parallel()
	for broken, want := range map[flaw]map[string]string{
		executesTwice:   {"running": "not marked as repeats, there should be one"},
		executesAgain:   {"repeat": "byte", "same-request": "byte", "other-request": "201 confirmed, not 422", "running": "answers differ"},
		otherBytes:      {"repeat": "byte", "same-request": "byte", "declined": "byte", "other-request": "byte", "other-account": "byte"},
		otherHeaders:    {"repeat": `Location ""`},
		unmarked:        {"repeat": "no Idempotency-Replayed: true", "running": "20 of 20 answers are not marked", "declined": "no Idempotency-Replayed"},
		marksAll:        {"first-call": "marked as a repeat", "invalid": "marked as a repeat", "running": "0 of 20 answers are not marked"},
		keepsNothing:    {"declined": "no Idempotency-Replayed: true"},
		keepsInvalid:    {"invalid": "not 201"},
		conflates:       {"other-request": "201 confirmed, not 422", "declined": "402 payment-declined, not 422"},
		leaks:           {"other-request": "of the first request"},
		leaksInHeaders:  {"other-request": "of the first request"},
		countsMetadata:  {"same-request": "other metadata: 422 idempotency-key-reuse"},
		countsSpelling:  {"same-request": "other blanks: 422 idempotency-key-reuse"},
		sharesKeys:      {"other-account": "marked as a repeat"},
		showsOthers:     {"other-account": "by the other account: 200"},
		showsOthersKeys: {"other-account": "by the other account: 200"},
		acceptsNoKey:    {"no-key": `Idempotency-Protection "", not none`},
		acceptsBadKeys:  {"no-key": "two keys: 201 confirmed, not 400"},
		hurries:         {"running": `Retry-After ""`},
		failsWhileRunning: {
			"running": "a repeat meanwhile: 503 unavailable, not 409",
		},
		plainProblems: {"invalid": "not \"invalid-request\"", "no-key": "not \"idempotency-key-invalid\""},
		noLocation:    {"first-call": `Location ""`},
	} {
		t.Run(string(broken), func(t *testing.T) {
			t.Parallel()
			for name, seen := range seeFake(t, broken, slices.Collect(maps.Keys(want))...) {
				wantSight(t, seen, want[name])
			}
		})
	}
}

// What is taken at the provider counts, whatever the API says; and a 5xx must not be kept.
func TestContractWithSandbox(t *testing.T) {
	t.Parallel()
	for broken, want := range map[flaw]map[string]string{
		"":           {"first-call": "", "transient": ""},
		chargesTwice: {"first-call": "the provider took 3998 in 2 charges", "transient": "2 charges"},
		keepsTrouble: {"transient": "no final answer"},
		trouble404:   {"transient": "404 not-found, not 202"},
	} {
		t.Run(string(broken), func(t *testing.T) {
			t.Parallel()
			server := newFakeServer(t, broken, nil)
			run := fakeRun(t, contractOptions{server: server.URL, sandbox: server.URL})
			const enough = 5 * time.Second // for the one that would repeat for long
			ctx, cancel := context.WithTimeout(t.Context(), enough)
			defer cancel()
			for _, s := range chosenScenarios(slices.Collect(maps.Keys(want))) {
				wantSight(t, run.see(ctx, s), want[s.name])
			}
		})
	}
}

// The limit is checked over two servers: here two with a limit each, or the same twice.
func TestContractLimit(t *testing.T) {
	t.Parallel()
	for broken, want := range map[flaw]string{
		"": "", limitsEach: "40 of 40 new keys were taken", limitsRepeats: "429 too-many-new-keys, the first answer was 201",
		limitsSilently: `Retry-After ""`, ignoresLimit: "40 of 40 new keys were taken",
	} {
		t.Run(string(broken), func(t *testing.T) {
			t.Parallel()
			one, two := &fakeLimit{begun: time.Now()}, &fakeLimit{begun: time.Now()}
			first := newFakeServer(t, broken, one)
			second := first
			if broken == limitsEach {
				second = newFakeServer(t, broken, two)
			}
			run := fakeRun(t, contractOptions{server: first.URL})
			shop := run.shop
			shop.patient = false
			noError(t, shop.at(second.URL).putStock(t.Context(), run.sku()))
			seen := sighting{Name: "too-many-keys"}
			noError(t, run.limit(t.Context(), &seen, shop, shop.at(second.URL)))
			wantSight(t, seen, want)
		})
	}
}

// Other endpoints than that of orders are looked at in the same way.
func TestContractEndpoint(t *testing.T) {
	t.Parallel()
	refunds := keyedEndpoints[slices.IndexFunc(keyedEndpoints, func(e endpoint) bool { return e.name == "refunds" })]
	for broken, want := range map[flaw]string{
		"": "", executesAgain: "refunded: 1501, not 500", unmarked: "no Idempotency-Replayed", conflates: "201",
	} {
		t.Run(string(broken), func(t *testing.T) {
			t.Parallel()
			run, seen := fakeRun(t, contractOptions{server: newFakeServer(t, broken, nil).URL}), sighting{Name: "refunds"}
			noError(t, run.endpoint(t.Context(), &seen, refunds))
			wantSight(t, seen, want)
		})
	}
}

// A server that does not answer is one problem a scenario, and the key is in none.
func TestContractWithoutServer(t *testing.T) {
	t.Parallel()
	server := newFakeServer(t, "", nil)
	run, err := openContract(t.Context(), contractOptions{server: server.URL, apiKey: "correct-horse"}, func(error) {})
	noError(t, err)
	server.Close()
	for _, s := range contractScenarios {
		seen := run.see(t.Context(), s)
		want := resultBroken
		if s.needs != needNothing {
			want = resultNotShown
		}
		if seen.Result != want || want == resultBroken && (len(seen.Problems) != 1 || strings.Contains(seen.Problems[0], "correct-horse")) {
			t.Errorf("%s is %s: %q", s.name, seen.Result, seen.Problems)
		}
	}
	paysaga(t, []string{"PAYSAGA_API_KEY=correct-horse"}, "contract", "--server", server.URL).refused(t, exitFailed, "put stock at "+server.URL)
}

// The whole contract on a system of its own, with the servers that it starts.
func TestContractOfThisServer(t *testing.T) {
	t.Parallel()
	dir := openFolder(t)
	collected, traces := collector(t)
	var out, errOut bytes.Buffer
	command := &cobra.Command{}
	command.SetOut(&out)
	command.SetErr(&errOut)
	command.SetContext(t.Context())
	err := contract(command, contractOptions{dir: dir, asJSON: true, timeout: 5 * programLimit, environ: []string{
		asProgram + "=1", "PAYSAGA_LOG_LEVEL=debug", "OTEL_EXPORTER_OTLP_ENDPOINT=" + collected,
	}})
	report := readJSON[contractReport](t, out.String())
	for _, seen := range report.Scenarios {
		if seen.Result != resultHeld {
			t.Errorf("%s is %s: %q", seen.Name, seen.Result, seen.Problems)
		}
	}
	if err != nil || !report.OK || !report.OwnSystem || len(report.Scenarios) != len(contractScenarios) {
		t.Errorf("%v, %d scenarios\n%s", err, len(report.Scenarios), errOut.String())
		log, _ := os.ReadFile(filepath.Join(dir, serverLog)) // the complaints of a server that did not start tell most
		for line := range strings.Lines(string(log)) {
			if strings.HasPrefix(line, "paysaga: ") {
				t.Log(line)
			}
		}
	}
	if !strings.Contains(traces.text(), "POST /v1/orders") {
		t.Error("the servers' traces did not come")
	}
	searchContract(t, dir, out.String()+errOut.String(), traces.text())
}

var (
	apiKeyForm      = regexp.MustCompile(`paysaga_[A-Za-z0-9_-]{43}`)
	contractKeyForm = regexp.MustCompile(`contract-[0-9a-f]{8}-[a-z]`)
)

// searchContract searches what a run has left for secrets: what it printed, and its servers' log and traces. Its database is gone, so its
// keys are known by their form.
func searchContract(t *testing.T, dir, printed, traces string) {
	t.Helper()
	log, err := os.ReadFile(filepath.Join(dir, serverLog))
	noError(t, err)
	secrets, err := readSecrets(dir)
	noError(t, err)
	told := string(log) + traces
	book := hygiene.New(t)
	nameSecrets(book, []string{
		"PAYSAGA_ENCRYPTION_KEYS=" + secrets.EncryptionKeys, "ADYEN_HMAC_KEYS=" + secrets.webhookKey("adyen"),
		"STRIPE_API_KEY=" + sandboxKey, "STRIPE_WEBHOOK_SECRETS=" + secrets.stripeWebhookSecret(),
	})
	book.Secret("a payment method", declinedMethod)
	_, _ = book.Write([]byte(told))
	if found := apiKeyForm.FindString(told + printed); found != "" {
		t.Errorf("an API key is told: %s", found)
	}
	if found := contractKeyForm.FindString(told); found != "" {
		t.Errorf("an idempotency key is told: %s", found)
	}
	if !apiKeyForm.MatchString(secrets.MerchantKey) {
		t.Error("API keys have another form")
	}
}

func TestContractCalls(t *testing.T) {
	t.Parallel()
	out := paysaga(t, nil, "contract", "--list").wellDone(t)
	for _, s := range contractScenarios {
		if !strings.Contains(out, s.name+" ") || !strings.Contains(out, s.sees) {
			t.Errorf("%s is not listed", s.name)
		}
	}
	list := readJSON[[]listed](t, paysaga(t, nil, "contract", "--list", "--json").wellDone(t))
	if len(list) != len(contractScenarios) {
		t.Errorf("%d scenarios are listed", len(list))
	}
	for call, words := range map[string]string{
		"contract more":                                            "unknown command",
		"contract --only nonsense":                                 "nonsense",
		"contract --server http://127.0.0.1:1":                     "PAYSAGA_API_KEY",
		"contract --server ftp://h --api-key k":                    "--server must be",
		"contract --server http://a:b@h --api-key k":               "without user",
		"contract --server http://h --api-key k --dir d":           "--dir",
		"contract --server http://h --api-key k --other-api-key k": "another account's",
		"contract --api-key k":                                     "--server",
		"contract --dev=nowhere":                                   "no \"paysaga dev\" runs in nowhere",
		"contract --dev --api-key k":                               "--dev",
	} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			paysaga(t, nil, strings.Fields(call)...).refused(t, exitUsage, words)
		})
	}
}
