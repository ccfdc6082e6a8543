package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"paysaga/api"
)

// mishaps are all the ways in which a request can go wrong that the client has to mend by itself.
func mishaps() *rapid.Generator[mishap] {
	return rapid.Custom(func(t *rapid.T) mishap {
		m := mishap{Works: rapid.Bool().Draw(t, "works")}
		switch rapid.SampledFrom([]string{"close", "cut", "hang", "5xx", "429", "409"}).Draw(t, "how") {
		case "close": // before the head, whether or not the work was done
		case "cut": // of work that is done; what is cut is never the whole
			m.Works, m.Unmeasured = true, rapid.Bool().Draw(t, "unmeasured")
			m.Cut = rapid.IntRange(1, 300).Draw(t, "cut")
		case "hang":
			m.Hangs = true
		case "5xx":
			m.Status = rapid.SampledFrom([]int{500, 502, 503, 504}).Draw(t, "status")
			m.Problem = rapid.SampledFrom([]string{"", "unavailable"}).Draw(t, "problem")
		case "429":
			m.Status, m.Problem = http.StatusTooManyRequests, rapid.SampledFrom([]string{"", "too-many-new-keys"}).Draw(t, "problem")
		case "409":
			m.Status, m.Problem = http.StatusConflict, rapid.SampledFrom([]string{"request-in-progress", "order-busy"}).Draw(t, "problem")
		}
		if m.Status != 0 {
			m.RetryAfter = rapid.SampledFrom([]string{"", "0", "1", "7"}).Draw(t, "retry after")
		}
		return m
	})
}

// TestOneEffectWhateverIsDropped: for any schedule of mishaps the work is done once, and the client ends with its one answer.
func TestOneEffectWhateverIsDropped(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		schedule := rapid.SliceOfN(mishaps(), 0, 12).Draw(rt, "schedule")
		refuses := rapid.SampledFrom([]string{"", "payment-declined"}).Draw(rt, "refuses")
		var failure error
		synctest.Test(t, func(t *testing.T) { failure = placeOne(t, schedule, refuses) })
		if failure != nil {
			rt.Fatal(failure)
		}
	})
}

// placeOne places an order amid mishaps and tells what is wrong. Time is that of a bubble, so pauses are exact.
func placeOne(t *testing.T, schedule []mishap, refuses string) error {
	t.Helper()
	s := newShop(schedule...)
	s.refuses = refuses
	c, closeAll := open(t, s, nil)
	defer closeAll()
	key := NewKey()
	result, err := c.CreateOrder(t.Context(), key, order())
	if n := s.effects[key.String()]; n != 1 {
		return fmt.Errorf("%d effects", n)
	}
	if err := sameAnswer(s.answers[key.String()], result, err); err != nil {
		return err
	}
	worked := false
	for _, m := range schedule {
		worked = worked || m.Works
	}
	if refuses == "" && (result.Replayed != worked || result.HTTPStatus != http.StatusCreated || result.Pending()) {
		return fmt.Errorf("replayed %t, HTTP status %d", result.Replayed, result.HTTPStatus)
	}
	return sameRequests(c, s.requests, schedule)
}

// sameAnswer compares what the client got with what was kept for the key.
func sameAnswer(kept []byte, result OrderResult, err error) error {
	if problem, ok := errors.AsType[*ProblemError](err); ok && bytes.Contains(kept, []byte(problem.Type)) && problem.Final() {
		return nil
	}
	if err != nil {
		return err
	}
	var want api.Order
	if err := json.Unmarshal(kept, &want); err != nil {
		return err
	}
	if result.Order.ID != want.ID {
		return fmt.Errorf("order %s, want %s", result.Order.ID, want.ID)
	}
	return nil
}

