package serve

import (
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/httpapi"
)

// An authority knows the keys, as their file has them now.
type authority struct {
	path   string
	log    *slog.Logger
	always bool // a key is needed even when there is none

	keys  atomic.Pointer[keyset]
	check atomic.Int64 // when to look at the file again, unix nanoseconds
}

type keyset struct {
	byID  map[string]boundKey
	stamp stamp
}

// A stamp tells one state of a file from another.
type stamp struct {
	size int64
	mod  time.Time
}

func newAuthority(path string, always bool, log *slog.Logger) (*authority, error) {
	a := &authority{path: path, log: log, always: always}
	set, err := readKeyset(path)
	if err != nil {
		return nil, err
	}
	a.keys.Store(set)
	a.check.Store(time.Now().Add(recheck).UnixNano())
	return a, nil
}

// recheck is how long a change of the file may go unseen.
const recheck = time.Second

func readKeyset(path string) (*keyset, error) {
	set := &keyset{byID: map[string]boundKey{}, stamp: stampOf(path)} // a change after this is seen next time
	keys, err := ReadKeys(path)
	if err != nil {
		return nil, err
	}
	for i := range keys {
		b, err := keys[i].bind()
		if err != nil {
			return nil, err
		}
		set.byID[b.id] = b
	}
	return set, nil
}

func stampOf(path string) stamp {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{}
	}
	return stamp{info.Size(), info.ModTime()}
}

// current are the keys; a file that cannot be read leaves those there were.
func (a *authority) current() *keyset {
	set := a.keys.Load()
	now, due := time.Now(), a.check.Load()
	if now.UnixNano() < due || !a.check.CompareAndSwap(due, now.Add(recheck).UnixNano()) {
		return set
	}
	if stampOf(a.path) == set.stamp {
		return set
	}
	fresh, err := readKeyset(a.path)
	if err != nil {
		a.log.Error("keys cannot be read: those known before still hold", "file", a.path, "error", err)
		return set
	}
	a.keys.Store(fresh)
	a.log.Info("keys read anew", "keys", len(fresh.byID))
	return fresh
}

// needed tells whether there are no calls without a key.
func (a *authority) needed() bool { return a.always || len(a.current().byID) > 0 }

// allow tells whether a request may have the access, and who asks.
func (a *authority) allow(r *http.Request, access httpapi.Access) (who httpapi.Caller, p *httpapi.Problem) {
	if access == httpapi.Public {
		return who, nil
	}
	if !a.needed() {
		return httpapi.Caller{Access: httpapi.Admin}, nil
	}
	given := keyOf(r)
	if given == "" {
		return who, &httpapi.Problem{Status: http.StatusUnauthorized, Code: httpapi.CodeUnauthorized, Detail: "a key is needed: Authorization: Bearer KEY, or X-API-Key: KEY"}
	}
	rest, isKey := strings.CutPrefix(given, keyPrefix+"_")
	id, secret, _ := strings.Cut(rest, "_")
	k, known := a.current().byID[id]
	if !known { // as long as the work on a known one
		k = boundKey{salt: make([]byte, 16), hash: make([]byte, 32)}
	}
	if len(secret) > 64 {
		secret = ""
	}
	if !k.match(secret) || !known || !isKey {
		return who, &httpapi.Problem{Status: http.StatusUnauthorized, Code: httpapi.CodeUnauthorized, Detail: "the key is not known here"}
	}
	who = httpapi.Caller{Key: k.name, Access: k.access, Account: k.account}
	if k.access < access {
		return who, &httpapi.Problem{Status: http.StatusForbidden, Code: httpapi.CodeForbidden,
			Detail: "the key has the access " + k.access.String() + ", and this needs " + access.String()}
	}
	return who, nil
}

// keyOf is the key that a request sends.
func keyOf(r *http.Request) string {
	if scheme, key, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "bearer") {
		return strings.TrimSpace(key)
	}
	return r.Header.Get("X-API-Key")
}
