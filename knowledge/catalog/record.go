package catalog

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/cespare/xxhash/v2"

	"github.com/quarrysearch/quarry/storage"
)

// The version of the format, and the buckets. A build that adds a bucket or a
// key of a record raises the version: older builds then refuse the file, where
// they would drop what they do not know.
const (
	formatName    = "quarry-catalog"
	formatVersion = 1

	bucketFormat      = "format"
	bucketWorkspaces  = "workspaces"
	bucketAccounts    = "accounts"
	bucketSpaces      = "spaces"
	bucketWorkflows   = "workflows"
	bucketDrafts      = "drafts"      // definitions of drafts, raw
	bucketSnapshots   = "snapshots"   // without their definitions
	bucketDefinitions = "definitions" // of snapshots, raw
	bucketBindings    = "bindings"
	bucketAudit       = "audit"
)

// buckets returns the names of all buckets.
func buckets() []string {
	return []string{bucketFormat, bucketWorkspaces, bucketAccounts, bucketSpaces, bucketWorkflows,
		bucketDrafts, bucketSnapshots, bucketDefinitions, bucketBindings, bucketAudit}
}

// A format is the record that makes a bbolt file a catalogue. Every write
// renews it with a total over all other pairs: a pair that is gone with its
// page's count, or back from an old page, breaks no checksum of its own.
type format struct {
	Format  string `json:"format"`
	Version uint32 `json:"version"`
	Total   total  `json:"total"`
}

// A total is the number of pairs and the sum of their checksums.
type total struct {
	Pairs int64  `json:"pairs"`
	Sum   uint64 `json:"sum,string"`
}

// add counts a sealed value in.
func (t *total) add(value []byte) {
	t.Pairs++
	t.Sum += binary.LittleEndian.Uint64(value)
}

// remove counts a sealed value out.
func (t *total) remove(value []byte) {
	t.Pairs--
	t.Sum -= binary.LittleEndian.Uint64(value)
}

// A record is a value of the catalogue that knows its place and its rules.
type record interface {
	// place returns bucket and key.
	place() (bucket, key string)
	check() error
}

func (f *format) place() (string, string)    { return bucketFormat, bucketFormat }
func (w *Workspace) place() (string, string) { return bucketWorkspaces, w.ID }
func (a *Account) place() (string, string)   { return bucketAccounts, a.ID }
func (s *Space) place() (string, string)     { return bucketSpaces, s.ID }
func (w *Workflow) place() (string, string)  { return bucketWorkflows, w.ID }
func (s *Snapshot) place() (string, string) {
	return bucketSnapshots, pairKey(s.Workflow, numberKey(s.Number))
}
func (b *Binding) place() (string, string)    { return bucketBindings, pairKey(b.Workflow, b.Space) }
func (a *AuditEntry) place() (string, string) { return bucketAudit, auditKey(a.Seq) }

func (f *format) check() error {
	if f.Format != formatName {
		return storage.Invalidf("format %q: want %q", f.Format, formatName)
	}
	return nil
}

// newRecord returns an empty record of a bucket; nil for the raw ones and for
// no bucket of ours.
func newRecord(bucket string) record {
	switch bucket {
	case bucketFormat:
		return new(format)
	case bucketWorkspaces:
		return new(Workspace)
	case bucketAccounts:
		return new(Account)
	case bucketSpaces:
		return new(Space)
	case bucketWorkflows:
		return new(Workflow)
	case bucketSnapshots:
		return new(Snapshot)
	case bucketBindings:
		return new(Binding)
	case bucketAudit:
		return new(AuditEntry)
	}
	return nil
}

// pairKey joins two ids; neither has control characters, so that the key can be
// taken apart again and one workflow's keys lie together.
func pairKey(a, b string) string { return a + "\x00" + b }

// numberKey and auditKey sort as their numbers do.
func numberKey(n int) string { return fmt.Sprintf("%016x", n) }

func auditKey(seq uint64) string { return string(binary.BigEndian.AppendUint64(nil, seq)) }

func snapshotID(workflow string, number int) string { return workflow + "@" + strconv.Itoa(number) }

// seal puts a checksum before a payload. It covers bucket and key too, so that
// a value that a damaged page shows under another key is found.
func seal(bucket, key string, payload []byte) []byte {
	return append(storage.AppendU64(make([]byte, 0, 8+len(payload)), sum(bucket, key, payload)), payload...)
}

func sum(bucket, key string, payload []byte) uint64 {
	var h xxhash.Digest
	h.Reset()
	for _, s := range []string{bucket, key} {
		_, _ = h.Write(storage.AppendU64(nil, uint64(len(s))))
		_, _ = h.WriteString(s)
	}
	_, _ = h.Write(payload)
	return h.Sum64()
}

// unseal checks a value and returns its payload, which lies in value.
func unseal(bucket, key string, value []byte) ([]byte, error) {
	if len(value) < 8 {
		return nil, fmt.Errorf("%d bytes, too few for a checksum", len(value))
	}
	payload := value[8:]
	if binary.LittleEndian.Uint64(value) != sum(bucket, key, payload) {
		return nil, errors.New("checksum mismatch")
	}
	return payload, nil
}

// encode returns a record's payload.
func encode(r record) ([]byte, error) {
	b, err := json.Marshal(r)
	if err != nil {
		return nil, storage.Invalidf("%v", err)
	}
	return b, nil
}

// decode returns the record of a payload. It refuses unknown keys of the JSON,
// values out of their range, and a record that belongs in another place.
func decode(bucket, key string, payload []byte) (record, error) {
	r := newRecord(bucket)
	if r == nil {
		return nil, fmt.Errorf("no record of bucket %q", bucket)
	}
	d := json.NewDecoder(bytes.NewReader(payload))
	if bucket != bucketFormat { // which a newer build may have written
		d.DisallowUnknownFields()
	}
	if err := d.Decode(r); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("more than one value")
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	if b, k := r.place(); b != bucket || k != key {
		return nil, fmt.Errorf("belongs at %s %q", b, k)
	}
	return r, nil
}
