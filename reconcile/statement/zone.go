package statement

import (
	"errors"
	"regexp"
	"strings"
	"time"
)

// The years in which payments are booked: what lies outside is a misread date.
const (
	firstYear = 1998
	lastYear  = 2100
)

var (
	errNoTime  = errors.New("is no time that can be read")
	errNoZone  = errors.New("is no time zone that is known")
	errZones   = errors.New("means different time zones in different countries: tell the account's own with --zone")
	errUnzoned = errors.New("is empty: tell the account's own time zone with --zone")
)

// offsets are the abbreviations of time zones, in minutes east of UTC. Each is taken at its word: CET is an hour ahead of UTC in July too,
// as summer time has a name of its own.
var offsets = map[string]int{
	"UTC": 0, "GMT": 0, "Z": 0, "WET": 0, "WEST": 60, "BST": 60, "CET": 60, "CEST": 120, "MET": 60, "MEST": 120, "EET": 120, "EEST": 180,
	"SAST": 120, "MSK": 180, "TRT": 180, "GST": 240, "SGT": 480, "HKT": 480, "MYT": 480, "PHT": 480, "AWST": 480, "JST": 540, "KST": 540,
	"ACST": 570, "ACDT": 630, "AEST": 600, "AEDT": 660, "NZST": 720, "NZDT": 780, "BRT": -180, "ART": -180, "EST": -300, "EDT": -240,
	"CDT": -300, "MST": -420, "MDT": -360, "PST": -480, "PDT": -420, "AKST": -540, "AKDT": -480, "HST": -600,
}

// unclear are abbreviations that more than one zone goes by: central and Chinese time; Indian, Irish and Israeli time.
var unclear = map[string]bool{"CST": true, "IST": true}

// numeric is a zone by its offset: "+08", "-0330", "UTC+5:30". Many zones have no abbreviation and are written so.
var numeric = regexp.MustCompile(`^(?:UTC|GMT)?([+-])(0?[0-9]|1[0-4]):?([0-5][0-9])?$`)

func numericZone(name string) *time.Location {
	found := numeric.FindStringSubmatch(name)
	hours, minutes := int(found[2][len(found[2])-1]-'0'), 0
	if len(found[2]) == 2 {
		hours += 10 * int(found[2][0]-'0')
	}
	if found[3] != "" {
		minutes = 10*int(found[3][0]-'0') + int(found[3][1]-'0')
	}
	seconds := (hours*60 + minutes) * 60
	if found[1] == "-" {
		seconds = -seconds
	}
	return time.FixedZone(name, seconds)
}

// zones finds time zones by the names that files give them.
type zones struct {
	own   *time.Location // the account's, where it was told
	known map[string]*time.Location
}

func newZones(own *time.Location) *zones {
	return &zones{own: own, known: make(map[string]*time.Location)}
}

// find gives the zone of an abbreviation, or of a name of the IANA database. Only names that exist are remembered, so that the memory has
// a bound.
func (z *zones) find(name string) (*time.Location, error) {
	if found, ok := z.known[name]; ok {
		return found, nil
	}
	upper := strings.ToUpper(name)
	minutes, ok := offsets[upper]
	switch {
	case unclear[upper] && z.own != nil:
		return z.own, nil
	case unclear[upper]:
		return nil, errZones
	case ok:
		z.known[name] = time.FixedZone(upper, minutes*60)
		return z.known[name], nil
	case numeric.MatchString(upper):
		return numericZone(upper), nil
	case !strings.Contains(name, "/"):
		return nil, errNoZone // the IANA names without a stroke are older than summer time's rules, or "Local"
	}
	found, err := time.LoadLocation(name)
	if err != nil {
		return nil, errNoZone
	}
	z.known[name] = found
	return found, nil
}

// The ways in which local times are written.
var localLayouts = []string{"2006-01-02 15:04:05", "2006-01-02T15:04:05", "2006/01/02 15:04:05", "2006-01-02 15:04", "2006-01-02"}

// localTime reads a time that stands without its zone, in that of the place.
func localTime(text string, place *time.Location) (time.Time, error) {
	for _, layout := range localLayouts {
		if len(layout) != len(text) {
			continue
		}
		local, err := time.Parse(layout, text)
		if err == nil {
			return checked(inZone(local, place))
		}
	}
	return time.Time{}, errNoTime
}

// offsetTime reads a time that tells its offset itself, "2026/03/05 10:11:12 -0800".
func offsetTime(text string) (time.Time, error) {
	for _, layout := range []string{"2006/01/02 15:04:05 -0700", "2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05-0700"} {
		if read, err := time.Parse(layout, text); err == nil {
			return checked(read.UTC())
		}
	}
	return time.Time{}, errNoTime
}

func checked(read time.Time) (time.Time, error) {
	if read.Year() < firstYear || read.Year() > lastYear {
		return time.Time{}, errNoTime
	}
	return read, nil
}

// inZone is the instant at which clocks in a place showed a time. What they showed twice, when summer time ended, is the earlier instant.
// What they never showed, when it began, is counted from before: 02:30 in the hour that was left out is 03:30 of summer time.
func inZone(shown time.Time, place *time.Location) time.Time {
	const day = 24 * time.Hour // further than any change of clocks reaches, nearer than the next one
	before, after := offsetAt(shown.Add(-day), place), offsetAt(shown.Add(day), place)
	early, late := shown.Add(-before), shown.Add(-after)
	if before != after && offsetAt(early, place) != before && offsetAt(late, place) == after {
		return late
	}
	return early
}

func offsetAt(instant time.Time, place *time.Location) time.Duration {
	_, seconds := instant.In(place).Zone()
	return time.Duration(seconds) * time.Second
}
