package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"paysaga/internal/pgdev/pgtest"
	theatre "paysaga/internal/stage"
	"paysaga/providers/sandbox"
)

// An order whose money is held, and goes on, is exported as it stands, and replayed before it is handed out. What its fixture does not
// explain is told.
func TestFixturesExport(t *testing.T) {
	t.Parallel()
	s := theatre.New(t, theatre.Options{DatabaseURL: pgtest.URL(t), Sandbox: sandbox.Options{}})
	order := theatre.TwoCups(theatre.Stripe, theatre.Pays)
	order.Payment.Capture = "manual"
	f := s.NewFlow(order)
	f.Place()
	export := func(o exportOptions) (out, told string, err error) {
		var printed, said bytes.Buffer
		command := &cobra.Command{}
		command.SetContext(t.Context())
		command.SetOut(&printed)
		command.SetErr(&said)
		o.account = theatre.Account
		err = exportFixture(command, s.Store(), f.First.ID, o)
		return printed.String(), said.String(), err
	}
	scratch := pgtest.EmptyURL(t)
	out, told, err := export(exportOptions{databaseURL: scratch})
	if err != nil || told != "" || !strings.Contains(out, "open: true") {
		t.Fatalf("error = %v, said:\n%s\n%s", err, told, out)
	}
	s.Exec(`UPDATE saga_steps SET sends = 7, outcome = 'succeeded' WHERE name = 'charge'`) // by a hand in the tables: nothing leads to it
	_, told, err = export(exportOptions{databaseURL: scratch})
	if !errors.Is(err, errUnexplained) || !strings.Contains(told, "not explained: step <saga>_charge: it was ") {
		t.Errorf("error = %v, said:\n%s", err, told)
	}
	if _, told, err = export(exportOptions{noCheck: true}); err != nil || told != "" {
		t.Errorf("unchecked: error = %v, said:\n%s", err, told)
	}
	if _, _, err = export(exportOptions{databaseURL: pgtest.URL(t)}); err == nil || !strings.Contains(err.Error(), "createdb scratch") {
		t.Errorf("in a database that is not given away: error = %v", err)
	}
}
