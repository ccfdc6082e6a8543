package webhook

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"paysaga/providers"
)

const (
	// maxProviderLength, maxTextLength and maxKeyLength are those of the schema, in bytes.
	maxProviderLength = 32
	maxTextLength     = 255
	maxKeyLength      = providers.MaxSubKeyLength
)

// firstYear and lastYear are those in which an event can be of a payment, and well inside what the database can keep.
const firstYear, lastYear = 2000, 9999

// storable is a notice as the database can keep it. A signature tells who sent an event, not that each text in it is one: an
// event that could never be stored would be sent for days. What does not fit could name nothing of ours.
func storable(n providers.Notice, now time.Time) providers.Notice {
	if n.ID == "" { // what the event says tells it from others
		n.ID = hashed(fmt.Sprint(n.Type, "\x00", n.About, "\x00", n.Key, "\x00", n.Payment, "\x00", n.Reference, "\x00", n.At.UnixNano()))
	} else if !fits(n.ID, maxTextLength) {
		n.ID = hashed(n.ID)
	}
	if year := n.At.UTC().Year(); year < firstYear || year > lastYear {
		n.At = now
	}
	n.Type = fitting(n.Type, maxTextLength)
	n.Key = providers.SubKey(fitting(string(n.Key), maxKeyLength))
	n.Payment, n.Reference = fitting(n.Payment, maxTextLength), fitting(n.Reference, maxTextLength)
	switch n.About {
	case providers.AboutCharge, providers.AboutCapture, providers.AboutVoid, providers.AboutRefund:
	default:
		n.About = providers.AboutOther
	}
	if n.Outcome != nil {
		n.Outcome = storableOutcome(*n.Outcome)
	}
	return n
}

func hashed(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// storableOutcome leaves out what the customer must do: it can hold a secret, and is not an event's to tell.
func storableOutcome(o providers.Outcome) *providers.Outcome {
	kept := providers.Outcome{
		Kind: o.Kind, Reference: fitting(o.Reference, maxTextLength), Code: fitting(o.Code, maxTextLength),
		Detail: fitting(o.Detail, maxTextLength),
		Money:  providers.Money{Amount: o.Money.Amount, Currency: fitting(o.Money.Currency, maxTextLength)},
	}
	if o.Decline != nil {
		kept.Decline = &providers.Decline{
			Code: fitting(o.Decline.Code, maxTextLength), Bank: fitting(o.Decline.Bank, maxTextLength), Hard: o.Decline.Hard,
		}
	}
	return &kept
}

// fitting is a text, or nothing where it does not fit.
func fitting(text string, limit int) string {
	if fits(text, limit) {
		return text
	}
	return ""
}

// fits tells whether PostgreSQL can keep a text: it takes valid UTF-8 without NUL.
func fits(text string, limit int) bool {
	return len(text) <= limit && !strings.ContainsRune(text, 0) && strings.ToValidUTF8(text, "") == text
}
