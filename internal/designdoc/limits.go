package designdoc

import (
	"fmt"
	"strconv"
	"time"

	"paysaga/internal/config"
	"paysaga/internal/httpapi"
	"paysaga/internal/idempotency"
	"paysaga/saga"
)

// limit is a constant of the code that the page shows. Its value comes from there.
type limit struct {
	What, Folder, Name, Unit, Why string
}

// In which unit a constant is shown.
const (
	asCount = "count"
	asKiB   = "KiB"
)

var limits = []limit{
	{"Shortest key", guardFolder, "minKeyLength", "characters", "Fewer characters repeat by chance."},
	{"Longest key", guardFolder, "maxKeyLength", "characters", "More is no identifier; the providers' own keys end there."},
	{
		"Renewals of a lease before it ends", guardFolder, "renewsPerLease", asCount,
		"One may be lost and one may be late without the lease being lost.",
	},
	{
		"Looks at a key within one request", guardFolder, "maxLooks", asCount,
		"Each lost race means that somebody else made progress; the second look nearly always has the answer.",
	},
	{"Answer that can be kept", guardFolder, "maxRecorded", asKiB, "The most that is sealed; answers have a few KiB."},
	{
		"Generations that are searched", "internal/postgres", "maxGenerations", asCount,
		"One for each window: years, even with the shortest one.",
	},
	{"Tries of a PATCH", "internal/httpapi", "maxPatchTries", asCount, "An order changes a few times in its life."},
	{
		"A request's tries to get hold of a busy order", "saga", "maxAsks", asCount,
		"2.5 s in all: longer than most calls, shorter than a client's patience.",
	},
	{"Sagas that requests drive at once, per process", "cmd/paysaga", "maxInFlight", asCount, "Each waits for a provider most of its life."},
	{
		"Sagas that recovery drives at once, per process", "cmd/paysaga", "recoveryConcurrency", asCount,
		"Catches up after an outage without falling on a provider that has just come back.",
	},
	{"Keys of a ring", "internal/seal", "maxKeys", asCount, "With yearly rotation two or three are in use at once."},
}

func (w *writer) limits(string) {
	rows := make([][]string, 0, len(limits))
	for _, l := range limits {
		number := w.number(l.Folder, l.Name)
		shown := grouped(number)
		switch l.Unit {
		case asCount:
		case asKiB:
			shown = grouped(number>>10) + " KiB"
		default:
			shown += " " + l.Unit
		}
		rows = append(rows, []string{l.What, shown, "`" + l.Name + "`, " + l.Folder, l.Why})
	}
	w.table("Limits in the code", []string{"Limit", "Value", "Constant", "Why"}, rows)
}

// sagas are as many as nobody has, for a bound.
const sagas = 1e9

// readValues are the values that the prose uses by name.
func (s *sources) readValues() (map[string]string, error) {
	policy, core := idempotency.Default(), saga.DefaultPolicy()
	values := map[string]string{
		"retention":       brief(policy.Retention),
		"mismatch_status": strconv.Itoa(policy.MismatchStatus),
		"keys_per_minute": strconv.Itoa(policy.KeysPerMinute),
		"await_deadline":  brief(core.AwaitDeadline),
		"max_charges":     strconv.Itoa(core.MaxCharges),
		"saga_collision":  chance(sagas, uuidBits),
		"example_cancel":  fmt.Sprintf("%x", exampleFingerprint()),
	}
	for name, setting := range map[string]string{
		"lease": "PAYSAGA_LEASE", "call_timeout": "PAYSAGA_CALL_TIMEOUT", "recovery_interval": "PAYSAGA_RECOVERY_INTERVAL",
		"upkeep_interval": "PAYSAGA_UPKEEP_INTERVAL", "notice_wait": "PAYSAGA_NOTICE_WAIT",
	} {
		duration, err := defaultOf(setting)
		if err != nil {
			return nil, err
		}
		values[name] = brief(duration)
		if name == "lease" {
			values["renewal"] = brief(duration / time.Duration(s.consts[guardFolder]["renewsPerLease"]))
		}
	}
	for name, c := range map[string][2]string{
		"min_key": {guardFolder, "minKeyLength"}, "max_key": {guardFolder, "maxKeyLength"},
		"max_generations": {"internal/postgres", "maxGenerations"}, "max_looks": {guardFolder, "maxLooks"},
	} {
		number, err := s.consts.get(c[0], c[1])
		if err != nil {
			return nil, err
		}
		values[name] = grouped(number)
	}
	for _, operation := range httpapi.Operations() {
		values["fields "+operation.Endpoint] = paths(operation)
	}
	return values, nil
}

func defaultOf(name string) (time.Duration, error) {
	for _, setting := range config.Settings() {
		if setting.Name == name {
			duration, err := time.ParseDuration(setting.Default)
			if err != nil {
				return 0, fmt.Errorf("default of %s: %w", name, err)
			}
			return duration, nil
		}
	}
	return 0, fmt.Errorf("there is no setting %s", name)
}

// exampleFingerprint is that of the request which the prose works through.
func exampleFingerprint() idempotency.Fingerprint {
	return idempotency.NewIntent("cancel order 1").String("order", "3ffbd026-bac1-5d67-a04d-5b537230444c").Fingerprint()
}
