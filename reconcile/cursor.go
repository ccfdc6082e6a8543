package reconcile

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
)

// String gives the place as a run's cursor has it.
func (p Place) String() string { return p.OrderID.String() + " " + p.AccountID }

func placeOf(cursor string) (Place, error) {
	if cursor == "" {
		return Place{}, nil
	}
	order, account, _ := strings.Cut(cursor, " ")
	id, err := uuid.Parse(order)
	if err != nil {
		return Place{}, fmt.Errorf("cursor of the run: %w", err)
	}
	return Place{AccountID: account, OrderID: id}, nil
}

// String gives what is named as a run's cursor has it.
func (p Provided) String() string { return p.Provider + " " + p.Reference }

func providedOf(cursor string) Provided {
	provider, reference, _ := strings.Cut(cursor, " ")
	return Provided{Provider: provider, Reference: reference}
}

// listPlace is where the reading of the providers' lists stands.
type listPlace struct {
	Provider string    `json:"provider"`
	From     time.Time `json:"from"`            // of the time that is being listed
	Until    time.Time `json:"until"`           // its end
	Goal     time.Time `json:"goal"`            // where this provider's listing ends
	Page     string    `json:"page,omitempty"`  // the provider's own cursor
	Pages    int       `json:"pages,omitempty"` // that were read of this time
}

func (p listPlace) String() string {
	text, err := json.Marshal(p)
	if err != nil {
		return ""
	}
	return string(text)
}

func listPlaceOf(cursor string) (listPlace, error) {
	var place listPlace
	if cursor == "" {
		return place, nil
	}
	if err := json.Unmarshal([]byte(cursor), &place); err != nil {
		return place, fmt.Errorf("cursor of the run: %w", err)
	}
	return place, nil
}
