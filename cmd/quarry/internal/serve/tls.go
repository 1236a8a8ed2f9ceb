package serve

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// certificates is the certificate of the server, as its files have it now: one
// that is renewed is served without a new start.
type certificates struct {
	cert, key string // files
	log       *slog.Logger

	mu     sync.Mutex
	pair   *tls.Certificate
	stamps [2]stamp // of the files when pair was read
	failed [2]stamp // of the files that could not be read, which were told of
	due    time.Time
}

func newCertificates(cert, key string, log *slog.Logger) (*certificates, error) {
	c := &certificates{cert: cert, key: key, log: log}
	c.stamps = c.now() // a change after this is seen next time
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert, --tls-key: %w", err)
	}
	c.pair, c.due = &pair, time.Now().Add(recheck)
	return c, nil
}

func (c *certificates) now() [2]stamp { return [2]stamp{stampOf(c.cert), stampOf(c.key)} }

// get is the certificate for a connection. Files that do not fit each other, as
// between the writing of one and of the other, leave the one there was.
func (c *certificates) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Now().Before(c.due) {
		return c.pair, nil
	}
	c.due = time.Now().Add(recheck)
	stamps := c.now()
	if stamps == c.stamps {
		return c.pair, nil
	}
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	switch {
	case err == nil:
		c.pair, c.stamps = &pair, stamps
		c.log.Info("certificate read anew", "file", c.cert)
	case stamps != c.failed:
		c.failed = stamps
		c.log.Error("certificate cannot be read: the one known before still holds", "file", c.cert, "error", err)
	}
	return c.pair, nil
}
