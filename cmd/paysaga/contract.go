package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"paysaga/internal/config"
)

// contractTimeout ends a run that hangs. One against a server of its own takes half of it.
const contractTimeout = time.Minute

// contractOptions are the command's flags.
type contractOptions struct {
	server      string // empty: the run starts a system of its own
	apiKey      string
	otherAPIKey string
	sandbox     string
	dev         string   // folder of a running "paysaga dev", whose server is used
	dir         string   // of the run's own system; empty: a temporary one
	only        []string // names of scenarios; empty: all
	list        bool
	asJSON      bool
	timeout     time.Duration

	environ []string // what else the processes get that it starts
}

func newContractCommand() *cobra.Command {
	var o contractOptions
	command := &cobra.Command{
		Use:   "contract",
		Short: "Check over HTTP what a server promises about Idempotency-Key; ends by itself",
		Long: `Plays a shop that repeats, confuses and loses its requests, and checks each answer: the first call, repeats, twenty at once, other
requests under the same key, other accounts, a server that is killed between charge and save, and so on; "paysaga contract --list"
tells them all.

Without --server it starts a system of its own, a private PostgreSQL, the provider sandbox and "paysaga serve" with the settings that
each scenario needs, and ends it. With --server it asks the server that runs there, whatever it is made of. That must take Stripe's
test payment methods: about thirty orders of up to 39.98 EUR are placed, and some captured, canceled and refunded; stock is set for a
SKU of the run's own. What needs more than HTTP is not shown then: faults and ledgers need --sandbox, a second account
--other-api-key, and what is about settings, crashes and the clock a system of its own.

Keys are best given in the environment: PAYSAGA_SERVER, PAYSAGA_API_KEY and PAYSAGA_OTHER_API_KEY stand in for the flags of the same
names. It takes half a minute, and gives up after --timeout. Where the server limits new keys it waits as long as that says; what
--timeout leaves no time for is not shown.

Exit codes: 0 all that was shown held, 1 something did not or the run was interrupted, 2 it was called wrongly.`,
		Example: `  paysaga contract
  paysaga contract --only running,crash
  paysaga contract --dev                    # at the "paysaga dev" that runs in this folder
  PAYSAGA_API_KEY=… paysaga contract --server https://payments.test.example.com
  paysaga contract --json | jq '.scenarios[] | select(.result == "broken")'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.complete(); err != nil {
				return usageError{err}
			}
			if o.list {
				return listScenarios(cmd, o.asJSON)
			}
			return contract(cmd, o)
		},
	}
	o.addTo(command)
	return command
}

func (o *contractOptions) addTo(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&o.server, "server", "", "base `URL` of the server to ask, instead of one of its own")
	flags.StringVar(&o.apiKey, "api-key", "", "API key of an account there")
	flags.StringVar(&o.otherAPIKey, "other-api-key", "", "API key of another account there")
	flags.StringVar(&o.sandbox, "sandbox", "", "base `URL` of the provider sandbox that the server charges through")
	flags.StringVar(&o.dev, "dev", "", "ask the \"paysaga dev\" that runs in this `folder` (.paysaga when none is named)")
	flags.Lookup("dev").NoOptDefVal = ".paysaga"
	flags.StringVar(&o.dir, "dir", "", "empty or new `folder` for its own system, which is kept; else a temporary one")
	flags.StringSliceVar(&o.only, "only", nil, "`names` of the scenarios to run, instead of all")
	flags.BoolVar(&o.list, "list", false, "list the scenarios and run none")
	flags.BoolVar(&o.asJSON, "json", false, "print JSON")
	flags.DurationVar(&o.timeout, "timeout", contractTimeout, "when to give up, such as on a machine with too much to do")
	for _, name := range []string{"server", "api-key", "other-api-key", "sandbox", "timeout"} {
		_ = command.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
	_ = command.RegisterFlagCompletionFunc("only", completeScenarios)
}

// completeScenarios completes the last name of a list. A candidate is the whole list, as the shell replaces the whole word.
func completeScenarios(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	before := typed[:strings.LastIndex(typed, ",")+1]
	var candidates []string
	for _, name := range scenarioNames() {
		if !slices.Contains(strings.Split(before, ","), name) && strings.HasPrefix(before+name, typed) {
			candidates = append(candidates, before+name)
		}
	}
	return candidates, cobra.ShellCompDirectiveNoFileComp
}

// complete fills in what the environment or a dev.json says, and refuses what does not fit together.
func (o *contractOptions) complete() error {
	for _, name := range o.only {
		if !slices.Contains(scenarioNames(), name) {
			return fmt.Errorf("--only %s: there is no such scenario; --list names them", name)
		}
	}
	if o.dev != "" {
		return o.completeFromDev()
	}
	if o.dir == "" { // whoever names a folder wants a system in it, whatever the environment says
		o.server = cmp.Or(o.server, os.Getenv(config.ServerVariable))
	}
	if o.server == "" {
		if cmp.Or(o.apiKey, o.otherAPIKey, o.sandbox) != "" {
			return errors.New("--api-key, --other-api-key and --sandbox go with --server")
		}
		return nil
	}
	o.apiKey = cmp.Or(o.apiKey, os.Getenv(config.APIKeyVariable))
	o.otherAPIKey = cmp.Or(o.otherAPIKey, os.Getenv(config.OtherAPIKeyVariable))
	switch {
	case o.dir != "":
		return errors.New("--dir is for a system of its own, and goes without --server")
	case o.apiKey == "":
		return fmt.Errorf("--server needs an API key: set %s, or give --api-key", config.APIKeyVariable)
	case o.apiKey == o.otherAPIKey:
		return errors.New("--other-api-key must be another account's")
	}
	return errors.Join(cleanBase("--server", &o.server), cleanBase("--sandbox", &o.sandbox))
}

func (o *contractOptions) completeFromDev() error {
	if cmp.Or(o.server, o.apiKey, o.otherAPIKey, o.sandbox, o.dir) != "" {
		return errors.New("--dev says which server, keys and sandbox are used, and goes alone")
	}
	file, err := readDevFile(o.dev)
	if err != nil {
		return fmt.Errorf("no \"paysaga dev\" runs in %s", o.dev)
	}
	o.server, o.apiKey, o.otherAPIKey, o.sandbox = file.BaseURL, file.MerchantKey, file.OtherMerchantKey, file.SandboxURL
	return nil
}

// cleanBase refuses what is no base URL, and one with a password in it: addresses are printed.
func cleanBase(flag string, base *string) error {
	if *base == "" {
		return nil
	}
	parsed, err := url.Parse(*base)
	if err != nil || !isWebAddress(*base) || parsed.User != nil || parsed.RawQuery != "" || parsed.Fragment != "" {
		return fmt.Errorf("%s must be an http or https URL without user, query and fragment", flag)
	}
	*base = strings.TrimRight(*base, "/")
	return nil
}

// contract runs the scenarios. Whatever happens, what it started has ended when it returns.
func contract(cmd *cobra.Command, o contractOptions) error {
	ctx, cancel := context.WithTimeoutCause(cmd.Context(), o.timeout, fmt.Errorf("it did not end within %s", o.timeout))
	defer cancel()
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	begun := time.Now()
	show := newScreen(cmd.OutOrStdout(), cmd.ErrOrStderr(), o.asJSON)
	run, err := openContract(ctx, o, abort)
	if err != nil {
		return cutShort(ctx, "run", err)
	}
	show.contractBegins(run)
	report := contractReport{Server: run.shop.server, OwnSystem: run.own != nil}
	for _, s := range chosenScenarios(o.only) {
		seen := run.see(ctx, s)
		if ctx.Err() != nil {
			break
		}
		report.Scenarios = append(report.Scenarios, seen)
		show.scenarioEnds(seen)
	}
	report.Requests, report.DurationMS = run.shop.sender.sent.Load(), time.Since(begun).Milliseconds()
	err = errors.Join(cutShort(ctx, "run", context.Cause(ctx)), report.verdict())
	report.OK = err == nil
	err = errors.Join(err, run.close(report.OK || cmd.Context().Err() != nil)) // whoever interrupts has no use for the log
	if o.asJSON {
		return errors.Join(printJSON(cmd, report), err)
	}
	show.contractEnds(report, run)
	return err
}

// contractRun is what the scenarios play with.
type contractRun struct {
	id      string // makes the keys and the SKU of this run its own
	shop    client
	other   client          // of another account; without a secret there is none
	sandbox *sandboxControl // nil where none is known
	own     *ownSystem      // nil where the server is given
}

func openContract(ctx context.Context, o contractOptions, abort func(error)) (*contractRun, error) {
	w := newSender()
	run := &contractRun{id: uuid.NewString()[:8]}
	if o.server == "" {
		own, err := openOwnSystem(ctx, o.dir, o.environ, abort)
		if err != nil {
			return nil, err
		}
		run.own = own
		o.server, o.sandbox = own.server.url, own.place.sandboxURL()
		o.apiKey, o.otherAPIKey = own.place.secrets.MerchantKey, own.place.secrets.OtherMerchantKey
	}
	run.shop = client{server: o.server, secret: o.apiKey, sender: w, patient: true}
	run.other = client{server: o.server, secret: o.otherAPIKey, sender: w, patient: true}
	if o.sandbox != "" {
		run.sandbox = &sandboxControl{url: o.sandbox, sender: w}
	}
	if err := run.fillStock(ctx); err != nil {
		return nil, errors.Join(err, run.close(false))
	}
	return run, nil
}

// fillStock puts what the scenarios sell into stock.
func (r *contractRun) fillStock(ctx context.Context) error {
	for _, shop := range []client{r.shop, r.other} {
		if shop.secret == "" {
			continue
		}
		if err := shop.putStock(ctx, r.sku()); err != nil {
			return fmt.Errorf("put stock at %s: %w", shop.server, err)
		}
	}
	return nil
}

// close ends what the run started, and deletes what it left when that is of no use any more.
func (r *contractRun) close(forget bool) error {
	if r.own == nil {
		return nil
	}
	return r.own.close(forget)
}
