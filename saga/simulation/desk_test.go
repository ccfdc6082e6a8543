package simulation

import (
	"context"
	"errors"
	"time"

	"paysaga/internal/idempotency"
	"paysaga/providers"
	"paysaga/saga"
	"paysaga/saga/simulation/bank"
)

// desk is one server's way to the database.
type desk struct{ s *server }

// ask sends work to the database. What it returns is only believed where the answer has come.
func ask[T any](ctx context.Context, d *desk, op, name string, work func(m *memory) (T, error)) (T, error) {
	var done struct {
		value T
		err   error
	}
	err := d.s.w.cross(ctx, &call{server: d.s, op: op, name: name, work: func() {
		done.value, done.err = work(d.s.w.memory)
		if errors.Is(done.err, saga.ErrLeaseLost) {
			d.s.w.seen.add("lease", "lost")
			d.s.w.seen.add("lease", "lost at "+op)
		}
	}})
	if err != nil {
		var none T
		return none, err
	}
	return done.value, done.err
}

type none struct{}

func (d *desk) Begin(ctx context.Context, claim saga.Claim, change saga.Change, lease time.Duration) (saga.Saga, error) {
	return ask(ctx, d, "begin", change.After.Key.String(), func(m *memory) (saga.Saga, error) { return m.Begin(ctx, claim, change, lease) })
}

func (d *desk) Apply(ctx context.Context, change saga.Change) (saga.Saga, error) {
	return ask(ctx, d, "apply", change.After.Key.String(), func(m *memory) (saga.Saga, error) { return m.Apply(ctx, change) })
}

func (d *desk) Ask(ctx context.Context, claim saga.Claim, change saga.Change, lease time.Duration) (saga.Saga, error) {
	return ask(ctx, d, "ask", change.After.Key.String(), func(m *memory) (saga.Saga, error) { return m.Ask(ctx, claim, change, lease) })
}

func (d *desk) Load(ctx context.Context, ref saga.Ref) (saga.Saga, error) {
	return ask(ctx, d, "load", ref.Key.String(), func(m *memory) (saga.Saga, error) { return m.Load(ctx, ref) })
}

func (d *desk) Refunds(ctx context.Context, order saga.Ref) ([]saga.Saga, error) {
	return ask(ctx, d, "refunds", order.Key.String(), func(m *memory) ([]saga.Saga, error) { return m.Refunds(ctx, order) })
}

// Seize, TakeOver and ClaimDue are a write and a read, between which something can happen: as in internal/postgres, what is read must
// have the fence that was taken.
func (d *desk) Seize(ctx context.Context, ref saga.Ref, fence int64, lease time.Duration) (saga.Saga, error) {
	if _, err := ask(ctx, d, "seize", ref.Key.String(), func(m *memory) (saga.Saga, error) { return m.Seize(ctx, ref, fence, lease) }); err != nil {
		return saga.Saga{}, err
	}
	return d.loadHeld(ctx, ref, fence+1)
}

func (d *desk) TakeOver(ctx context.Context, ref saga.Ref, fence int64, lease time.Duration) (saga.Saga, error) {
	if _, err := ask(ctx, d, "take over", ref.Key.String(), func(m *memory) (saga.Saga, error) { return m.TakeOver(ctx, ref, fence, lease) }); err != nil {
		return saga.Saga{}, err
	}
	return d.loadHeld(ctx, ref, fence+1)
}

func (d *desk) loadHeld(ctx context.Context, ref saga.Ref, fence int64) (saga.Saga, error) {
	held, err := d.Load(ctx, ref)
	if err == nil && held.Lease.Fence != fence {
		return saga.Saga{}, saga.ErrLeaseLost
	}
	return held, err
}

func (d *desk) ClaimDue(ctx context.Context, limit int, lease time.Duration) ([]saga.Saga, error) {
	taken, err := ask(ctx, d, "claim", "", func(m *memory) ([]saga.Saga, error) { return m.ClaimDue(ctx, limit, lease) })
	if err != nil || len(taken) == 0 {
		return nil, err
	}
	return ask(ctx, d, "load claimed", taken[0].Key.String(), func(m *memory) (held []saga.Saga, err error) {
		for _, s := range taken {
			read, err := m.Load(ctx, saga.Ref{AccountID: s.AccountID, Key: s.Key})
			if err == nil && read.Lease.Fence == s.Lease.Fence {
				held = append(held, read)
			}
		}
		return held, nil
	})
}

func (d *desk) Renew(ctx context.Context, ref saga.Ref, fence int64, lease time.Duration) error {
	_, err := ask(ctx, d, "renew", ref.Key.String(), func(m *memory) (none, error) { return none{}, m.Renew(ctx, ref, fence, lease) })
	return err
}

func (d *desk) HandBack(ctx context.Context, ref saga.Ref, fence int64) error {
	_, err := ask(ctx, d, "hand back", ref.Key.String(), func(m *memory) (none, error) { return none{}, m.HandBack(ctx, ref, fence) })
	return err
}

func (d *desk) LookupKey(ctx context.Context, account, endpoint, key string) (idempotency.Record, bool, error) {
	type found struct {
		record idempotency.Record
		used   bool
	}
	got, err := ask(ctx, d, "look key up", endpoint+" "+key, func(m *memory) (f found, err error) {
		f.record, f.used, err = m.LookupKey(ctx, account, endpoint, key)
		return f, err
	})
	return got.record, got.used, err
}

