package sandbox

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// settlementOrder asks for a settlement file. The same order gives the same file, byte for byte, while nothing happens to what it is about.
type settlementOrder struct {
	from, until time.Time      // by when money came or went; until is not included
	zone        *time.Location // of the times in the file
	batch       int            // its number, at Adyen
}

// settlementFile is a settlement file in its provider's format.
type settlementFile struct {
	name    string
	content []byte
}

// maxBatch keeps batch numbers to the digits that Adyen's have.
const maxBatch = 999_999

// booking is money of a payment that came onto the account's balance or left it. Amounts are in the provider's units, from the shop's
// side; fee is positive where it costs the shop. Net is told by itself, as files can be wrong about it.
type booking struct {
	at              time.Time
	kind            string // the provider's word
	id              string // the provider's id of the booking, or of what is booked
	payment         string // the provider's id of the payment
	about           string // of the capture, refund or chargeback itself
	currency        string // upper case
	gross, fee, net int64
	key, saga       string // the payment's marks
	ownKey          string // the refund's mark
	costs           adyenCost
	merchant        string
}

// showSettlement is GET /_sandbox/settlement/{provider}?from=&until=&timezone=&batch=.
func (s *Server) showSettlement(w http.ResponseWriter, r *http.Request) {
	order, err := readSettlementOrder(r.URL.Query(), s.clock.now())
	if err != nil {
		s.refuse(w, http.StatusBadRequest, err)
		return
	}
	for _, each := range s.simulations {
		if each.provider() != r.PathValue("provider") {
			continue
		}
		file := each.settlement(order)
		w.Header().Set("Content-Type", "text/csv; charset=utf-8")
		w.Header().Set("Content-Disposition", `attachment; filename="`+file.name+`"`)
		if _, err := w.Write(file.content); err != nil {
			s.log.Debug("settlement file not delivered", "error", err)
		}
		return
	}
	s.refuse(w, http.StatusNotFound, fmt.Errorf("%w: provider %q is not simulated", errControl, r.PathValue("provider")))
}

func readSettlementOrder(query url.Values, now time.Time) (settlementOrder, error) {
	order := settlementOrder{until: now, zone: time.UTC, batch: 1}
	for name, into := range map[string]*time.Time{"from": &order.from, "until": &order.until} {
		if text := query.Get(name); text != "" {
			at, err := time.Parse(time.RFC3339, text)
			if err != nil {
				return order, fmt.Errorf("%w: %s must be a time as 2026-03-01T00:00:00Z", errControl, name)
			}
			*into = at
		}
	}
	if !order.until.After(order.from) {
		return order, fmt.Errorf("%w: until must be after from", errControl)
	}
	var err error
	if order.zone, err = time.LoadLocation(cmp.Or(query.Get("timezone"), "UTC")); err != nil {
		return order, fmt.Errorf("%w: timezone must be a name as Europe/Berlin", errControl)
	}
	if text := query.Get("batch"); text != "" {
		if order.batch, err = strconv.Atoi(text); err != nil || order.batch < 1 || order.batch > maxBatch {
			return order, fmt.Errorf("%w: batch must be between 1 and %d", errControl, maxBatch)
		}
	}
	return order, nil
}

func (o settlementOrder) covers(at time.Time) bool {
	return !at.IsZero() && !at.Before(o.from) && at.Before(o.until)
}

// id is an id of something that is made for the file alone, a payout: the same for the same order.
func (o settlementOrder) id(length int, of ...string) string {
	text := o.from.UTC().Format(time.RFC3339Nano) + o.until.UTC().Format(time.RFC3339Nano) + strings.Join(of, "\x00")
	digest := sha256.Sum256([]byte(text))
	return strings.ToUpper(hex.EncodeToString(digest[:]))[:length]
}

// inOrder sorts bookings by time; those of one time stay as they are.
func inOrder(bookings []booking) []booking {
	slices.SortStableFunc(bookings, func(a, b booking) int { return a.at.Compare(b.at) })
	return bookings
}

// byCurrency are the currencies of bookings, in order.
func byCurrency(bookings []booking) []string {
	var currencies []string
	for _, each := range bookings {
		if !slices.Contains(currencies, each.currency) {
			currencies = append(currencies, each.currency)
		}
	}
	slices.Sort(currencies)
	return currencies
}

// decimal writes an amount with a number of decimals.
func decimal(amount int64, decimals int) string {
	sign := ""
	if amount < 0 {
		sign, amount = "-", -amount
	}
	if decimals == 0 {
		return sign + strconv.FormatInt(amount, 10)
	}
	unit := powerOfTen(decimals)
	return sign + strconv.FormatInt(amount/unit, 10) + "." + strconv.FormatInt(unit+amount%unit, 10)[1:]
}

// table writes rows as Stripe and Adyen do: quotes only where they are needed.
func table(rows [][]string) []byte {
	var content bytes.Buffer
	writer := csv.NewWriter(&content)
	if err := errors.Join(writer.WriteAll(rows), writer.Error()); err != nil { // a buffer takes everything
		return nil
	}
	return content.Bytes()
}
