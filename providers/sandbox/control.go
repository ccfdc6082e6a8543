package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// errControl is why a control call cannot be done.
var errControl = errors.New("not possible")

// maxControlBody is far above any control call.
const maxControlBody = 64 << 10

// action plays the part of a customer or of a bank.
type action string

const (
	actionApprove action = "approve" // the customer passes the challenge
	actionRefuse  action = "refuse"
	actionSettle  action = "settle" // the bank pays
	actionFail    action = "fail"
)

func lowerCurrency(code string) string { return strings.ToLower(code) }

func (s *Server) controlRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		s.reply(w, http.StatusOK, map[string]string{fieldStatus: "ok"})
	})
	mux.HandleFunc("GET /_sandbox/ledger", func(w http.ResponseWriter, _ *http.Request) {
		s.reply(w, http.StatusOK, map[string]any{"charges": s.Ledger()})
	})
	mux.HandleFunc("GET /_sandbox/requests", s.showRequests)
	mux.HandleFunc("GET /_sandbox/faults", func(w http.ResponseWriter, _ *http.Request) {
		s.reply(w, http.StatusOK, map[string]any{"faults": s.faults.list()})
	})
	mux.HandleFunc("POST /_sandbox/faults", s.setFault)
	mux.HandleFunc("DELETE /_sandbox/faults", func(w http.ResponseWriter, _ *http.Request) {
		s.faults.clear()
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("POST /_sandbox/divergence", s.plantDivergence)
	mux.HandleFunc("GET /_sandbox/settlement/{provider}", s.showSettlement)
	mux.HandleFunc("POST /_sandbox/payments/{id}/{action}", s.actOnPayment)
	mux.HandleFunc("POST /_sandbox/refunds/{id}/{action}", s.actOnRefund)
	mux.HandleFunc("POST /_sandbox/clock", s.setClock)
	mux.HandleFunc("POST /_sandbox/settings", s.setSettings)
	s.webhookRoutes(mux)
	mux.HandleFunc("POST /_sandbox/reset", func(w http.ResponseWriter, _ *http.Request) {
		s.Reset()
		w.WriteHeader(http.StatusNoContent)
	})
}

func (s *Server) reply(w http.ResponseWriter, status int, value any) {
	if err := jsonAnswer(status, value).writeTo(w); err != nil {
		s.log.Debug("control answer not delivered", "error", err)
	}
}

func (s *Server) refuse(w http.ResponseWriter, status int, err error) {
	s.reply(w, status, map[string]string{"error": err.Error()})
}

// readControl decodes a body strictly and answers itself when it cannot.
func (s *Server) readControl(w http.ResponseWriter, r *http.Request, into any) bool {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxControlBody))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(into)
	if err == nil {
		if _, trailing := decoder.Token(); !errors.Is(trailing, io.EOF) {
			err = errors.New("more than one JSON value")
		}
	}
	if err != nil {
		s.refuse(w, http.StatusBadRequest, fmt.Errorf("read body: %w", err))
		return false
	}
	return true
}

func (s *Server) showRequests(w http.ResponseWriter, r *http.Request) {
	limit := maxRecordedRequests
	if asked := r.URL.Query().Get("limit"); asked != "" {
		number, err := strconv.Atoi(asked)
		if err != nil || number < 1 {
			s.refuse(w, http.StatusBadRequest, errors.New("limit must be a positive integer"))
			return
		}
		limit = number
	}
	s.reply(w, http.StatusOK, map[string]any{"requests": s.journal.last(limit)})
}

func (s *Server) setFault(w http.ResponseWriter, r *http.Request) {
	var fault Fault
	if !s.readControl(w, r, &fault) {
		return
	}
	added, err := s.faults.add(fault)
	if err != nil {
		s.reply(w, http.StatusBadRequest, map[string]any{"error": err.Error(), "known_faults": faultKinds, "known_calls": callTypes})
		return
	}
	s.reply(w, http.StatusCreated, added)
}

func (s *Server) actOnPayment(w http.ResponseWriter, r *http.Request) {
	s.act(w, r, []action{actionApprove, actionRefuse, actionSettle, actionFail}, simulation.actOnPayment)
}

func (s *Server) actOnRefund(w http.ResponseWriter, r *http.Request) {
	s.act(w, r, []action{actionSettle, actionFail}, simulation.actOnRefund)
}

func (s *Server) act(w http.ResponseWriter, r *http.Request, known []action, do func(simulation, string, action) (bool, error)) {
	wanted := action(r.PathValue("action"))
	allowed := false
	for _, each := range known {
		allowed = allowed || each == wanted
	}
	if !allowed {
		s.refuse(w, http.StatusNotFound, fmt.Errorf("%w: action %q is not one of %s", errControl, wanted, join(known)))
		return
	}
	for _, each := range s.simulations {
		found, err := do(each, r.PathValue("id"), wanted)
		switch {
		case err != nil:
			s.refuse(w, http.StatusConflict, err)
			return
		case found:
			s.reply(w, http.StatusOK, map[string]string{"id": r.PathValue("id"), "action": string(wanted)})
			return
		}
	}
	s.refuse(w, http.StatusNotFound, fmt.Errorf("%w: there is no such id", errControl))
}

// maxClockStep keeps the clock's arithmetic far from overflow.
const maxClockStep = 366 * 24 * time.Hour

func (s *Server) setClock(w http.ResponseWriter, r *http.Request) {
	var step struct {
		AdvanceMS int64 `json:"advance_ms"`
	}
	if !s.readControl(w, r, &step) {
		return
	}
	if step.AdvanceMS < 0 || step.AdvanceMS > maxClockStep.Milliseconds() {
		s.refuse(w, http.StatusBadRequest, fmt.Errorf("%w: advance_ms must be between 0 and %d", errControl, maxClockStep.Milliseconds()))
		return
	}
	s.AdvanceClock(time.Duration(step.AdvanceMS) * time.Millisecond)
	s.reply(w, http.StatusOK, map[string]time.Time{"now": s.clock.now()})
}

func (s *Server) setSettings(w http.ResponseWriter, r *http.Request) {
	var wanted struct {
		SearchDelayMS *int64 `json:"search_delay_ms"`
		SettleAfterMS *int64 `json:"settle_after_ms"`
	}
	if !s.readControl(w, r, &wanted) {
		return
	}
	delays := make([]*time.Duration, 0, 2)
	for _, each := range []*int64{wanted.SearchDelayMS, wanted.SettleAfterMS} {
		if each == nil {
			delays = append(delays, nil)
			continue
		}
		if *each < 0 || *each > maxClockStep.Milliseconds() {
			s.refuse(w, http.StatusBadRequest, fmt.Errorf("%w: a delay must be between 0 and %d ms", errControl, maxClockStep.Milliseconds()))
			return
		}
		delay := time.Duration(*each) * time.Millisecond
		delays = append(delays, &delay)
	}
	s.settings.set(delays[0], delays[1])
	search, settle := s.settings.delays()
	s.reply(w, http.StatusOK, map[string]int64{"search_delay_ms": search.Milliseconds(), "settle_after_ms": settle.Milliseconds()})
}
