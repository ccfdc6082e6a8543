package httpapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"paysaga/api"
	"paysaga/internal/idempotency"
	"paysaga/saga"
)

// PatchOrder changes the metadata of an order, and nothing else. It needs the database alone, so one transaction claims the key, changes
// the order and stores the answer.
func (s *server) PatchOrder(w http.ResponseWriter, r *http.Request, id api.OrderID, _ api.PatchOrderParams) {
	s.answerKeyed(w, r, patchOrderEndpoint, func() (intent, error) {
		var patch api.OrderPatch
		if err := s.decode(w, r, "OrderPatch", &patch); err != nil {
			return intent{}, err
		}
		return intent{patchFingerprint(id, patch), func(ctx context.Context, claim saga.Claim) (saga.Answer, error) {
			return s.patch(ctx, claim, id, patch)
		}}, nil
	})
}

// patchFingerprint is over the names that are changed, in their order, and what each becomes.
func patchFingerprint(id uuid.UUID, patch api.OrderPatch) idempotency.Fingerprint {
	meant := idempotency.NewIntent("patch order 1").String("order", id.String())
	for _, name := range slices.Sorted(maps.Keys(patch.Metadata)) {
		if value := patch.Metadata[name]; value != nil {
			meant.String("set", name).String("to", *value)
		} else {
			meant.String("remove", name)
		}
	}
	return meant.Fingerprint()
}

// maxPatchTries bounds how often a patch begins anew because the order has changed between reading and writing. An order changes a
// few times in its life, so a second try nearly always fits.
const maxPatchTries = 8

func (s *server) patch(ctx context.Context, claim saga.Claim, id uuid.UUID, patch api.OrderPatch) (saga.Answer, error) {
	for range maxPatchTries {
		read, err := s.Store.GetOrder(ctx, claim.AccountID, id)
		if err != nil {
			return saga.Answer{}, fmt.Errorf("read order: %w", err)
		}
		if read.ReadAt.Before(read.Order.UpdatedAt) { // somebody who waited has written since
			read.ReadAt = read.Order.UpdatedAt
		}
		metadata, err := merged(read.Order.Metadata, patch)
		if err != nil {
			return saga.Answer{}, err
		}
		patched := read
		patched.Order.Metadata, patched.Order.UpdatedAt = metadata, read.ReadAt
		answer, err := orderAnswer(http.StatusOK, patched)
		if err != nil {
			return saga.Answer{}, err
		}
		err = s.Store.PutMetadata(ctx, claim, read, metadata, answer)
		if !errors.Is(err, saga.ErrOrderChanged) {
			return answer, err
		}
	}
	return saga.Answer{}, &problem{
		kind: orderBusy, detail: "The order changes too fast; send the request again.", retryAfter: defaultRetryAfter,
	}
}

// maxMetadata is the contract's limit for the entries of an order's metadata.
const maxMetadata = 50

// merged is RFC 7396: a value replaces, null removes, and what is not named stays.
func merged(metadata map[string]string, patch api.OrderPatch) (map[string]string, error) {
	result := make(map[string]string, len(metadata)+len(patch.Metadata))
	maps.Copy(result, metadata)
	var found places
	for _, name := range slices.Sorted(maps.Keys(patch.Metadata)) {
		value := patch.Metadata[name]
		switch {
		case value == nil:
			delete(result, name)
		case utf8.RuneCountInString(name) > longestMetadataName:
			found.addf(string(jsontext.Pointer("/metadata").AppendToken(name)), "The name has more than %d characters.", longestMetadataName)
		default:
			result[name] = *value
		}
	}
	if len(result) > maxMetadata {
		found.addf("/metadata", "The metadata would have %d entries; at most %d are kept. Remove some with null.", len(result), maxMetadata)
	}
	return result, found.problem()
}
