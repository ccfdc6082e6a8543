package httpapi_test

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"testing"

	"paysaga/api"
)

// A cursor that the server did not give is a mistake of the request's, of every list, and never a trouble of the server's.
func TestCursorsThatNobodyGave(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	const id = "5f0c1a9e-7d5b-5c3e-9b1a-0f6d2c8e4a71"
	encoded := base64.RawURLEncoding.EncodeToString
	of := map[string][]string{}
	for _, path := range []string{"/v1/orders", "/v1/sagas", "/v1/findings", "/v1/reconciliations"} {
		for _, place := range []string{
			"1", "1 ", " ", " " + id, "x " + id, "1 4711", "-1 " + id, "+1 " + id, "01 " + id, "1.5 " + id, "1e3 " + id, "253402300800000000 " + id,
			"9223372036854775807 " + id, "9223372036854775808 " + id, "1  " + id, "1 " + id + " ", "1 {" + id + "}", "1 urn:uuid:" + id,
			"1 5f0c1a9e7d5b5c3e9b1a0f6d2c8e4a71", "1 5F0C1A9E-7D5B-5C3E-9B1A-0F6D2C8E4A71", "1\x00" + id,
		} {
			of[path] = append(of[path], encoded([]byte(place)))
		}
	}
	for _, place := range []string{"0", "-1", "+5", "05", " 5", "5 ", "5.0", "0x5", "1_000", "5\x00", "٥", "x", "9223372036854775808", "99999999999999999999", "1 " + id} {
		of["/v1/audit-log"] = append(of["/v1/audit-log"], encoded([]byte(place)))
	}
	for _, place := range []string{"-A", "A B", "A/B", "A\n", "\x00", "\xff", "MUG\x00", "é"} {
		of["/v1/stock"] = append(of["/v1/stock"], encoded([]byte(place)))
	}
	for path, cursors := range of {
		if !slices.Contains(listsWithCursors(t), path) {
			t.Errorf("%s has no cursor", path)
		}
		for _, cursor := range append(cursors, "", "!", "a", "_w", "MR", "NQ==", "NQ\n", "N Q", "\x00") { // MR: bits left over that are not zero
			got := s.getAs(t, s.operator, path+"?cursor="+url.QueryEscape(cursor))
			got.checkRefusal(t, http.StatusBadRequest, "invalid-request", "parameter cursor")
		}
	}
	for _, path := range listsWithCursors(t) {
		if of[path] == nil {
			t.Errorf("no cursors of %s are tried", path)
		}
	}
}

// listsWithCursors are all that the contract has.
func listsWithCursors(t *testing.T) []string {
	t.Helper()
	document, err := api.Load()
	noError(t, err)
	var lists []string
	for path, item := range document.Paths.Map() {
		if item.Get != nil && item.Get.Parameters.GetByInAndName("query", "cursor") != nil {
			lists = append(lists, path)
		}
	}
	return lists
}

// The audit log is read page by page also when its ids have outgrown 32 bits, and from a place behind its newest entry.
func TestAuditLogOfLargeIDs(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.exec(t, `DELETE FROM audit_log`)
	s.exec(t, `SELECT setval(pg_get_serial_sequence('audit_log', 'id'), 4294967296)`)
	const entries = 3
	s.exec(t, `INSERT INTO audit_log (account_id, actor, action, subject) SELECT $1, 'test', 'test', 'test' FROM generate_series(1, $2)`,
		merchantAccount, entries)
	first := "/v1/audit-log?limit=1&cursor=" + base64.RawURLEncoding.EncodeToString([]byte("9223372036854775807"))
	var ids []int64
	for next := first; next != ""; {
		page := decoded[api.AuditLog](t, s.getAs(t, s.operator, next), http.StatusOK)
		for _, entry := range page.Data {
			ids = append(ids, entry.ID)
		}
		if next = ""; page.NextCursor != nil && len(ids) < entries+1 {
			next = "/v1/audit-log?limit=1&cursor=" + *page.NextCursor
		}
	}
	if want := []int64{4294967299, 4294967298, 4294967297}; !slices.Equal(ids, want) {
		t.Errorf("entries %d, want %d", ids, want)
	}
}
