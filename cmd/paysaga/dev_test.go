package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"paysaga/api"
	"paysaga/internal/hygiene"
	"paysaga/internal/pgdev/pgtest"
	"paysaga/providers/sandbox"
)

// running is a run of the program that goes on until it is told to end.
type running struct {
	command *exec.Cmd
	output  *watched
	ended   chan error

	book     *hygiene.Book // what it logs
	url      string        // of its API, once that is known
	database string        // the URL
}

// start starts the program; it is killed at the end of the test if it still runs. Its log is searched for secrets then.
func start(t *testing.T, environ []string, arguments ...string) *running {
	t.Helper()
	r := &running{
		command: program(t, t.Context(), environ, arguments...), output: newWatched(), ended: make(chan error, 1), book: hygiene.New(t),
	}
	nameSecrets(r.book, environ)
	r.database, _ = lookUp(environ, "DATABASE_URL")
	r.command.Stdout, r.command.Stderr = r.output, io.MultiWriter(r.output, r.book)
	noError(t, r.command.Start())
	go func() { r.ended <- r.command.Wait() }()
	t.Cleanup(func() { _ = r.command.Process.Kill() })
	return r
}

// terminate asks the program to end, and fails the test unless it ends well.
func (r *running) terminate(t *testing.T) {
	t.Helper()
	r.tell(t)
	noError(t, r.command.Process.Signal(syscall.SIGTERM))
	select {
	case err := <-r.ended:
		if err != nil {
			t.Errorf("it ended with %v:\n%s", err, r.output.text())
		}
	case <-time.After(programLimit):
		t.Fatalf("it did not end:\n%s", r.output.text())
	}
}

// watched is output that can be waited for.
type watched struct {
	mutex   sync.Mutex
	written strings.Builder
	changed chan struct{} // closed and replaced with each write
}

func newWatched() *watched { return &watched{changed: make(chan struct{})} }

func (w *watched) Write(text []byte) (int, error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	close(w.changed)
	w.changed = make(chan struct{})
	return w.written.Write(text)
}

func (w *watched) text() string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.written.String()
}

// waitFor waits for output of this form and gives its first group.
func (r *running) waitFor(t *testing.T, form string) string {
	t.Helper()
	expression := regexp.MustCompile(form)
	deadline := time.After(programLimit)
	for {
		r.output.mutex.Lock()
		found, changed := expression.FindStringSubmatch(r.output.written.String()), r.output.changed
		r.output.mutex.Unlock()
		if found != nil {
			return found[len(found)-1]
		}
		select {
		case <-changed:
		case err := <-r.ended:
			t.Fatalf("it ended (%v):\n%s", err, r.output.text())
		case <-deadline:
			t.Fatalf("%s did not come:\n%s", form, r.output.text())
		}
	}
}

// openFolder is a folder that also the unprivileged account can pass through which runs PostgreSQL for root.
func openFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "paysaga-dev-test-") //nolint:usetesting // t.TempDir is closed to other accounts
	noError(t, err)
	noError(t, os.Chmod(dir, 0o711))
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// startDev returns when dev is ready. What it wrote for scripts is checked.
func startDev(t *testing.T, dir string, environ ...string) (*running, devFile) {
	t.Helper()
	r := start(t, environ, "dev", "--dir", dir, "--addr", "127.0.0.1:0")
	r.waitFor(t, "The log follows")
	content, err := os.ReadFile(filepath.Join(dir, "dev.json"))
	noError(t, err)
	var file devFile
	decoder := json.NewDecoder(strings.NewReader(string(content)))
	decoder.DisallowUnknownFields()
	noError(t, decoder.Decode(&file))
	if file.PID != r.command.Process.Pid || !strings.HasPrefix(file.BaseURL, "http://127.0.0.1:") || !strings.HasPrefix(file.SandboxURL, "http://127.0.0.1:") ||
		!strings.HasPrefix(file.DatabaseURL, "postgres://") {
		t.Errorf("dev.json: %s", content)
	}
	for _, name := range []string{
		"DATABASE_URL", "PAYSAGA_ENCRYPTION_KEYS", "STRIPE_API_KEY", "STRIPE_WEBHOOK_SECRETS", "STRIPE_BASE_URL",
		"ADYEN_API_KEY", "ADYEN_MERCHANT_ACCOUNT", "ADYEN_HMAC_KEYS", "ADYEN_BASE_URL",
		"PAYPAL_CLIENT_ID", "PAYPAL_CLIENT_SECRET", "PAYPAL_WEBHOOK_ID", "PAYPAL_WEBHOOK_VERIFY", "PAYPAL_BASE_URL",
	} {
		if file.Env[name] == "" {
			t.Errorf("%s is not in the settings for others", name)
		}
	}
	for _, name := range []string{"dev.json", "secrets.json"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v; only its owner may read it", name, info, err)
		}
	}
	r.url, r.database = file.BaseURL, file.DatabaseURL
	nameSecrets(r.book, environOf(file.Env))
	for _, secret := range []string{file.MerchantKey, file.OtherMerchantKey, file.OperatorKey} {
		r.book.Secret("an API key", secret)
	}
	r.book.Body("a request", devOrder)
	return r, file
}

