package main

import (
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"paysaga/internal/config"
)

func newServeCommand() *cobra.Command {
	var address, roleName string
	command := &cobra.Command{
		Use:   "serve",
		Short: "Run the API, the providers' webhooks and the workers",
		Long: `Runs the API and the workers on the database that DATABASE_URL names, until SIGTERM or SIGINT. The API also takes the
providers' webhooks, at /webhooks/stripe, /webhooks/adyen and /webhooks/paypal, and stores them; the workers apply
them, and take up the orders that another process left.

At the end it takes no more orders, lets those that run finish for PAYSAGA_DRAIN_TIMEOUT, and hands the rest back, so that
another process goes on with them at once. Any number of processes may run on one database.

The schema must be up to date: run "paysaga migrate up" before.

Settings, from the environment:
` + settingsHelp(),
		Example: `  export DATABASE_URL=postgres://paysaga@db/paysaga STRIPE_API_KEY=sk_test_…
  export PAYSAGA_ENCRYPTION_KEYS=k1:$(openssl rand -base64 32)
  paysaga serve
  paysaga serve --role worker   # the workers alone, beside API processes with --role api`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := parseRole(roleName)
			if err != nil {
				return err
			}
			environ := os.Environ()
			if address != "" {
				environ = append(environ, "PAYSAGA_ADDR="+address)
			}
			c, err := config.Load(environ)
			if err != nil {
				return err
			}
			return serve(cmd, c, r)
		},
	}
	command.Flags().StringVar(&address, "addr", "", "address to listen on, instead of PAYSAGA_ADDR; port 0 picks a free one")
	command.Flags().StringVar(&roleName, "role", "all", "what to run: api, worker or all")
	_ = command.RegisterFlagCompletionFunc("role",
		cobra.FixedCompletions([]string{"api", "worker", "all"}, cobra.ShellCompDirectiveNoFileComp))
	return command
}

func serve(cmd *cobra.Command, c config.Config, r role) error {
	logger := newLogger(c)
	s, err := newSystem(cmd.Context(), c, logger)
	if err != nil {
		return err
	}
	var listener net.Listener
	if r.api {
		if listener, err = listen(cmd.Context(), c.Addr); err != nil {
			s.store.Close()
			return err
		}
		logger.Info("listening", "url", baseURL(listener))
	}
	return s.run(cmd.Context(), listener, r)
}

func parseRole(name string) (role, error) {
	switch name {
	case "all":
		return role{api: true, worker: true}, nil
	case "api":
		return role{api: true}, nil
	case "worker":
		return role{worker: true}, nil
	}
	return role{}, usageError{fmt.Errorf("role %q: use api, worker or all", name)}
}

// settingsHelp lists the settings for a help text.
func settingsHelp() string {
	var text strings.Builder
	for _, s := range config.Settings() {
		note := ""
		switch {
		case s.Required:
			note = " (required)"
		case s.Default != "":
			note = " (" + s.Default + ")"
		}
		fmt.Fprintf(&text, "  %s%s\n      %s\n", s.Name, note, s.Description)
	}
	return text.String()
}
