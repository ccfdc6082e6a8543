package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paysaga/internal/seal"
	"paysaga/reconcile"
	"paysaga/saga"
)

// Sealed is a column of sealed values.
type Sealed string

// The columns. Answers are found by their keys: one that no key points to is read by nobody.
const (
	SealedAnswers Sealed = "answers"
	SealedActions Sealed = "next actions"
	SealedData    Sealed = "payment data"
	SealedDetails Sealed = "step details"
	SealedHere    Sealed = "findings here"
	SealedThere   Sealed = "findings there"
)

// AllSealed lists the columns.
func AllSealed() []Sealed {
	return []Sealed{SealedAnswers, SealedActions, SealedData, SealedDetails, SealedHere, SealedThere}
}

// column is what SQL needs to know about a Sealed.
type column struct {
	table string // whose rows are passed through, in the order of their primary key
	first []string
	// page selects the rows after a place, ($1, …), in order: their own places, what else their context needs, and the value.
	page string
	// replace changes values by their places, if they are still what they were. $1 … are the places, then old and new values.
	replace string
	context func(place, more []string) ([]byte, error)
	name    func(place, more []string) string // for people; no client's key
}

const (
	noUUID = "00000000-0000-0000-0000-000000000000" // comes before every other
	// resealPage bounds what is held in memory: of an answer at most a MiB, and usually some KiB.
	resealPage = 200
	// countPage bounds a statement to some milliseconds. Only the first bytes of values are read.
	countPage = 5000
)

var errUnknownColumn = errors.New("there are no such sealed values")

func columnOf(kind Sealed) (column, error) {
	switch kind {
	case SealedAnswers:
		return answersColumn(), nil
	case SealedActions:
		return ordersColumn("next_action", actionContext), nil
	case SealedData:
		return ordersColumn("payment_data", dataContext), nil
	case SealedDetails:
		return detailsColumn(), nil
	case SealedHere:
		return factsColumn(sideHere), nil
	case SealedThere:
		return factsColumn(sideThere), nil
	}
	return column{}, errUnknownColumn
}

func answersColumn() column {
	return column{
		table: "idempotency_keys",
		first: []string{"", "", ""},
		page: `
			SELECT ARRAY[k.account_id, k.endpoint, k.key],
				ARRAY[COALESCE(k.saga_key, '` + noUUID + `')::text, k.generation::text, COALESCE(k.answer_on::text, ''),
					COALESCE(k.answer_id::text, '')], a.body AS sealed
			FROM idempotency_keys k
			LEFT JOIN idempotency_answers a ON a.account_id = k.account_id AND a.expires_on = k.answer_on AND a.id = k.answer_id
			WHERE (k.account_id, k.endpoint, k.key) > ($1::text, $2::text, $3::text)
			ORDER BY k.account_id, k.endpoint, k.key`,
		replace: `
			WITH free AS (
				SELECT a.account_id, a.expires_on, a.id, n.new
				FROM unnest($1::text[], $2::text[], $3::text[], $4::bytea[], $5::bytea[]) AS n (account_id, endpoint, key, old, new)
				JOIN idempotency_keys k ON k.account_id = n.account_id AND k.endpoint = n.endpoint AND k.key = n.key
				JOIN idempotency_answers a ON a.account_id = k.account_id AND a.expires_on = k.answer_on AND a.id = k.answer_id AND a.body = n.old
				FOR NO KEY UPDATE OF a SKIP LOCKED)
			UPDATE idempotency_answers a SET body = free.new FROM free
			WHERE a.account_id = free.account_id AND a.expires_on = free.expires_on AND a.id = free.id`,
		context: func(place, more []string) ([]byte, error) {
			sagaKey, err := uuid.Parse(more[0])
			if err != nil {
				return nil, fmt.Errorf("read a saga's key: %w", err)
			}
			generation, err := strconv.Atoi(more[1])
			if err != nil {
				return nil, fmt.Errorf("read a generation: %w", err)
			}
			return answerContext(place[0], answerOf(sagaKey, place[0], place[1], place[2], generation)), nil
		},
		name: func(place, more []string) string {
			return fmt.Sprintf("idempotency_answers: account %s, expires on %s, id %s", place[0], more[2], more[3])
		},
	}
}