func (d *desk) LastGeneration(ctx context.Context, account, endpoint, key string) (int, error) {
	return ask(ctx, d, "last generation", endpoint+" "+key, func(m *memory) (int, error) { return m.LastGeneration(ctx, account, endpoint, key) })
}

// errNotHere is for requests that hold a key by themselves, of which there are none here.
var errNotHere = errors.New("no request here holds a key of its own")

func (*desk) ClaimKey(context.Context, saga.Claim, time.Duration) (idempotency.Held, error) {
	return idempotency.Held{}, errNotHere
}

func (*desk) TakeKey(context.Context, idempotency.Held, time.Duration) (idempotency.Held, error) {
	return idempotency.Held{}, errNotHere
}
func (*desk) RenewKey(context.Context, idempotency.Held, time.Duration) error { return errNotHere }
func (*desk) AnswerKey(context.Context, idempotency.Held, saga.Answer) error  { return errNotHere }
func (*desk) ReleaseKey(context.Context, idempotency.Held) error              { return errNotHere }
func (*desk) ForgetKey(context.Context, idempotency.Held) error               { return errNotHere }

func (d *desk) findSaga(ctx context.Context, provider string, n providers.Notice) (saga.Ref, error) {
	return ask(ctx, d, "find", n.ID, func(m *memory) (saga.Ref, error) { return m.FindSaga(ctx, provider, n) })
}

// teller is one server's way to a provider.
type teller struct {
	s    *server
	kind bank.Kind
}

func (t *teller) Windows() providers.Windows { return t.kind.Windows() }

func (*teller) Check(providers.ChargeRequest) error { return nil }

// send makes one call. A fault becomes the outcome that an adapter would make of it.
func (t *teller) send(ctx context.Context, op string, key providers.SubKey, request any, work func(b *bank.Bank) providers.Outcome) providers.Outcome {
	w := t.s.w
	var told providers.Outcome
	err := w.cross(ctx, &call{
		server: t.s, op: op, name: string(key), bank: string(t.kind),
		inquire: func() { w.check.sent(t.kind, op, key, request) },
		work: func() {
			told = work(w.banks[t.kind])
			w.seen.add("call", op+" → "+string(told.Kind))
			w.check.moved(t.kind, op, key)
		},
	})
	if err == nil {
		return told
	}
	outcome := providers.Outcome{Kind: providers.Unknown, Code: "timeout"}
	if failed, ok := errors.AsType[*faultError](err); ok {
		outcome = failed.fault.outcome()
	}
	w.seen.add("call", op+" → "+string(outcome.Kind))
	return outcome
}

// outcome is what an adapter makes of a fault.
func (f fault) outcome() providers.Outcome {
	switch f {
	case finalBefore, finalAfter:
		return providers.Outcome{Kind: providers.Unknown, Code: providers.CodeServerErrorFinal}
	case replayed:
		return providers.Outcome{Kind: providers.Unknown, Code: providers.CodeServerErrorReplayed}
	case mismatch:
		return providers.Outcome{Kind: providers.Unknown, Code: providers.CodeIdempotencyMismatch}
	case busy:
		return providers.Outcome{Kind: providers.Busy, RetryAfter: 2 * time.Second}
	case unreachable:
		return providers.Outcome{Kind: providers.Busy, Code: providers.CodeUnreachable}
	case refused:
		return providers.Outcome{Kind: providers.Rejected, Code: "refused"}
	default:
		return providers.Outcome{Kind: providers.Unknown, Code: "server_error"}
	}
}

func (t *teller) Charge(ctx context.Context, r providers.ChargeRequest) providers.Outcome {
	return t.send(ctx, "charge", r.Key, r, func(b *bank.Bank) providers.Outcome {
		outcome, made := b.Charge(r), b.Payments()
		if outcome.Kind == providers.Processing && len(made) > 0 {
			const longest = 4 * 24 * time.Hour // within the deadline of such payments
			t.s.w.decideLater(t.kind, made[len(made)-1], longest)
		}
		return outcome
	})
}

func (t *teller) Continue(ctx context.Context, r providers.ContinueRequest) providers.Outcome {
	return t.send(ctx, "continue", r.Key, r, func(b *bank.Bank) providers.Outcome { return b.Continue(r) })
}

func (t *teller) Capture(ctx context.Context, r providers.CaptureRequest) providers.Outcome {
	return t.send(ctx, "capture", r.Key, r, func(b *bank.Bank) providers.Outcome { return b.Capture(r) })
}

func (t *teller) Lookup(ctx context.Context, r providers.LookupRequest) providers.Outcome {
	return t.send(ctx, "lookup", r.Key, r, func(b *bank.Bank) providers.Outcome { return b.Lookup(r) })
}

func (t *teller) Void(ctx context.Context, r providers.VoidRequest) providers.Outcome {
	return t.send(ctx, "void", r.Key, r, func(b *bank.Bank) providers.Outcome { return b.Void(r) })
}

func (t *teller) Refund(ctx context.Context, r providers.RefundRequest) providers.Outcome {
	return t.send(ctx, "refund", r.Key, r, func(b *bank.Bank) providers.Outcome { return b.Refund(r) })
}

func (t *teller) LookupRefund(ctx context.Context, r providers.RefundLookupRequest) providers.Outcome {
	return t.send(ctx, "check_refund", r.Key, r, func(b *bank.Bank) providers.Outcome { return b.LookupRefund(r) })
}