// sameRequests holds all sends against the first one, and the pauses between them against the rules.
func sameRequests(c *Client, requests []seen, schedule []mishap) error {
	if len(requests) != len(schedule)+1 {
		return fmt.Errorf("%d requests for %d mishaps", len(requests), len(schedule))
	}
	for i, m := range schedule {
		before, after := requests[i], requests[i+1]
		if after.key != before.key || after.body != before.body {
			return fmt.Errorf("request %d differs", i+1)
		}
		var least time.Duration
		if m.Hangs {
			least = defaultAttemptTimeout
		}
		if m.RetryAfter != "" {
			seconds, err := time.ParseDuration(m.RetryAfter + "s")
			if err != nil {
				return err
			}
			least += seconds
		}
		if gap := after.at.Sub(before.at); gap < least || gap > least+c.backoff(i+1) {
			return fmt.Errorf("pause %d is %s, want %s to %s more", i+1, gap, least, c.backoff(i+1))
		}
	}
	return nil
}

// TestCutAtEveryByte loses the answer before, within and after its head, and within its body.
func TestCutAtEveryByte(t *testing.T) {
	t.Parallel()
	for _, unmeasured := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			probe := newShop()
			probe.work("probe", http.MethodPost)
			length := len(raw(probe.answers["probe"], false, unmeasured))
			s := newShop()
			c, closeAll := open(t, s, nil)
			defer closeAll()
			for at := range length {
				s.mishaps = []mishap{{Works: true, Cut: at, Unmeasured: unmeasured}}
				key := NewKey()
				result, err := c.CreateOrder(t.Context(), key, order())
				if err := sameAnswer(s.answers[key.String()], result, err); err != nil || s.effects[key.String()] != 1 || !result.Replayed {
					t.Fatalf("cut after %d bytes: %v, %d effects, replayed %t", at, err, s.effects[key.String()], result.Replayed)
				}
			}
			if len(s.requests) != 2*length {
				t.Errorf("%d requests, want %d", len(s.requests), 2*length)
			}
		})
	}
}

// TestRealConnections does the same over TCP: closed and reset connections, kept-alive ones and new ones.
func TestRealConnections(t *testing.T) {
	t.Parallel()
	s := newShop()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	attempts := 0
	c, err := New(Config{BaseURL: server.URL, APIKey: testAPIKey, Observe: func(context.Context, Attempt) { attempts++ }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdleConnections)
	c.jitter = func(time.Duration) time.Duration { return 0 }
	for _, warm := range []bool{false, true} {
		for at := range 200 {
			if !warm {
				c.CloseIdleConnections()
			}
			s.mishaps = []mishap{{Works: at%3 > 0}, {Works: true, Cut: at}, {Status: http.StatusBadGateway}}
			s.requests, attempts = nil, 0
			key := NewKey()
			result, err := c.CreateOrder(t.Context(), key, order())
			if err := sameAnswer(s.answers[key.String()], result, err); err != nil || s.effects[key.String()] != 1 {
				t.Fatalf("cut after %d bytes: %v, %d effects", at, err, s.effects[key.String()])
			}
			if attempts != 4 || len(s.requests) != attempts {
				t.Fatalf("%d attempts, %d requests, want 4: net/http must not send by itself", attempts, len(s.requests))
			}
		}
	}
}

// TestManyAtOnce: intents do not get in each other's way, and goroutines share a client.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const intents = 50
		s := newShop()
		for i := range 4 * intents {
			s.mishaps = append(s.mishaps, mishap{Works: i%2 == 0, Cut: i})
		}
		c, closeAll := open(t, s, func(c *Config) { c.MaxAttempts = math.MaxInt })
		defer closeAll()
		failures := make(chan error, intents)
		for range intents {
			go func() {
				_, err := c.CreateOrder(t.Context(), NewKey(), order())
				failures <- err
			}()
		}
		for range intents {
			if err := <-failures; err != nil {
				t.Error(err)
			}
		}
		if len(s.effects) != intents || len(s.requests) != 5*intents {
			t.Errorf("%d keys, %d requests", len(s.effects), len(s.requests))
		}
		for _, n := range s.effects {
			if n != 1 {
				t.Errorf("%d effects of one key", n)
			}
		}
	})
}
