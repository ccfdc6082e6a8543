package main

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"paysaga/api"
	"paysaga/internal/postgres"
	"paysaga/saga"
)

// reviewOnDev is an order whose money is held, and about which a provider announced what contradicts it.
func reviewOnDev(t *testing.T, file devFile) (key uuid.UUID, payment string) {
	t.Helper()
	order := orderOnDev(t, file, http.StatusCreated, `{"provider":"stripe","method":"pm_card_visa","capture":"manual"}`)
	store := postgres.New(openPool(t, file.DatabaseURL), nil)
	ref := saga.Ref{AccountID: "demo-shop", Key: order.ID}
	var held saga.Saga
	for deadline := time.Now().Add(programLimit); ; { // the provider's webhooks about it may just be applied
		var err error
		held, err = store.Load(t.Context(), ref)
		noError(t, err)
		if held, err = store.Seize(t.Context(), ref, held.Lease.Fence, time.Minute); err == nil {
			break
		}
		if !errors.Is(err, saga.ErrLeaseLost) || time.Now().After(deadline) {
			t.Fatal(err)
		}
		noError(t, wait(t.Context(), pollPause))
	}
	change, err := saga.Advance(held, saga.Event{Kind: saga.Contradicted, Code: "captured_at_provider", Detail: "Two euros."}, saga.DefaultPolicy())
	noError(t, err)
	change.Release = true
	_, err = store.Apply(t.Context(), change)
	noError(t, err)
	return order.ID, order.Payment.ProviderReference
}

// An operator sees what waits, decides, is held to what the provider tells, and may say the same again.
func checkSagasOnDev(t *testing.T, dir string, file devFile) {
	t.Helper()
	key, payment := reviewOnDev(t, file)
	run := func(arguments ...string) ending {
		t.Helper()
		return paysaga(t, nil, append(append([]string{"sagas"}, arguments...), "--dir", dir)...)
	}
	const why = "The customer has called."
	list := readJSON[api.SagaList](t, run("list", "--state", "needs_review", "--finding", "captured_at_provider", "--json").wellDone(t))
	if len(list.Data) != 1 || list.Data[0].Key != key || list.NextCursor != nil {
		t.Fatalf("in review: %+v", list)
	}
	wantWords(t, run("list").wellDone(t), key.String(), "needs_review", "captured_at_provider", "39.98 EUR", "stripe", "UNMOVED")
	contradicted := run("resolve", key.String(), "--as", "taken", "--payment", payment, "--amount", "3998", "--reason", why)
	contradicted.refused(t, exitFailed, "decision-contradicted")
	run("resolve", key.String(), "--as", "as_it_is", "--reason", why).refused(t, exitFailed, "decision-unfit")
	const once = "a-key-for-the-cancel-4711"
	for range 2 { // the second one is a repeat
		out := run("cancel", key.String(), "--reason", why, "--idempotency-key", once).wellDone(t)
		wantWords(t, out, "rolled_back", "void", "captured_at_provider", "saga.cancel", why, "key ")
	}
	shown := readJSON[api.SagaRecord](t, run("show", key.String(), "--json").wellDone(t))
	if len(shown.AuditLog) != 1 || shown.State != api.SagaStateRolledBack || shown.Status != "canceled" {
		t.Errorf("shown: %+v", shown)
	}
	run("retry", key.String(), "--reason", why).refused(t, exitFailed, "order-over")
	run("show", uuid.NewString()).refused(t, exitFailed, "404")
	environ := []string{"PAYSAGA_SERVER=" + file.BaseURL, "PAYSAGA_API_KEY=" + file.MerchantKey}
	paysaga(t, environ, "sagas", "list").refused(t, exitFailed, "operator-required")
}

