package call

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/quarrysearch/quarry/storage"
)

// Options say how a service is reached. The zero value of each field stands
// for its default.
type Options struct {
	// BaseURL is where the service answers, up to the path of the call:
	// "https://api.openai.com/v1". http or https, without user, query and
	// fragment. Default: the provider's own.
	BaseURL string
	// KeyEnv names the environment variable that holds the API key. Default:
	// the provider's usual one, if BaseURL is the provider's own; else no key.
	KeyEnv string
	// KeyFile names a file that holds the API key, alone on its line. At most
	// one of KeyEnv and KeyFile may be set.
	KeyFile string
	// PlainKey allows the key to be sent over http to another machine, where
	// anyone on the way can read it.
	PlainKey bool
	// Timeout bounds one try, from connection to the last byte of the reply.
	// Default 60 s.
	Timeout time.Duration
	// Tries is how many times one request is sent at most. Default 5.
	Tries int
	// Backoff is the wait after the first failed try; it doubles with each,
	// and a random part of up to half is taken off. Default 500 ms.
	Backoff time.Duration
	// MaxWait bounds a wait. A service that asks for a longer one fails the
	// call. Default 60 s.
	MaxWait time.Duration
	// Concurrent is how many requests are open at once. Default 4.
	Concurrent int
	// Seed makes the random part of waits repeatable; 0 takes a random seed.
	Seed uint64
	// Transport replaces the client's own, which trusts the system's
	// certificates, wants TLS 1.2, and obeys the proxy variables.
	Transport http.RoundTripper
	// Sleep replaces the waiting between tries, for tests. It must return the
	// context's error once that is over. Default: a timer.
	Sleep func(ctx context.Context, d time.Duration) error
}

func (o Options) withDefaults() Options {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	set(&o.Timeout, time.Minute)
	set(&o.Backoff, 500*time.Millisecond)
	set(&o.MaxWait, time.Minute)
	if o.Tries == 0 {
		o.Tries = 5
	}
	if o.Concurrent == 0 {
		o.Concurrent = 4
	}
	if o.Sleep == nil {
		o.Sleep = sleep
	}
	return o
}

func (o Options) validate() error {
	switch {
	case o.Timeout < 0, o.Backoff < 0, o.MaxWait < 0:
		return storage.Invalidf("service options: a duration is negative")
	case o.Tries < 0 || o.Tries > 100:
		return storage.Invalidf("service options: Tries %d, want 1 to 100", o.Tries)
	case o.Concurrent < 0 || o.Concurrent > 1000:
		return storage.Invalidf("service options: Concurrent %d, want 1 to 1000", o.Concurrent)
	case o.KeyEnv != "" && o.KeyFile != "":
		return storage.Invalidf("service options: KeyEnv and KeyFile are both set")
	}
	return nil
}

// parseBase checks a base URL. It does not repeat the URL in errors: a user may
// have put a password there.
func parseBase(base string) (*url.URL, error) {
	u, err := url.Parse(base)
	switch {
	case err != nil:
		return nil, storage.Invalidf("base URL does not parse")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, storage.Invalidf("base URL: want http:// or https://")
	case u.Hostname() == "":
		return nil, storage.Invalidf("base URL has no host")
	case u.User != nil:
		return nil, storage.Invalidf("base URL holds a user or password: give the key by KeyEnv or KeyFile")
	case u.RawQuery != "" || u.ForceQuery:
		return nil, storage.Invalidf("base URL holds a query")
	case u.Fragment != "":
		return nil, storage.Invalidf("base URL holds a fragment")
	}
	u.Path = strings.TrimRight(u.Path, "/")
	u.RawPath = ""
	return u, nil
}

func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// A secret gives an API key, "" when nil. It is a function so that printing
// what holds it, unexported fields included, shows an address.
type secret func() string

func (s secret) value() string {
	if s == nil {
		return ""
	}
	return s()
}

// redact replaces the key in text, as it is and as JSON and a URL would write
// it.
func (s secret) redact(text string) string {
	const placeholder = "[secret]"
	key := s.value()
	if key == "" {
		return text
	}
	forms := []string{key, strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key), url.QueryEscape(key)}
	if j, err := json.Marshal(key); err == nil { // with & < > escaped, too
		forms = append(forms, string(j[1:len(j)-1]))
	}
	for _, f := range forms {
		text = strings.ReplaceAll(text, f, placeholder)
	}
	return text
}

// maxKeyBytes bounds a key: no header of a larger one gets through.
const maxKeyBytes = 4096

// loadKey reads the key. No error repeats a byte of it.
func (o Options) loadKey() (secret, error) {
	var from, text string
	switch {
	case o.KeyEnv != "":
		from, text = "environment variable "+o.KeyEnv, os.Getenv(o.KeyEnv)
	case o.KeyFile != "":
		from = "key file " + o.KeyFile
		f, err := os.Open(o.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("%w: key file: %w", storage.ErrInvalid, err)
		}
		defer f.Close()
		b, err := io.ReadAll(io.LimitReader(f, maxKeyBytes+2))
		if err != nil {
			return nil, fmt.Errorf("%w: key file: %w", storage.ErrInvalid, err)
		}
		text = string(b)
	default:
		return nil, nil
	}
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return nil, storage.Invalidf("%s holds no API key", from)
	case len(text) > maxKeyBytes:
		return nil, storage.Invalidf("%s holds more than %d bytes", from, maxKeyBytes)
	}
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c > '~' {
			return nil, storage.Invalidf("%s holds a byte that no API key has, at %d", from, i)
		}
	}
	return func() string { return text }, nil
}