// listens returns when "paysaga serve" does.
func (r *running) listens(t *testing.T) (url string) {
	t.Helper()
	r.url = r.waitFor(t, `msg=listening url=(\S+)`)
	return r.url
}

const (
	devPayment = `{"provider":"stripe","method":"pm_card_visa"}`
	devOrder   = `{"currency":"EUR","amount":3998,"items":[{"sku":"TSHIRT-M","quantity":2,"unit_amount":1999}],"payment":` + devPayment + `}`
)

// call sends a request and gives the status and the body.
func call(t *testing.T, method, url, apiKey, idempotencyKey, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	noError(t, err)
	request.Header.Set("Authorization", "Bearer "+apiKey)
	request.Header.Set("Content-Type", "application/json")
	if idempotencyKey != "" {
		request.Header.Set("Idempotency-Key", idempotencyKey)
	}
	answer, err := http.DefaultClient.Do(request)
	noError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(bufio.NewReader(answer.Body))
	noError(t, err)
	return answer.StatusCode, string(text)
}

// The whole system on a private PostgreSQL: made, used, joined by another server, ended, started again.
func TestDev(t *testing.T) {
	t.Parallel()
	dir := openFolder(t)
	dev, file := startDev(t, dir)
	status, body := call(t, http.MethodPost, file.BaseURL+"/v1/orders", file.MerchantKey, "first-order-0123456789", devOrder)
	if status != http.StatusCreated {
		t.Fatalf("order: %d %s", status, body)
	}
	order := readJSON[api.Order](t, body)
	path := "/v1/orders/" + order.ID.String()
	for key, want := range map[string]int{file.OperatorKey: http.StatusOK, file.OtherMerchantKey: http.StatusNotFound} {
		if status, _ := call(t, http.MethodGet, file.BaseURL+path, key, "", ""); status != want {
			t.Errorf("order for another key: %d, want %d", status, want)
		}
	}
	if _, ledger := call(t, http.MethodGet, file.SandboxURL+"/_sandbox/ledger", "", "", ""); !strings.Contains(ledger, order.Payment.Identifier) {
		t.Errorf("the charge is not in the ledger: %s", ledger)
	}
	checkCommandsOnDev(t, dir, order)
	checkSagasOnDev(t, dir, file)
	checkProvidersOnDev(t, file)
	paysaga(t, nil, "dev", "--dir", dir, "--addr", "127.0.0.1:0").refused(t, exitFailed, strconv.Itoa(file.PID))
	if _, err := os.Stat(filepath.Join(dir, "dev.json")); err != nil {
		t.Fatal("the second dev took the first one's file away")
	}
	joined := start(t, environOf(file.Env), "serve", "--addr", "127.0.0.1:0")
	other := joined.listens(t)
	if status, again := call(t, http.MethodPost, other+"/v1/orders", file.MerchantKey, "first-order-0123456789", devOrder); status != http.StatusCreated || again != body {
		t.Errorf("replay by the server that joined: %d %s", status, again)
	}
	joined.terminate(t)
	dev.terminate(t)
	if _, err := os.Stat(filepath.Join(dir, "dev.json")); !os.IsNotExist(err) {
		t.Errorf("dev.json is still there: %v", err)
	}
	dev, file = startDev(t, dir)
	if status, again := call(t, http.MethodGet, file.BaseURL+path, file.MerchantKey, "", ""); status != http.StatusOK || again != body {
		t.Errorf("after another start: %d %s", status, again)
	}
	dev.terminate(t)
}

