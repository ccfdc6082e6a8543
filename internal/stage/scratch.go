package stage

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"

	"github.com/jackc/pgx/v5"
)

// ErrNotScratch tells of a database that has something of somebody's.
var ErrNotScratch = errors.New("the database is no scratch one: it has accounts, whose orders would be deleted")

// CheckScratch makes sure that a migrated database has nothing but what stages left there.
func CheckScratch(ctx context.Context, databaseURL string) error {
	return withConnection(ctx, databaseURL, func(connection *pgx.Conn) error {
		var others bool
		if err := connection.QueryRow(ctx, `SELECT EXISTS (SELECT FROM accounts WHERE id <> $1)`, Account).Scan(&others); err != nil {
			return fmt.Errorf("look for accounts: %w", err)
		}
		if others {
			return ErrNotScratch
		}
		return nil
	})
}

// Copies makes copies of a migrated database that nobody uses, one for each stage, on the same server. They stay until that is removed.
func Copies(ctx context.Context, databaseURL string, n int) (urls []string, err error) {
	address, err := url.Parse(databaseURL)
	if err != nil {
		return nil, errors.New("the database's URL cannot be read") // the parser's own text can hold the password
	}
	template, server := address.Path[min(1, len(address.Path)):], *address
	server.Path = "/postgres" // a database cannot be copied from within
	err = withConnection(ctx, server.String(), func(connection *pgx.Conn) error {
		for i := range n {
			name := template + "_stage_" + strconv.Itoa(i+1)
			statement := "CREATE DATABASE " + pgx.Identifier{name}.Sanitize() + " TEMPLATE " + pgx.Identifier{template}.Sanitize()
			if _, err := connection.Exec(ctx, statement); err != nil {
				return fmt.Errorf("copy the database: %w", err)
			}
			copied := *address
			copied.Path = "/" + name
			urls = append(urls, copied.String())
		}
		return nil
	})
	return urls, err
}

func withConnection(ctx context.Context, databaseURL string, use func(*pgx.Conn) error) error {
	connection, err := pgx.Connect(ctx, databaseURL)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = connection.Close(context.WithoutCancel(ctx)) }()
	return use(connection)
}
