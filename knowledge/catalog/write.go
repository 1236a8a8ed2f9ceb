package catalog

import (
	"fmt"
	"time"
	"unicode/utf8"

	"go.etcd.io/bbolt"

	"github.com/quarrysearch/quarry/storage"
)

// A writer collects the changes of one write.
type writer struct {
	c       *Catalog
	t       *tables
	by      string
	now     time.Time
	changes []change
	err     error // of the first change that cannot be written
}

// write runs f, which checks against the tables and says what to change, and
// commits that with its audit entry in one transaction. A write that changes
// nothing touches no file and leaves no entry.
func (c *Catalog) write(by, action, object string, f func(w *writer) (detail string, err error)) error {
	if c.readOnly {
		return fmt.Errorf("%w: catalogue %s was opened so", storage.ErrReadOnly, c.path)
	}
	c.disk.Lock()
	defer c.disk.Unlock()
	if err := c.usable(); err != nil {
		return err
	}
	if c.failed != nil {
		return c.failed
	}
	// Times are as the file will give them back: UTC, without a monotonic part.
	w := &writer{c: c, t: c.t, by: by, now: c.now().UTC().Round(0)}
	detail, err := f(w)
	if err != nil || w.err != nil || len(w.changes) == 0 {
		return first(err, w.err)
	}
	w.put(&AuditEntry{Seq: c.t.auditLast + 1, At: w.now, Account: by, Action: action, Object: object, Detail: cut(detail, maxDetail)})
	if kept := c.t.auditLast + 1 - c.t.auditFirst; c.t.auditFirst > 0 && kept >= c.audit {
		w.drop(&AuditEntry{Seq: c.t.auditFirst})
	}
	if w.err != nil {
		return w.err
	}
	return c.commit(w.changes)
}

// put writes a record. What is encoded is decoded again: nothing is written
// that a reader would refuse, and memory gets what the file has.
func (w *writer) put(r record) {
	bucket, key := r.place()
	payload, err := encode(r)
	if err == nil {
		err = r.check()
	}
	if err == nil {
		r, err = decode(bucket, key, payload)
	}
	if err != nil {
		w.err = first(w.err, err)
		return
	}
	w.changes = append(w.changes, change{bucket, key, seal(bucket, key, payload), r})
}

func (w *writer) drop(r record) {
	bucket, key := r.place()
	w.changes = append(w.changes, change{bucket, key, nil, r})
}

func (w *writer) putRaw(bucket, key string, b []byte) {
	if len(b) > MaxDefinition {
		w.err = first(w.err, tooLarge("definition", len(b), MaxDefinition, "bytes"))
		return
	}
	w.changes = append(w.changes, change{bucket, key, seal(bucket, key, b), nil})
}

func (w *writer) dropRaw(bucket, key string) {
	w.changes = append(w.changes, change{bucket, key, nil, nil})
}

// cut shortens s to at most n bytes of whole characters.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	n -= len("…")
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// Audit returns up to limit entries (1 to MaxAuditPage) after an entry number,
// ascending; 0 starts at the oldest that is kept.
func (c *Catalog) Audit(after uint64, limit int) ([]AuditEntry, error) {
	if limit < 1 || limit > MaxAuditPage {
		return nil, storage.Invalidf("audit limit %d: want 1 to %d", limit, MaxAuditPage)
	}
	c.disk.Lock()
	defer c.disk.Unlock()
	if after == ^uint64(0) {
		return nil, c.usable()
	}
	type pair struct{ key, value string }
	var pairs []pair
	err := c.transact(false, func(tx *bbolt.Tx) error {
		cur := tx.Bucket([]byte(bucketAudit)).Cursor()
		for k, v := cur.Seek([]byte(auditKey(after + 1))); k != nil && len(pairs) < limit; k, v = cur.Next() {
			pairs = append(pairs, pair{string(k), string(v)})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := make([]AuditEntry, len(pairs))
	for i, p := range pairs {
		payload, err := unseal(bucketAudit, p.key, []byte(p.value))
		if err == nil {
			var r record
			if r, err = decode(bucketAudit, p.key, payload); err == nil {
				out[i] = *r.(*AuditEntry)
			}
		}
		if err != nil {
			return nil, storage.Corruptf(c.path, 0, "audit %x: %v", p.key, err)
		}
	}
	return out, nil
}
