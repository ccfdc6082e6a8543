package saga

import (
	"strconv"
	"strings"

	"github.com/google/uuid"

	"paysaga/providers"
)

// namespace is the UUIDv5 namespace of saga keys: UUIDv5(OID namespace, "paysaga/saga-key"). Changing it would make every
// retry a new payment.
var namespace = uuid.MustParse("67ae31f3-5cd9-56b8-88c7-b2f8e14bf415")

// Key derives a saga's key: UUIDv5 over account, endpoint (method and route pattern), the client's idempotency key and
// the key's generation, each written as a netstring ("5:shop1,") so that no two inputs can run together.
//
// It is a pure function of the request: even a database restored from an old backup yields the same key, and so the
// same identifiers at the provider. The client's key itself never leaves for a provider.
func Key(account, endpoint, idempotencyKey string, generation int) uuid.UUID {
	var name strings.Builder
	for _, part := range []string{account, endpoint, idempotencyKey, strconv.Itoa(generation)} {
		name.WriteString(strconv.Itoa(len(part)))
		name.WriteByte(':')
		name.WriteString(part)
		name.WriteByte(',')
	}
	return uuid.NewSHA1(namespace, []byte(name.String()))
}

// SubKey derives the key of one attempt of one step: "<saga key>_<step>", and "<saga key>_<step>_<attempt>" from the
// second attempt on. Steps go by name, so that a new step never shifts the keys of the others.
func SubKey(sagaKey uuid.UUID, step StepName, attempt int) providers.SubKey {
	key := sagaKey.String() + "_" + string(step)
	if attempt > 1 {
		key += "_" + strconv.Itoa(attempt)
	}
	return providers.SubKey(key)
}