func wantWords(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, want := range words {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// What is wrong with how a command is called is told before anything is sent.
func TestSagasThatAreCalledWrongly(t *testing.T) {
	t.Parallel()
	const key = "3ffbd026-bac1-5d67-a04d-5b537230444c"
	for call, want := range map[string]string{
		"sagas show":                                                  "accepts 1 arg",
		"sagas show 4711":                                             "4711",
		"sagas retry " + key:                                          "reason",
		"sagas resolve " + key + " --reason x":                        "as",
		"sagas resolve " + key + " --reason x --as gone":              "not_given",
		"sagas cancel " + key + " --reason x --idempotency-key":       "idempotency-key",
		"sagas cancel " + key + " --reason x --idempotency-key short": "idempotency-key",
		"sagas list --limit=many":                                     "many",
	} {
		paysaga(t, nil, strings.Fields(call)...).refused(t, exitUsage, want)
	}
}

// A saga that a step refused before the charge is shown without a charge.
func TestSagaWithoutAChargeIsShown(t *testing.T) {
	t.Parallel()
	key := uuid.MustParse("3ffbd026-bac1-5d67-a04d-5b537230444c")
	at := time.Date(2026, 12, 4, 14, 2, 11, 0, time.UTC)
	var shown bytes.Buffer
	noError(t, printSaga(&shown, api.SagaRecord{
		Key: key, Kind: api.SagaKindOrder, State: api.SagaStateRolledBack, OrderID: key, Status: "failed", Provider: "stripe",
		Amount: 3998, Currency: "EUR", Attempts: 1, CreatedAt: at, UpdatedAt: at,
		Steps: []api.Step{
			{Name: "reserve", Attempt: 1, Status: "done", SubKey: key.String() + "_reserve", StartedAt: at},
			{Name: "fraud_check", Attempt: 1, Status: "failed", SubKey: key.String() + "_fraud_check", Outcome: "declined", Code: "too_risky", SentCount: 1, StartedAt: at},
			{Name: "release", Attempt: 1, Status: "done", SubKey: key.String() + "_release", StartedAt: at},
		},
	}))
	wantWords(t, shown.String(), "rolled_back", "39.98 EUR at stripe", "fraud_check", "declined", "too_risky", key.String()+"_fraud_check", "release")
	if strings.Contains(shown.String(), "charge") || strings.Contains(shown.String(), "0001-01-01") || strings.Contains(shown.String(), "fits:") {
		t.Error(shown.String())
	}
}

// Only a yes goes on, after what is found and what follows was shown.
func TestConfirm(t *testing.T) {
	t.Parallel()
	s := api.SagaRecord{
		Key: uuid.New(), Kind: api.SagaKindOrder, State: api.SagaStateNeedsReview, Amount: 3998, Currency: "EUR", Provider: "stripe",
		Findings: []api.Finding{{Kind: "void_refused", Detail: "It is not let go."}, {Kind: "of_before", ResolvedAt: time.Now()}},
	}
	follows := whatFollows(api.ResolveRequest{Resolution: api.ResolutionTaken, Payment: "pi_1", Amount: 3998})
	for _, c := range []struct {
		answer string
		goesOn bool
	}{{"y\n", true}, {" YES \n", true}, {"yes", true}, {"\n", false}, {"", false}, {"no\n", false}, {"yup\n", false}} {
		var shown bytes.Buffer
		err := confirm(strings.NewReader(c.answer), &shown, s, follows)
		if (err == nil) != c.goesOn || err != nil && !errors.Is(err, errNotConfirmed) {
			t.Errorf("%q: %v", c.answer, err)
		}
		for _, want := range []string{s.Key.String(), "39.98 EUR", "void_refused", "It is not let go.", "pi_1", "3998", "[y/N]"} {
			if !strings.Contains(shown.String(), want) || strings.Contains(shown.String(), "of_before") {
				t.Errorf("no %q in\n%s", want, shown.String())
			}
		}
	}
}

// Each command that the runbook tells is one that there is, with flags and arguments that it takes.
func TestRunbookCommands(t *testing.T) {
	t.Parallel()
	told := map[string]bool{}
	for _, fields := range runbookCommands(t) {
		command, err := parsedCommand(fields)
		if err != nil {
			t.Errorf("%q: %v", fields, err)
			continue
		}
		told[command.CommandPath()] = true
		if as := command.Flags().Lookup("as"); as != nil {
			told[as.Value.String()] = true
			if !slices.Contains(resolutions(), as.Value.String()) {
				t.Errorf("%q: there is no such resolution", fields)
			}
		}
	}
	for _, want := range append(resolutions(), "paysaga sagas list", "paysaga sagas show", "paysaga sagas retry", "paysaga sagas cancel") {
		if !told[want] {
			t.Errorf("the runbook does not tell of %q", want)
		}
	}
}

// runbookCommands are the calls of paysaga in the runbook, each without its first word.
func runbookCommands(t *testing.T) (calls [][]string) {
	t.Helper()
	raw, err := os.ReadFile("../../docs/runbook.md")
	noError(t, err)
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(raw), -1) {
		for line := range strings.Lines(strings.ReplaceAll(block[1], "\\\n", " ")) {
			fields := shellWords(line)
			for len(fields) > 0 && strings.Contains(fields[0], "=") { // what is set for one command alone
				fields = fields[1:]
			}
			if len(fields) > 1 && fields[0] == "paysaga" {
				calls = append(calls, fields[1:])
			}
		}
	}
	return calls
}

// parsedCommand is the command that would be run.
func parsedCommand(arguments []string) (*cobra.Command, error) {
	command, rest, err := newRootCommand().Find(arguments)
	if err != nil {
		return nil, err
	}
	if err := command.ParseFlags(rest); err != nil {
		return nil, err
	}
	if !command.Runnable() {
		return nil, errors.New("it does nothing")
	}
	return command, errors.Join(command.ValidateArgs(command.Flags().Args()), command.ValidateRequiredFlags())
}

// shellWords splits a line as a shell does, as far as the runbook needs it: quotes, and a comment at the end.
func shellWords(line string) []string {
	var words []string
	for _, found := range regexp.MustCompile(`#.*|(?:[^\s'"]|'[^']*'|"[^"]*")+`).FindAllString(line, -1) {
		if strings.HasPrefix(found, "#") {
			break
		}
		words = append(words, strings.NewReplacer("'", "", `"`, "").Replace(found))
	}
	return words
}
