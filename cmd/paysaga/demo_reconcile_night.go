package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"

	"github.com/google/uuid"

	theatre "paysaga/internal/stage"
	"paysaga/providers/sandbox"
)

// What goes wrong by night.

type mischief = theatre.Mischief

// act is what happens to something that is planted.
type act func(ctx context.Context, t *reconcileTour, p *planted) error

// diverges has the provider differ from what was ordered.
func diverges(kind string, amount int64) happens {
	return happens{night: func(ctx context.Context, t *reconcileTour, p *planted) error {
		_, err := t.plant(ctx, divergence{Kind: kind, Provider: p.Provider, ID: p.charge.ID, Amount: amount})
		return err
	}}
}

func inCurrency(currency string) happens {
	return happens{night: func(ctx context.Context, t *reconcileTour, p *planted) error {
		_, err := t.plant(ctx, divergence{Kind: "currency_changed", Provider: p.Provider, ID: p.charge.ID, Currency: currency})
		return err
	}}
}

// losesRefund is a refund that the shop asked for and got, and of which the provider knows nothing any more.
var losesRefund = happens{day: refundSome, night: diverges("refund_lost", 0).night}

// strange is a payment that no order knows.
func strange(reference string, amount int64) happens {
	return happens{night: func(ctx context.Context, t *reconcileTour, p *planted) error {
		charge, err := t.plant(ctx, divergence{
			Kind: "charge_without_order", Provider: p.Provider, Reference: reference, Amount: amount, Currency: currency,
		})
		p.charge = charge
		return err
	}}
}

// customer lets an order's customer decide, and nobody hears of it.
func customer(decision string) happens {
	return happens{night: func(ctx context.Context, t *reconcileTour, p *planted) error {
		_, err := t.decide(ctx, p.taken.reply.order().NextAction, decision)
		return err
	}}
}

// inTables changes the rows of an order.
func inTables(change func(m *mischief, ctx context.Context, order uuid.UUID) error) happens {
	return happens{night: func(ctx context.Context, t *reconcileTour, p *planted) error {
		return change(t.mischief, ctx, p.orderID())
	}}
}

// orderID is the order that it happens to: the one that was answered, or the one that the payment names.
func (p *planted) orderID() uuid.UUID {
	if id := p.taken.reply.orderID(); id != uuid.Nil {
		return id
	}
	id, err := uuid.Parse(orderOf(p.charge))
	if err != nil {
		return uuid.Nil // a payment of nobody
	}
	return id
}

// divergence is what POST /_sandbox/divergence takes.
type divergence struct {
	Kind      string `json:"kind"`
	Provider  string `json:"provider"`
	ID        string `json:"id,omitempty"` // of the payment
	Reference string `json:"reference,omitempty"`
	Amount    int64  `json:"amount,omitempty"` // minor units
	Currency  string `json:"currency,omitempty"`
}

// plant asks the sandbox for a divergence.
func (t *reconcileTour) plant(ctx context.Context, wanted divergence) (sandbox.Charge, error) {
	var planted struct {
		Charge sandbox.Charge `json:"charge"`
	}
	content, err := json.Marshal(wanted)
	if err != nil {
		return planted.Charge, fmt.Errorf("encode a divergence: %w", err)
	}
	answer, err := t.askSandbox(ctx, http.MethodPost, "divergence", content)
	if err == nil {
		err = json.Unmarshal(answer, &planted)
	}
	if err != nil {
		return planted.Charge, fmt.Errorf("plant %s: %w", wanted.Kind, err)
	}
	return planted.Charge, nil
}

// askSandbox calls the sandbox's own API and reads the answer.
func (t *reconcileTour) askSandbox(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, t.place.sandboxURL()+"/_sandbox/"+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("ask the sandbox: %w", err)
	}
	answer, err := t.browser.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask the sandbox: %w", err)
	}
	defer func() { _ = answer.Body.Close() }() // it was read to its end
	content, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("read the sandbox's answer: %w", err)
	}
	if answer.StatusCode >= http.StatusBadRequest {
		return nil, fmt.Errorf("the sandbox answers %s: %s", answer.Status, bytes.TrimSpace(content))
	}
	return content, nil
}

// fetchFiles gets each provider's settlement file, and damages what is planted in them.
func (t *reconcileTour) fetchFiles(ctx context.Context) error {
	for _, provider := range testProviders {
		content, err := t.askSandbox(ctx, http.MethodGet, "settlement/"+url.PathEscape(provider.name), nil)
		if err != nil {
			return err
		}
		for _, p := range t.planted {
			if p.happens.file != nil && p.Provider == provider.name {
				if content, err = p.happens.file(content); err != nil {
					return fmt.Errorf("%s: %w", p.name(), err)
				}
			}
		}
		path := filepath.Join(t.dir, "settlement-"+provider.name+".csv")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return fmt.Errorf("write a settlement file: %w", err)
		}
		t.files = append(t.files, path)
	}
	return nil
}

// spoilLine puts a line into PayPal's file that is cut off in the middle.
func spoilLine(content []byte) ([]byte, error) {
	start := bytes.Index(content, []byte("\n\"SB\""))
	if start < 0 {
		start = bytes.Index(content, []byte("\nSB,"))
	}
	if start < 0 {
		return nil, errors.New("the file has no line to spoil")
	}
	start++
	line, _, _ := bytes.Cut(content[start:], []byte("\n"))
	fields := bytes.Split(line, []byte(","))
	const left = 4
	spoiled := append(bytes.Join(fields[:min(left, len(fields))], []byte(",")), '\n')
	return bytes.Join([][]byte{content[:start], spoiled, content[start:]}, nil), nil
}
