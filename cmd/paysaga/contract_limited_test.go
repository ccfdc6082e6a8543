package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

// fullAt answers 429 until a time, and then 201.
type fullAt struct {
	until time.Time
	asked int
}

func (f *fullAt) RoundTrip(*http.Request) (*http.Response, error) {
	f.asked++
	answer := httptest.NewRecorder()
	if left := time.Until(f.until); left > 0 {
		answer.Header().Set("Retry-After", "18")
		answer.WriteHeader(http.StatusTooManyRequests)
	} else {
		answer.WriteHeader(http.StatusCreated)
	}
	_, _ = io.WriteString(answer, `{}`)
	return answer.Result(), nil
}

// What the server asks for is waited for in full, once for each 429.
func TestClientWaitsForNewKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		server := &fullAt{until: begun.Add(36 * time.Second)}
		shop := client{server: "http://shop", sender: &sender{http: &http.Client{Transport: server}}, patient: true}
		answer, err := shop.place(t.Context(), "a-key-of-16-chars", nil)
		if took := time.Since(begun); err != nil || answer.status != http.StatusCreated || took != 36*time.Second || server.asked != 3 {
			t.Errorf("%s, %v after %s and %d requests", answer, err, took, server.asked)
		}
		server.until = time.Now().Add(time.Hour)
		shop.patient = false
		if answer, err := shop.place(t.Context(), "a-key-of-16-chars", nil); err != nil || answer.status != http.StatusTooManyRequests {
			t.Errorf("whoever looks at the limit gets %s, %v", answer, err)
		}
	})
}

// The wait does not go over the run's time, and repeats that insist end as well.
func TestClientGivesUpAtTheLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := &fullAt{until: time.Now().Add(time.Hour)}
		shop := client{server: "http://shop", sender: &sender{http: &http.Client{Transport: server}}, patient: true}
		ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
		defer cancel()
		begun := time.Now()
		_, err := shop.place(ctx, "a-key-of-16-chars", nil)
		if took := time.Since(begun); !errors.Is(err, errKeysLimited) || took != 18*time.Second {
			t.Errorf("%v after %s", err, took)
		}
		_, _, err = insist(ctx, shop, "a-key-of-16-chars", nil)
		if took := time.Since(begun); !errors.Is(err, errKeysLimited) || took != 18*time.Second {
			t.Errorf("insisted: %v after %s", err, took)
		}
	})
}

// A server that lets no new key begin breaks nothing: what needs one is not shown.
func TestContractWhereKeysAreLimited(t *testing.T) {
	t.Parallel()
	server := newFakeServer(t, "", &fakeLimit{begun: time.Now(), taken: 1000})
	var out bytes.Buffer
	command := &cobra.Command{}
	command.SetOut(&out)
	command.SetErr(&out)
	command.SetContext(t.Context())
	err := contract(command, contractOptions{
		server: server.URL, apiKey: "one", otherAPIKey: "two", only: httpScenarios, asJSON: true, timeout: afterKeyWait,
	})
	report := readJSON[contractReport](t, out.String())
	if err != nil || !report.OK || len(report.Scenarios) != len(httpScenarios) {
		t.Errorf("%v: %s", err, out.String())
	}
	for _, seen := range report.Scenarios {
		want, why := resultNotShown, "the server limits new keys"
		if seen.Name == "no-key" {
			want, why = resultHeld, ""
		}
		if seen.Result != want || !strings.HasPrefix(seen.NotShown, why) {
			t.Errorf("%s is %s: %q %q", seen.Name, seen.Result, seen.NotShown, seen.Problems)
		}
	}
}

// The manual tells the scenarios of the code, in their order.
func TestContractIsTold(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/contract.md")
	noError(t, err)
	rows := regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(string(page), -1)
	told := make([]string, len(rows))
	for i, row := range rows {
		told[i] = row[1]
	}
	if diff := cmp.Diff(scenarioNames(), told); diff != "" {
		t.Errorf("docs/contract.md (-code +page):\n%s", diff)
	}
}

func TestContractCompletion(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{
		"":                     "first-call",
		"ru":                   "running",
		"running,":             "running,first-call",
		"running,cr":           "running,crash",
		"running,crash,first-": "running,crash,first-call",
	} {
		got, _ := completeScenarios(nil, nil, typed)
		if !slices.Contains(got, want) {
			t.Errorf("%q is completed to %q, without %s", typed, got, want)
		}
	}
	if got, _ := completeScenarios(nil, nil, "crash,crash"); len(got) != 0 {
		t.Errorf("a name twice: %q", got)
	}
}

// What the commands on the database need is told where they are called.
func TestHelpTellsWhatIsNeeded(t *testing.T) {
	t.Parallel()
	for command, words := range map[string][]string{
		"upkeep":            {"DATABASE_URL", "PAYSAGA_RETENTION", "PAYSAGA_EXPIRED_KEYS"},
		"upkeep partitions": {"DATABASE_URL", "PAYSAGA_RETENTION", "ATTACHMENT"},
		"reseal":            {"DATABASE_URL", "PAYSAGA_ENCRYPTION_KEYS", "PAYSAGA_ENCRYPTION_KEYS_FILE"},
		"contract":          {"PAYSAGA_SERVER", "PAYSAGA_API_KEY", "PAYSAGA_OTHER_API_KEY", "--timeout"},
	} {
		help := paysaga(t, nil, append(strings.Fields(command), "--help")...).wellDone(t)
		for _, word := range words {
			if !strings.Contains(help, word) {
				t.Errorf("%s --help does not tell %s", command, word)
			}
		}
	}
}