// Each provider is paid through, and its webhooks reach the API, which takes them.
func checkProvidersOnDev(t *testing.T, file devFile) {
	t.Helper()
	for _, payment := range []string{
		`{"provider":"adyen","method":"stored_APPROVED"}`, `{"provider":"paypal","method":"vault_COMPLETED"}`,
	} {
		if order := orderOnDev(t, file, http.StatusCreated, payment); order.Status != api.OrderStatusConfirmed {
			t.Errorf("order by %s is %s", payment, order.Status)
		}
	}
	checkApprovalOnDev(t, file)
	_, text := call(t, http.MethodPost, file.SandboxURL+"/_sandbox/webhooks/flush", "", "", "") // those sent just now included
	sent := readJSON[map[string][]sandbox.WebhookStatus](t, text)["webhooks"]
	if len(sent) != 3 {
		t.Errorf("webhooks: %s", text)
	}
	for _, w := range sent {
		if w.Delivered == 0 || w.Waiting > 0 || w.Abandoned > 0 {
			t.Errorf("%s: %d webhooks taken, %d not taken yet, %d given up", w.Provider, w.Delivered, w.Waiting, w.Abandoned)
		}
	}
}

// A wallet is approved on a page of the sandbox; who comes back finds the order confirmed.
func checkApprovalOnDev(t *testing.T, file devFile) {
	t.Helper()
	order := orderOnDev(t, file, http.StatusAccepted, `{"provider":"paypal","method":"wallet"}`)
	if order.NextAction == nil || !strings.HasPrefix(order.NextAction.URL, file.SandboxURL+"/paypal/") {
		t.Fatalf("a wallet's next action: %+v", order.NextAction)
	}
	path := "/_sandbox/payments/" + order.Payment.ProviderReference + "/approve"
	if status, text := call(t, http.MethodPost, file.SandboxURL+path, "", "", ""); status != http.StatusOK {
		t.Fatalf("approve: %d %s", status, text)
	}
	for deadline := time.Now().Add(programLimit); order.Status == api.OrderStatusAwaiting && time.Now().Before(deadline); {
		noError(t, wait(t.Context(), pollPause))
		_, text := call(t, http.MethodGet, file.BaseURL+"/v1/orders/"+order.ID.String(), file.MerchantKey, "", "")
		order = readJSON[api.Order](t, text)
	}
	if order.Status != api.OrderStatusConfirmed {
		t.Errorf("an approved order is %s", order.Status)
	}
}

func orderOnDev(t *testing.T, file devFile, want int, payment string) api.Order {
	t.Helper()
	body := strings.Replace(devOrder, devPayment, payment, 1)
	status, answer := call(t, http.MethodPost, file.BaseURL+"/v1/orders", file.MerchantKey, "order-"+uuid.NewString(), body)
	if status != want {
		t.Fatalf("order by %s: %d, want %d: %s", payment, status, want, answer)
	}
	return readJSON[api.Order](t, answer)
}

// The other commands find a running dev by its folder.
func checkCommandsOnDev(t *testing.T, dir string, order api.Order) {
	t.Helper()
	id := order.ID.String()
	for call, words := range map[string][]string{
		"orders list":                   {id, "39.98 EUR", "captured"},
		"orders list --json":            {`"id": "` + id, `"next_cursor": null`},
		"orders list --status canceled": {"STATUS"},
		"orders get " + id:              {id, "completed", "reserve", "charge", "confirm", "2 × TSHIRT-M at 19.99 EUR"},
		"orders get " + id + " --json":  {`"order"`, `"saga"`, `"steps"`},
		"keys list":                     {"demo-shop", "other-shop", "operator"},
		"migrate status":                {"applied  00001_orders.sql"},
		"orders list --status=failed":   {"STATUS"},
		"orders list --provider=stripe": {id},
	} {
		arguments := append(strings.Fields(call), "--dir", dir)
		out := paysaga(t, nil, arguments...).wellDone(t)
		for _, word := range words {
			if !strings.Contains(out, word) {
				t.Errorf("%s: no %q in\n%s", call, word, out)
			}
		}
	}
	paysaga(t, nil, "orders", "list", "--status", "paid", "--dir", dir).refused(t, exitFailed, "status")
	paysaga(t, nil, "orders", "get", "5f0c1a9e-7d5b-5c3e-9b1a-0f6d2c8e4a71", "--dir", dir).refused(t, exitFailed, "404")
}

// On a database that is given, a second dev in the same folder is refused as well.
func TestDevOnAGivenDatabase(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	given := "DATABASE_URL=" + pgtest.EmptyURL(t)
	dev, file := startDev(t, dir, given)
	if "DATABASE_URL="+file.DatabaseURL != given {
		t.Error("the given database is not used")
	}
	paysaga(t, []string{given}, "dev", "--dir", dir, "--addr", "127.0.0.1:0").refused(t, exitFailed, strconv.Itoa(file.PID))
	dev.terminate(t)
}
