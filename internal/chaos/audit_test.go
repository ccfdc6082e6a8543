//go:build unix

package chaos

import (
	"cmp"
	"fmt"
	"slices"
)

// auditSchema has the database write down, in the transaction of each write, who made it: whose writes of a saga or of a key stand is
// then known from the database alone. Each life of a server says its name with every connection, as the setting chaos.life.
const auditSchema = `
CREATE SCHEMA chaos;
CREATE TABLE chaos.writes (
	id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, who text NOT NULL DEFAULT COALESCE(current_setting('chaos.life', true), 'nobody'),
	what text NOT NULL, key text NOT NULL, fence_before bigint NOT NULL, fence bigint NOT NULL, before text NOT NULL, after text NOT NULL);
CREATE FUNCTION chaos.note_saga() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	INSERT INTO chaos.writes (what, key, fence_before, fence, before, after) VALUES ('saga',
		NEW.key::text, COALESCE(OLD.lock_version, 0), NEW.lock_version, COALESCE(OLD.state, ''), NEW.state);
	RETURN NULL;
END $$;
CREATE FUNCTION chaos.note_key() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	INSERT INTO chaos.writes (what, key, fence_before, fence, before, after) VALUES ('key',
		NEW.endpoint || ' ' || NEW.key, COALESCE(OLD.lock_version, 0), NEW.lock_version, COALESCE(OLD.status, ''), NEW.status);
	RETURN NULL;
END $$;
CREATE FUNCTION chaos.note_event() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	INSERT INTO chaos.writes (what, key, fence_before, fence, before, after) VALUES ('event',
		NEW.provider || ' ' || NEW.event_id, OLD.lock_version, NEW.lock_version, OLD.status, NEW.status);
	RETURN NULL;
END $$;
CREATE TRIGGER chaos_sagas AFTER INSERT OR UPDATE ON sagas FOR EACH ROW EXECUTE FUNCTION chaos.note_saga();
CREATE TRIGGER chaos_keys AFTER INSERT OR UPDATE ON idempotency_keys FOR EACH ROW EXECUTE FUNCTION chaos.note_key();
CREATE TRIGGER chaos_events AFTER UPDATE ON webhook_events FOR EACH ROW EXECUTE FUNCTION chaos.note_event();`

// write is one write of a saga, of a key or of a provider's event.
type write struct {
	ID             int64
	Who, What, Key string
	FenceBefore    int64
	Fence          int64
	Before         string
	After          string
}

func (s *system) writes() []write {
	s.t.Helper()
	return read[write](s, `SELECT id, who, what, key, fence_before, fence, before, after FROM chaos.writes`)
}

// auditFences finds the writes that were not made by whoever holds the newest lease: a fencing number is taken by the life of a server
// that raises it, and only that may write under it.
func auditFences(writes []write) []string {
	slices.SortFunc(writes, func(a, b write) int { return cmp.Compare(a.ID, b.ID) })
	var found []string
	holders := map[string]string{}
	for _, w := range writes {
		name := w.What + " " + w.Key
		switch {
		case w.What == "event" && w.Before == "applied":
			found = append(found, fmt.Sprintf("%s: was applied, and %s makes it %s", name, w.Who, w.After))
		case w.Fence > w.FenceBefore:
			holders[name] = w.Who
		case w.Fence < w.FenceBefore:
			found = append(found, fmt.Sprintf("%s: %s lowered the fence from %d to %d", name, w.Who, w.FenceBefore, w.Fence))
		case holders[name] != w.Who:
			found = append(found, fmt.Sprintf("%s: under fence %d, which %s holds, %s wrote %s → %s", name, w.Fence, holders[name], w.Who,
				w.Before, w.After))
		}
	}
	return found
}
