package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	shopclient "paysaga/api/client"
	"paysaga/internal/config"
)

const (
	// readPatience is how long a command waits for what it only reads: a server that restarts is back by then.
	readPatience = 10 * time.Second
	// decidePatience is how long it waits for a decision: as long as a server takes at most, with a provider that does not answer, and some
	// time for a repeat.
	decidePatience = 60 * time.Second
)

// caller is as whom a command asks the API of a running "paysaga dev".
type caller int

const (
	asShop caller = iota
	asOperator
)

// newAPIClient makes a client for the server that the environment names, or for that of a running "paysaga dev". Whoever names a server
// by plain http trusts the network between.
func newAPIClient(dir string, as caller) (*shopclient.Client, error) {
	server, key := os.Getenv(config.ServerVariable), os.Getenv(config.APIKeyVariable)
	if (server == "") != (key == "") {
		return nil, errors.New("set both PAYSAGA_SERVER and PAYSAGA_API_KEY, or neither")
	}
	if server == "" {
		file, err := readDevFile(dir)
		if err != nil {
			return nil, fmt.Errorf("which server? Set PAYSAGA_SERVER and PAYSAGA_API_KEY, or start \"paysaga dev\" (none runs in %s)", dir)
		}
		server, key = file.BaseURL, file.MerchantKey
		if as == asOperator {
			key = file.OperatorKey
		}
	}
	client, err := shopclient.New(shopclient.Config{BaseURL: server, APIKey: key, UserAgent: "paysaga-cli", AllowPlainHTTP: true})
	if err != nil {
		return nil, fmt.Errorf("PAYSAGA_SERVER, PAYSAGA_API_KEY: %w", err)
	}
	return client, nil
}
