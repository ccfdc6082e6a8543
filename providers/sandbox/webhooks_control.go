package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// SetWebhookTarget says where a provider's webhooks go from now on.
func (s *Server) SetWebhookTarget(provider string, target WebhookTarget) error {
	if err := target.validate(provider, s.anywhere); err != nil {
		return err
	}
	s.outboxes[provider].setTarget(target)
	return nil
}

// SetWebhookManner says how a provider's webhooks are sent from now on; an empty provider means all of them.
func (s *Server) SetWebhookManner(provider string, manner WebhookManner) error {
	if err := manner.validate(); err != nil {
		return err
	}
	if provider == "" || provider == "any" {
		for _, each := range s.outboxes {
			each.setManner(manner)
		}
		return nil
	}
	box, known := s.outboxes[provider]
	if !known {
		return fmt.Errorf("%w: provider %q is not one of %v", ErrWebhook, provider, knownProviders)
	}
	box.setManner(manner)
	return nil
}

// FlushWebhooks sends every webhook that waits, whatever its delay, and returns when each was answered. Those that were not
// accepted wait for a retry.
func (s *Server) FlushWebhooks(ctx context.Context) {
	s.settleDue()
	for _, provider := range knownProviders {
		s.outboxes[provider].flush(ctx)
	}
}

// ResendWebhooks sends every webhook once more that was accepted since a time, as providers do on request: for a shop that has lost what
// it was told. At most the last 20,000 of each provider are there to be sent. It returns how many they are, before they are sent.
func (s *Server) ResendWebhooks(since time.Time) int {
	count := 0
	for _, provider := range knownProviders {
		count += s.outboxes[provider].resend(since)
	}
	return count
}

// Webhooks is how each provider's webhooks are sent and what has become of them.
func (s *Server) Webhooks() []WebhookStatus {
	all := make([]WebhookStatus, 0, len(knownProviders))
	for _, provider := range knownProviders {
		all = append(all, s.outboxes[provider].show())
	}
	return all
}

func (s *Server) webhookRoutes(mux *http.ServeMux) {
	show := func(w http.ResponseWriter, _ *http.Request) {
		s.reply(w, http.StatusOK, map[string]any{"webhooks": s.Webhooks()})
	}
	mux.HandleFunc("GET /_sandbox/webhooks", show)
	mux.HandleFunc("POST /_sandbox/webhooks", s.setWebhooks)
	mux.HandleFunc("POST /_sandbox/webhooks/flush", func(w http.ResponseWriter, r *http.Request) {
		s.FlushWebhooks(r.Context())
		show(w, r)
	})
	mux.HandleFunc("POST /_sandbox/webhooks/resend", s.sendAgain)
	mux.HandleFunc("GET /_sandbox/paypal-root.pem", s.showRootCertificate)
}

func (s *Server) sendAgain(w http.ResponseWriter, r *http.Request) {
	var wanted struct {
		Since time.Time `json:"since"`
	}
	if s.readControl(w, r, &wanted) {
		s.reply(w, http.StatusOK, map[string]int{"resent": s.ResendWebhooks(wanted.Since)})
	}
}

func (s *Server) setWebhooks(w http.ResponseWriter, r *http.Request) {
	var wanted struct {
		WebhookManner

		Provider  string   `json:"provider"`
		URL       string   `json:"url"`
		Secrets   []string `json:"secrets"`
		WebhookID string   `json:"webhook_id"`
	}
	if !s.readControl(w, r, &wanted) {
		return
	}
	if wanted.URL == "" && (len(wanted.Secrets) > 0 || wanted.WebhookID != "") {
		s.refuse(w, http.StatusBadRequest, fmt.Errorf("%w: secrets and webhook_id go with a url", ErrWebhook))
		return
	}
	var err error
	if wanted.URL != "" {
		target := WebhookTarget{URL: wanted.URL, Secrets: wanted.Secrets, WebhookID: wanted.WebhookID}
		err = errors.Join(wanted.validate(), target.validate(wanted.Provider, s.anywhere))
		if err == nil {
			err = s.SetWebhookTarget(wanted.Provider, target)
		}
	}
	if err == nil {
		err = s.SetWebhookManner(wanted.Provider, wanted.WebhookManner)
	}
	if err != nil {
		s.refuse(w, http.StatusBadRequest, err)
		return
	}
	s.reply(w, http.StatusOK, map[string]any{"webhooks": s.Webhooks()})
}
