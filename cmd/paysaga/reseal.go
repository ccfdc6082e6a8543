package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"paysaga/internal/config"
	"paysaga/internal/postgres"
)

func newResealCommand() *cobra.Command {
	var asJSON, onlyPlan bool
	command := &cobra.Command{
		Use:   "reseal",
		Short: "Seal what older encryption keys have sealed anew, with the first one",
		Long: `Passes through everything that is kept sealed (answers, customers' next actions, payment data, details) and seals
anew what another key than the first of PAYSAGA_ENCRYPTION_KEYS has sealed. Then an old key can be taken out; the end tells which.

Servers may run meanwhile, once all of them have the new key in front: what they write wins. It may be interrupted and run again at
any time. What no key opens is named, by its place, and the exit code is 1.

The keys are the servers': PAYSAGA_ENCRYPTION_KEYS or PAYSAGA_ENCRYPTION_KEYS_FILE, the new one in front. The database is the one that
DATABASE_URL names. Where that is not set, both are those of a running "paysaga dev".`,
		Example: "  paysaga reseal --plan\n  paysaga reseal",
		Args:    cobra.NoArgs,
	}
	dir := addDirFlag(command)
	command.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := loadPart(*dir, config.LoadSealing)
		if err != nil {
			return err
		}
		return withStoreOf(cmd.Context(), c, func(store *postgres.Store) error {
			r := &reseal{cmd: cmd, store: store, keyIDs: c.EncryptionKeys.KeyIDs(), asJSON: asJSON}
			if onlyPlan {
				return r.plan(cmd.Context())
			}
			return r.run(cmd.Context())
		})
	}
	command.Flags().BoolVar(&onlyPlan, "plan", false, "count what is sealed with which key, and change nothing")
	command.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return command
}

// reseal is one run of the command.
type reseal struct {
	cmd    *cobra.Command
	store  *postgres.Store
	keyIDs []string // the ring's; the first one seals
	asJSON bool

	resealed int
	left     int // values that were being changed by somebody else
	unopened int
	places   []string // of those, the first maxPlaces
}

// maxPlaces bounds what is told of values that no key opens. If a key is missing there can be millions.
const maxPlaces = 100

// sealedCounts are values by what they are and by the key that has sealed them.
type sealedCounts map[postgres.Sealed]map[string]int

func (r *reseal) plan(ctx context.Context) error {
	counts, err := r.count(ctx)
	if err != nil {
		return err
	}
	if r.asJSON {
		return printJSON(r.cmd, map[string]any{"sealing_key": r.keyIDs[0], "sealed": counts})
	}
	return r.print(counts)
}

// maxPasses bounds how often what somebody else was changing is looked at again. It is changed by a server, which seals with the
// first key.
const maxPasses = 3

func (r *reseal) run(ctx context.Context) error {
	for range maxPasses {
		r.left, r.unopened, r.places = 0, 0, nil
		for _, kind := range postgres.AllSealed() {
			err := r.pass(ctx, kind, "resealed", r.store.Reseal, func(page postgres.SealedPage) {
				r.resealed, r.left = r.resealed+page.Resealed, r.left+page.Left
				r.unopened += len(page.Unopened)
				r.places = append(r.places, page.Unopened[:min(len(page.Unopened), maxPlaces-len(r.places))]...)
			})
			if err != nil {
				return err
			}
		}
		if r.left == 0 {
			break
		}
	}
	counts, err := r.count(ctx) // servers have written meanwhile
	if err != nil {
		return err
	}
	if err := r.tell(counts); err != nil {
		return err
	}
	return r.verdict(counts)
}

// pass goes through all rows of a kind, page by page.
func (r *reseal) pass(
	ctx context.Context, kind postgres.Sealed, doing string,
	page func(context.Context, postgres.Sealed, []string) (postgres.SealedPage, error), see func(postgres.SealedPage),
) error {
	total, err := r.store.EstimateSealed(ctx, kind)
	if err != nil {
		return err
	}
	bar := newBar(r.cmd.ErrOrStderr(), fmt.Sprintf("rows with %s %s", kind, doing), total)
	defer bar.close()
	var rows int64
	for from := []string(nil); ; {
		found, err := page(ctx, kind, from)
		if err != nil {
			return err
		}
		see(found)
		rows += int64(found.Rows)
		bar.to(rows)
		if from = found.Next; from == nil {
			return nil
		}
	}
}

func (r *reseal) count(ctx context.Context) (sealedCounts, error) {
	counts := sealedCounts{}
	for _, kind := range postgres.AllSealed() {
		counts[kind] = map[string]int{}
		err := r.pass(ctx, kind, "counted", r.store.CountSealed, func(page postgres.SealedPage) {
			for id, values := range page.ByKey {
				counts[kind][id] += values
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return counts, nil
}

// inUse names the keys with which something is sealed.
func (c sealedCounts) inUse() []string {
	ids := map[string]bool{}
	for _, byKey := range c {
		for id := range byKey {
			ids[id] = true
		}
	}
	return slices.Sorted(maps.Keys(ids))
}

// unused names the ring's keys that nothing needs any more.
func (r *reseal) unused(counts sealedCounts) []string {
	inUse := counts.inUse()
	unused := []string{}
	for _, id := range r.keyIDs[1:] {
		if !slices.Contains(inUse, id) {
			unused = append(unused, id)
		}
	}
	return unused
}

func (r *reseal) tell(counts sealedCounts) error {
	if r.asJSON {
		return printJSON(r.cmd, map[string]any{
			"sealing_key": r.keyIDs[0], "resealed": r.resealed, "sealed": counts, "unopened": r.unopened, "unopened_places": notNil(r.places),
			"in_use": notNil(counts.inUse()), "unused": r.unused(counts),
		})
	}
	fmt.Fprintf(r.cmd.OutOrStdout(), "sealed anew with %s: %d\n", r.keyIDs[0], r.resealed)
	if err := r.print(counts); err != nil {
		return err
	}
	if unused := r.unused(counts); len(unused) > 0 {
		fmt.Fprintf(r.cmd.OutOrStdout(), "nothing needs %s any more: take it out, once no server has it in front\n", strings.Join(unused, ", "))
	}
	return nil
}

func (r *reseal) print(counts sealedCounts) error {
	table := tabwriter.NewWriter(r.cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SEALED\tWITH\tVALUES")
	for _, kind := range postgres.AllSealed() {
		for _, id := range slices.Sorted(maps.Keys(counts[kind])) {
			fmt.Fprintf(table, "%s\t%s\t%d\n", kind, id, counts[kind][id])
		}
	}
	return table.Flush() //nolint:wrapcheck // standard output
}

// verdict is an error where an older key is still needed.
func (r *reseal) verdict(counts sealedCounts) error {
	problems := make([]error, 0, len(r.places)+1)
	for _, place := range r.places {
		problems = append(problems, errors.New("cannot be opened: "+place))
	}
	if more := r.unopened - len(r.places); more > 0 {
		problems = append(problems, fmt.Errorf("%d more cannot be opened", more))
	}
	if len(problems) == 0 && slices.ContainsFunc(counts.inUse(), func(id string) bool { return id != r.keyIDs[0] }) {
		problems = append(problems, errors.New("older keys still seal: give every server the new key in front, then run this again"))
	}
	return errors.Join(problems...)
}
