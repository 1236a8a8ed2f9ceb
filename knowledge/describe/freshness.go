package describe

import (
	"strings"
	"time"
)

// The values of Freshness.
const (
	Fresh   = "fresh"
	Stale   = "stale"
	Expired = "expired"
	Unknown = "unknown"
)

// freshDays is how long a document stays fresh after its last change.
const freshDays = 365

// Freshness tells how fresh a document is at a time: what it declares, if that
// is one of the four values; expired when its expiry date has passed; fresh when
// it was changed at most 365 days before, or after; stale when it is older;
// unknown when it gives no date. A zero time is none.
func Freshness(declared string, expiry, changed, at time.Time) string {
	switch d := strings.ToLower(strings.TrimSpace(declared)); d {
	case Fresh, Stale, Expired, Unknown:
		return d
	}
	switch {
	case !expiry.IsZero() && !expiry.After(at):
		return Expired
	case changed.IsZero():
		return Unknown
	case at.Sub(changed) > freshDays*24*time.Hour:
		return Stale
	}
	return Fresh
}
