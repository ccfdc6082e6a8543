package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"paysaga/internal/config"
)

// devFile is what a running "paysaga dev" writes into its folder when it is ready, for scripts and for the other commands.
// It is removed on exit.
type devFile struct {
	BaseURL          string            `json:"base_url"`
	MerchantKey      string            `json:"merchant_key"`
	OtherMerchantKey string            `json:"other_merchant_key"` // of another account
	OperatorKey      string            `json:"operator_key"`
	DatabaseURL      string            `json:"database_url"`
	SandboxURL       string            `json:"sandbox_url"`
	PID              int               `json:"pid"`
	Env              map[string]string `json:"env"` // settings with which another "paysaga serve" joins the same system
}

const devFileName = "dev.json"

// addDirFlag adds the folder of "paysaga dev" to a command and those below it.
func addDirFlag(command *cobra.Command) *string {
	return command.PersistentFlags().String("dir", ".paysaga", "folder of paysaga dev, asked when the environment says nothing")
}

func readDevFile(dir string) (devFile, error) {
	content, err := os.ReadFile(filepath.Join(dir, devFileName)) //nolint:gosec // the folder is the caller's own
	if err != nil {
		return devFile{}, fmt.Errorf("read what paysaga dev wrote: %w", err)
	}
	var file devFile
	if err := json.Unmarshal(content, &file); err != nil {
		return devFile{}, fmt.Errorf("read what paysaga dev wrote: %w", err)
	}
	return file, nil
}

// refuseSecondDev keeps two of them from sharing a folder: each would take the other's file away. What a killed one left
// behind does not count.
func refuseSecondDev(ctx context.Context, dir string) error {
	file, err := readDevFile(dir)
	if err != nil {
		return nil // none runs here
	}
	const patience = time.Second // it is on this machine
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, file.BaseURL+"/healthz", nil)
	if err != nil {
		return nil // not a file of ours
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil // it has ended
	}
	_ = answer.Body.Close()
	return fmt.Errorf("\"paysaga dev\" runs in %s already, as process %d at %s; use it, end it, or name another --dir",
		dir, file.PID, file.BaseURL)
}

// write puts the file into place whole: a script that waits for it never sees a part.
func (f devFile) write(dir string) (remove func(), err error) {
	content, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", devFileName, err)
	}
	path := filepath.Join(dir, devFileName)
	if err := writePrivate(path, append(content, '\n')); err != nil {
		return nil, err
	}
	return func() { _ = os.Remove(path) }, nil
}

// writePrivate replaces a file that only its owner may read.
func writePrivate(path string, content []byte) error {
	temporary := path + ".new"
	if err := os.WriteFile(temporary, content, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", temporary, err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("put %s into place: %w", path, err)
	}
	return nil
}

// databaseURL is that of the environment, or that of a running "paysaga dev".
func databaseURL(dir string) (string, error) {
	if os.Getenv("DATABASE_URL") != "" {
		url, err := config.LoadDatabaseURL(os.Environ())
		if err != nil {
			return "", err
		}
		return url.Reveal(), nil
	}
	file, err := readDevFile(dir)
	if errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("which database? Set DATABASE_URL, or start \"paysaga dev\" (none runs in %s)", dir)
	}
	return file.DatabaseURL, err
}

func printJSON(cmd *cobra.Command, value any) error {
	encoder := json.NewEncoder(cmd.OutOrStdout())
	encoder.SetIndent("", "  ")
	return encoder.Encode(value) //nolint:wrapcheck // standard output
}