func ordersColumn(name string, context func(account string, order uuid.UUID) []byte) column {
	return column{
		table: "orders",
		first: []string{"", noUUID},
		page: `
			SELECT ARRAY[account_id, id::text], ARRAY[]::text[], ` + name + ` AS sealed FROM orders
			WHERE (account_id, id) > ($1::text, $2::text::uuid) ORDER BY account_id, id`,
		replace: `
			WITH free AS (
				SELECT o.account_id, o.id, n.new FROM unnest($1::text[], $2::text[], $3::bytea[], $4::bytea[]) AS n (account_id, id, old, new)
				JOIN orders o ON o.account_id = n.account_id AND o.id = n.id::uuid AND o.` + name + ` = n.old
				FOR NO KEY UPDATE OF o SKIP LOCKED)
			UPDATE orders o SET ` + name + ` = free.new FROM free WHERE o.account_id = free.account_id AND o.id = free.id`,
		context: func(place, _ []string) ([]byte, error) {
			order, err := uuid.Parse(place[1])
			if err != nil {
				return nil, fmt.Errorf("read an order's id: %w", err)
			}
			return context(place[0], order), nil
		},
		name: func(place, _ []string) string {
			return fmt.Sprintf("orders.%s: account %s, id %s", name, place[0], place[1])
		},
	}
}

func detailsColumn() column {
	return column{
		table: "saga_steps",
		first: []string{"", noUUID, "", "0"},
		page: `
			SELECT ARRAY[account_id, saga_key::text, name, attempt::text], ARRAY[]::text[], details AS sealed FROM saga_steps
			WHERE (account_id, saga_key, name, attempt) > ($1::text, $2::text::uuid, $3::text, $4::text::int)
			ORDER BY account_id, saga_key, name, attempt`,
		replace: `
			WITH free AS (
				SELECT t.account_id, t.saga_key, t.name, t.attempt, n.new
				FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bytea[], $6::bytea[])
					AS n (account_id, saga_key, name, attempt, old, new)
				JOIN saga_steps t ON t.account_id = n.account_id AND t.saga_key = n.saga_key::uuid AND t.name = n.name
					AND t.attempt = n.attempt::int AND t.details = n.old
				FOR NO KEY UPDATE OF t SKIP LOCKED)
			UPDATE saga_steps t SET details = free.new FROM free
			WHERE t.account_id = free.account_id AND t.saga_key = free.saga_key AND t.name = free.name AND t.attempt = free.attempt`,
		context: func(place, _ []string) ([]byte, error) {
			key, err := uuid.Parse(place[1])
			if err != nil {
				return nil, fmt.Errorf("read a saga's key: %w", err)
			}
			attempt, err := strconv.Atoi(place[3])
			if err != nil {
				return nil, fmt.Errorf("read an attempt: %w", err)
			}
			return detailsContext(&saga.Saga{AccountID: place[0], Key: key}, saga.Step{Name: saga.StepName(place[2]), Attempt: attempt}), nil
		},
		name: func(place, _ []string) string {
			return "saga_steps.details: account " + place[0] + ", saga " + strings.Join(place[1:], " ")
		},
	}
}

func factsColumn(side string) column {
	return column{
		table: "findings",
		first: []string{noUUID},
		page: `
			SELECT ARRAY[id::text], ARRAY[account_id, COALESCE(saga_key, '` + noUUID + `')::text, kind, provider, reference], ` + side + ` AS sealed
			FROM findings WHERE id > $1::text::uuid ORDER BY id`,
		replace: `
			WITH free AS (
				SELECT f.account_id, f.id, n.new FROM unnest($1::text[], $2::bytea[], $3::bytea[]) AS n (id, old, new)
				JOIN findings f ON f.id = n.id::uuid AND f.` + side + ` = n.old
				FOR NO KEY UPDATE OF f SKIP LOCKED)
			UPDATE findings f SET ` + side + ` = free.new FROM free WHERE f.account_id = free.account_id AND f.id = free.id`,
		context: func(_, more []string) ([]byte, error) {
			sagaKey, err := uuid.Parse(more[1])
			if err != nil {
				return nil, fmt.Errorf("read a saga's key: %w", err)
			}
			return factsContext(side, &reconcile.Finding{
				AccountID: more[0], SagaKey: sagaKey, Kind: reconcile.Kind(more[2]), Provider: more[3], Reference: more[4],
			}), nil
		},
		name: func(place, more []string) string {
			return fmt.Sprintf("findings.%s: account %s, id %s", side, more[0], place[0])
		},
	}
}

// SealedPage is what was found, and done, in one page of rows.
type SealedPage struct {
	Next     []string       // where the next page begins; nil after the last one
	Rows     int            // that were passed through, with a value or without
	ByKey    map[string]int // values by the id of the key that had sealed them
	Resealed int
	Left     int      // values that somebody else was changing at this moment
	Unopened []string // places of values that no key of the ring opens
}

// CountSealed counts a page of values by their keys. It begins at the place that the page before gave; nil is the beginning.
func (s *Store) CountSealed(ctx context.Context, kind Sealed, from []string) (SealedPage, error) {
	c, err := columnOf(kind)
	if err != nil {
		return SealedPage{}, err
	}
	page, _, err := s.readSealed(ctx, c, `substring(sealed FROM 1 FOR `+strconv.Itoa(seal.MaxHeaderLength)+`)`, from, countPage)
	return page, err
}

