package telemetry_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"paysaga/internal/telemetry"
)

const orders = "POST /v1/orders"

func newTelemetry(t *testing.T, c telemetry.Config) *telemetry.Telemetry {
	t.Helper()
	c.Build = telemetry.Build{Version: "v1.2.3", Revision: "abc"}
	c.Endpoints = []string{orders, "PUT /v1/stock/{sku}"}
	made, err := telemetry.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := made.Shutdown(t.Context()); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	return made
}

// scrape gives what the endpoint has for one metric, its help and type left out.
func scrape(t *testing.T, from *telemetry.Telemetry, name string) []string {
	t.Helper()
	answer := httptest.NewRecorder()
	from.Handler().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	if answer.Code != http.StatusOK {
		t.Fatalf("status %d: %s", answer.Code, answer.Body)
	}
	var lines []string
	for line := range strings.Lines(answer.Body.String()) {
		if strings.HasPrefix(line, name) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

var labelName = regexp.MustCompile(`([a-z_]+)="`)

// TestEachMetricAppears has a case for each metric of the table, so that none is there without being recorded, and holds the labels of all
// series against those that are documented.
func TestEachMetricAppears(t *testing.T) {
	t.Parallel()
	made := newTelemetry(t, telemetry.Config{})
	keys, upkeep, reconciled := made.Idempotency(), made.Upkeep(), made.Reconciliation()
	serve := func() {
		handler := made.Middleware(func(*http.Request) string { return "/v1/orders/{id}" })(http.NotFoundHandler())
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/orders/17", nil))
	}
	ask := func() {
		call := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "https://api.example.com/x", nil)
		_, _ = made.Transport(answers(http.StatusPaymentRequired)).RoundTrip(call) //nolint:bodyclose // none
		_, _ = made.Transport(fails{http.ErrHandlerTimeout}).RoundTrip(call)       //nolint:bodyclose // none
	}
	cases := map[string]struct {
		record func()
		want   []string
	}{
		"idempotency.duplicates_blocked": {func() { keys.DuplicateBlocked(orders, "replayed"); keys.DuplicateBlocked(orders, "x") }, []string{
			`idempotency_duplicates_blocked_total{endpoint="POST /v1/orders",how="replayed"} 1`,
			`idempotency_duplicates_blocked_total{endpoint="POST /v1/orders",how="in_progress"} 0`,
			`idempotency_duplicates_blocked_total{endpoint="POST /v1/orders",how="other"} 1`,
		}},
		"idempotency.lock_timeouts": {func() { keys.LockTimeout(orders) }, []string{
			`idempotency_lock_timeouts_total{endpoint="POST /v1/orders"} 1`, `idempotency_lock_timeouts_total{endpoint="PUT /v1/stock/{sku}"} 0`,
		}},
		"idempotency.fingerprint_mismatches": {func() { keys.FingerprintMismatch("GET /"); keys.FingerprintMismatch(orders) }, []string{
			`idempotency_fingerprint_mismatches_total{endpoint="other"} 1`, `idempotency_fingerprint_mismatches_total{endpoint="POST /v1/orders"} 1`,
		}},
		"idempotency.processing_duration_ms": {func() { keys.Processed(orders, "COMPLETED", 20_100*time.Millisecond) }, []string{
			`idempotency_processing_duration_ms_bucket{endpoint="POST /v1/orders",status="COMPLETED",le="20000"} 0`,
			`idempotency_processing_duration_ms_bucket{endpoint="POST /v1/orders",status="COMPLETED",le="25000"} 1`,
			`idempotency_processing_duration_ms_sum{endpoint="POST /v1/orders",status="COMPLETED"} 20100`,
			`idempotency_processing_duration_ms_count{endpoint="POST /v1/orders",status="COMPLETED"} 1`,
		}},
		"idempotency.keys_created_per_user": {func() { keys.KeyCreated("shop", orders) }, []string{
			`idempotency_keys_created_per_user_total{account="shop"} 1`, `idempotency_keys_created_per_user_total{account="other"} 0`,
		}},
		"idempotency.keys_limited":    {func() { keys.KeyLimited("shop", orders) }, []string{`idempotency_keys_limited_total{account="shop"} 1`}},
		"idempotency.orphan_reclaims": {func() { keys.OrphanReclaimed(orders, "recovery") }, []string{`idempotency_orphan_reclaims_total{by="recovery",endpoint="POST /v1/orders"} 1`}},
		"idempotency.store_size": {func() { upkeep.SetStoreSize("idempotency_keys", 7); upkeep.SetStoreSize("pg_class", 1) }, []string{
			`idempotency_store_size{table="idempotency_keys"} 7`, `idempotency_store_size{table="other"} 1`,
		}},
		"idempotency.processing_overdue":                    {func() { upkeep.SetProcessingOverdue(3); upkeep.SetProcessingOverdue(2) }, []string{`idempotency_processing_overdue 2`}},
		"idempotency.answer_partitions_ahead_days":          {func() { upkeep.SetPartitionsAhead(28) }, []string{`idempotency_answer_partitions_ahead_days 28`}},
		"idempotency.keys_cleaned":                          {func() { upkeep.KeysCleaned(1000) }, []string{`idempotency_keys_cleaned_total 1000`}},
		"idempotency.partitions_dropped":                    {func() { upkeep.PartitionsDropped(2) }, []string{`idempotency_partitions_dropped_total 2`}},
		"idempotency.upkeep_last_success_timestamp_seconds": {func() { upkeep.Succeeded(time.Unix(1_800_000_000, 9)) }, []string{`idempotency_upkeep_last_success_timestamp_seconds 1.8e+09`}},
		"saga.open": {func() { upkeep.SetOpenSagas("needs_review", 4) }, []string{`saga_open{state="needs_review"} 4`}},
		"findings.open": {func() {
			reconciled.SetFindings([]telemetry.OpenFindings{{"amount_mismatch", "critical", 2}, {"fee_mismatch", "dire", 1}},
				90*time.Minute, map[string]int64{"EUR": 3998}, time.Unix(1_800_000_000, 0))
			reconciled.SetFindings([]telemetry.OpenFindings{{"fee_mismatch", "dire", 3}}, time.Hour, map[string]int64{"JPY": 500}, time.Unix(1_800_000_060, 0))
		}, []string{
			`findings_open{kind="amount_mismatch",severity="critical"} 0`, `findings_open{kind="fee_mismatch",severity="other"} 3`,
		}},
		"findings.oldest_age_seconds":         {func() {}, []string{`findings_oldest_age_seconds 3600`}},
		"findings.at_stake":                   {func() {}, []string{`findings_at_stake{currency="EUR"} 0`, `findings_at_stake{currency="JPY"} 500`}},
		"findings.measured_timestamp_seconds": {func() {}, []string{`findings_measured_timestamp_seconds 1.80000006e+09`}},
		"reconciliation.runs": {func() { reconciled.RunEnded("apply", "stopped", 61*time.Second) }, []string{
			`reconciliation_runs_total{mode="apply",state="stopped"} 1`, `reconciliation_runs_total{mode="plan",state="failed"} 0`,
		}},
		"reconciliation.run_duration": {func() {}, []string{
			`reconciliation_run_duration_seconds_bucket{mode="apply",state="stopped",le="60"} 0`,
			`reconciliation_run_duration_seconds_bucket{mode="apply",state="stopped",le="300"} 1`,
		}},
		"reconciliation.last_success_timestamp_seconds": {func() { reconciled.SetLastSuccess("stripe", time.Unix(1_800_000_000, 0)) }, []string{
			`reconciliation_last_success_timestamp_seconds{provider="stripe"} 1.8e+09`,
		}},
		"reconciliation.interval_seconds": {func() { reconciled.SetInterval(4 * time.Hour) }, []string{`reconciliation_interval_seconds 14400`}},
		"reconciliation.repairs": {func() {
			reconciled.StartRepairs([]string{"complete", "undo"})
			reconciled.RepairEnded("undo", false)
			reconciled.RepairEnded("undo", true)
		}, []string{
			`reconciliation_repairs_total{repair="undo",result="refused"} 1`, `reconciliation_repairs_total{repair="undo",result="done"} 1`,
			`reconciliation_repairs_total{repair="complete",result="refused"} 0`,
		}},
		"http.server.request.duration": {serve, []string{
			`http_server_request_duration_seconds_count{http_request_method="GET",http_response_status_code="404",http_route="/v1/orders/{id}"} 1`,
		}},
		"http.client.request.duration": {ask, []string{
			`http_client_request_duration_seconds_count{http_request_method="POST",http_response_status_code="402",server_address="api.example.com"} 1`,
			`http_client_request_duration_seconds_count{error_type="_OTHER",http_request_method="POST",server_address="api.example.com"} 1`,
		}},
		"paysaga.build_info": {func() {}, []string{fmt.Sprintf(`paysaga_build_info{go_version=%q,revision="abc",version="v1.2.3"} 1`, runtime.Version())}},
	}
	for _, m := range telemetry.Metrics() {
		each, ok := cases[m.Name]
		if !ok {
			t.Errorf("%s is shown by no case", m.Name)
			continue
		}
		each.record()
		got := scrape(t, made, m.PrometheusName())
		for _, want := range each.want {
			if !slices.Contains(got, want) {
				t.Errorf("%s: not on the endpoint:\n%s\nbut:\n%s", m.Name, want, strings.Join(got, "\n"))
			}
		}
		for _, label := range labelName.FindAllStringSubmatch(strings.Join(got, "\n"), -1) {
			if label[1] != "le" && !slices.Contains(m.PrometheusLabels(), label[1]) {
				t.Errorf("%s has the label %q, which is not documented", m.Name, label[1])
			}
		}
	}
}

func TestGaugesAreAbsentUntilSet(t *testing.T) {
	t.Parallel()
	made := newTelemetry(t, telemetry.Config{})
	for _, name := range []string{
		"idempotency_store_size", "idempotency_processing_overdue", "idempotency_upkeep_last_success", "saga_open",
		"findings_", "reconciliation_last_success", "reconciliation_interval",
	} {
		if got := scrape(t, made, name); len(got) != 0 {
			t.Errorf("not measured, but on the endpoint: %v", got)
		}
	}
}

// TestSeriesStayFew floods the metrics with names, from several goroutines.
func TestSeriesStayFew(t *testing.T) {
	t.Parallel()
	made := newTelemetry(t, telemetry.Config{})
	keys := made.Idempotency()
	const accounts, workers = 10_000, 4
	var flood sync.WaitGroup
	for worker := range workers {
		flood.Go(func() {
			for i := worker; i < accounts; i += workers {
				account, endpoint := fmt.Sprintf("account-%d", i), fmt.Sprintf("POST /v1/orders/%d\"}\n\xff", i)
				keys.KeyCreated(account, orders)
				keys.KeyLimited(account, orders)
				keys.DuplicateBlocked(endpoint, account)
				keys.FingerprintMismatch(endpoint)
				keys.LockTimeout(endpoint)
				keys.OrphanReclaimed(endpoint, account)
				keys.Processed(endpoint, account, time.Second)
				made.Upkeep().SetStoreSize(account, 1)
				made.Upkeep().SetOpenSagas(account, 1)
				call := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+account+".example.com/", nil)
				call.Method = strings.ToUpper(account)
				_, _ = made.Transport(answers(http.StatusOK)).RoundTrip(call) //nolint:bodyclose // none
			}
		})
	}
	flood.Wait()
	// The endpoints are two, each with its words, and "other"; the accounts 100 and "other".
	limits := map[string]int{
		"idempotency_keys_created_per_user_total":         101,
		"idempotency_keys_limited_total":                  101,
		"idempotency_duplicates_blocked_total":            5,
		"idempotency_fingerprint_mismatches_total":        3,
		"idempotency_lock_timeouts_total":                 3,
		"idempotency_orphan_reclaims_total":               5,
		"idempotency_processing_duration_ms_count":        1,
		"idempotency_store_size":                          1,
		"saga_open":                                       1,
		"http_client_request_duration_seconds_count":      17,
		"otel_metric_overflow":                            0,
		`http_client_request_duration_seconds_count{otel`: 0,
	}
	for name, want := range limits {
		if got := scrape(t, made, name); len(got) != want {
			t.Errorf("%s has %d series, not %d; the last: %v", name, len(got), want, got[max(0, len(got)-3):])
		}
	}
	var sum int
	for _, line := range scrape(t, made, "idempotency_keys_created_per_user_total") {
		var n int
		if _, err := fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &n); err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	if sum != accounts {
		t.Errorf("%d keys are counted, not %d", sum, accounts)
	}
}

// TestSeveralLiveInOneProcess: nothing is registered with the libraries' globals.
func TestSeveralLiveInOneProcess(t *testing.T) {
	t.Parallel()
	one, two := newTelemetry(t, telemetry.Config{}), newTelemetry(t, telemetry.Config{})
	one.Upkeep().SetProcessingOverdue(1)
	if got := scrape(t, two, "idempotency_processing_overdue"); len(got) != 0 {
		t.Errorf("the other one's value: %v", got)
	}
}