// Reseal seals the values of a page anew that another key than the ring's first has sealed, each only if it is still what was read: what
// is written meanwhile wins. It is one transaction, and repeating it does no harm.
func (s *Store) Reseal(ctx context.Context, kind Sealed, from []string) (SealedPage, error) {
	c, err := columnOf(kind)
	if err != nil {
		return SealedPage{}, err
	}
	header := fmt.Sprintf(`'\x%x'::bytea`, s.ring.Header())
	length := strconv.Itoa(len(s.ring.Header()))
	value := `CASE WHEN substring(sealed FROM 1 FOR ` + length + `) = ` + header + ` THEN ` + header + ` ELSE sealed END`
	page, values, err := s.readSealed(ctx, c, value, from, resealPage)
	if err != nil {
		return SealedPage{}, err
	}
	changes, err := s.sealAnew(c, values, &page)
	if err != nil || changes == nil {
		return page, err
	}
	changed, err := s.pool.Exec(ctx, c.replace, changes...)
	if err != nil {
		return SealedPage{}, fmt.Errorf("reseal %s: %w", kind, mapError(err))
	}
	page.Resealed = int(changed.RowsAffected())
	page.Left -= page.Resealed
	return page, nil
}

// sealAnew gives the arguments of replace for the values that another key has sealed; nil: there are none. It counts them as left, until
// they are replaced.
func (s *Store) sealAnew(c column, values []sealedValue, page *SealedPage) ([]any, error) {
	current := s.ring.KeyIDs()[0]
	places := make([][]string, len(c.first))
	var before, after [][]byte
	for _, value := range values {
		if id, err := seal.KeyID(value.sealed); err == nil && id == current {
			continue
		}
		context, err := c.context(value.place, value.more)
		if err != nil {
			return nil, err
		}
		sealed, err := s.ring.Reseal(value.sealed, context)
		if err != nil {
			page.Unopened = append(page.Unopened, fmt.Sprintf("%s: %s", c.name(value.place, value.more), err))
			continue
		}
		for i, part := range value.place {
			places[i] = append(places[i], part)
		}
		before, after = append(before, value.sealed), append(after, sealed)
	}
	page.Left = len(before)
	if page.Left == 0 {
		return nil, nil
	}
	arguments := make([]any, 0, len(places)+2)
	for _, part := range places {
		arguments = append(arguments, part)
	}
	return append(arguments, before, after), nil
}

type sealedValue struct {
	place, more []string
	sealed      []byte
}

// damaged takes the place of a key's id where a value has none.
const damaged = "(damaged)"

func (s *Store) readSealed(ctx context.Context, c column, expression string, from []string, limit int) (SealedPage, []sealedValue, error) {
	if from == nil {
		from = c.first
	}
	arguments := make([]any, 0, len(from)+1)
	for _, part := range from {
		arguments = append(arguments, part)
	}
	query := `SELECT place, more, ` + expression + `
		FROM (` + c.page + ` LIMIT $` + strconv.Itoa(len(from)+1) + `) AS page (place, more, sealed)`
	rows, err := s.pool.Query(ctx, query, append(arguments, limit)...)
	if err != nil {
		return SealedPage{}, nil, fmt.Errorf("read sealed values: %w", mapError(err))
	}
	page := SealedPage{ByKey: map[string]int{}}
	var values []sealedValue
	var value sealedValue
	_, err = pgx.ForEachRow(rows, []any{&value.place, &value.more, &value.sealed}, func() error {
		page.Rows++
		page.Next = value.place
		if value.sealed == nil {
			return nil
		}
		id, err := seal.KeyID(value.sealed)
		if err != nil {
			id = damaged
		}
		page.ByKey[id]++
		values = append(values, value)
		return nil
	})
	if err != nil {
		return SealedPage{}, nil, fmt.Errorf("read sealed values: %w", mapError(err))
	}
	if page.Rows < limit {
		page.Next = nil
	}
	return page, values, nil
}

// EstimateSealed tells how many rows will be passed through, by the statistics.
func (s *Store) EstimateSealed(ctx context.Context, kind Sealed) (rows int64, err error) {
	c, err := columnOf(kind)
	if err != nil {
		return 0, err
	}
	err = s.pool.QueryRow(ctx, `
		SELECT `+rowsOfTable+` FROM pg_class c LEFT JOIN pg_stat_all_tables t ON t.relid = c.oid WHERE c.oid = $1::text::regclass`, c.table,
	).Scan(&rows)
	if err != nil {
		return 0, fmt.Errorf("estimate %s: %w", kind, mapError(err))
	}
	return rows, nil
}
