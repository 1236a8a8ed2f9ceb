package catalog

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"slices"

	"github.com/quarrysearch/quarry/knowledge/catalog/internal/pages"
	"github.com/quarrysearch/quarry/storage"
)

// maxFaults bounds what one load reports.
const maxFaults = 16

// A loader reads a whole file into tables and checks every invariant on the
// way.
type loader struct {
	ctx    context.Context
	name   string
	audit  bool // decode audit entries too
	t      *tables
	format *format
	names  []string // of the buckets there
	raw    map[string]map[string]bool
	faults []error
}

// load reads the catalogue in r, a file of size bytes. Of audit entries, which
// no answer but Audit's rests on and which are most of a file, it checks number
// and checksum, and decodes them only when asked. The error joins what is
// wrong, each storage.ErrCorrupt; a newer format is storage.ErrVersion alone.
func load(ctx context.Context, r io.ReaderAt, size int64, name string, audit bool) (t *tables, txid uint64, err error) {
	l := &loader{ctx: ctx, name: name, audit: audit, t: newTables(), raw: map[string]map[string]bool{bucketDrafts: {}, bucketDefinitions: {}}}
	if txid, err = pages.Walk(r, size, name, l.emit); err != nil {
		return nil, 0, err
	}
	if l.format == nil {
		return nil, 0, errors.Join(storage.Corruptf(name, 0, "no format record: not a catalogue"), errors.Join(l.faults...))
	}
	if v := l.format.Version; v != formatVersion {
		return nil, 0, &storage.VersionError{File: name, Have: v, Min: formatVersion, Max: formatVersion}
	}
	if have := l.t.total; have != l.format.Total {
		l.fault(0, "%d pairs with the sum %x, want %d with %x", have.Pairs, have.Sum, l.format.Total.Pairs, l.format.Total.Sum)
	}
	for _, b := range buckets() {
		if !slices.Contains(l.names, b) {
			l.fault(0, "bucket %q is missing", b)
		}
	}
	l.references()
	if len(l.faults) > 0 {
		return nil, 0, errors.Join(l.faults...)
	}
	return l.t, txid, nil
}

func (l *loader) fault(off int64, format string, args ...any) {
	if len(l.faults) < maxFaults {
		l.faults = append(l.faults, storage.Corruptf(l.name, off, format, args...))
	}
}

// emit takes a pair. What is wrong with a record does not end the walk: the
// format record, which may say that a newer build wrote all this, may come
// later.
func (l *loader) emit(bucket string, key, value []byte, off int64) error {
	if err := l.ctx.Err(); err != nil {
		return err
	}
	if key == nil {
		l.names = append(l.names, bucket)
		if !slices.Contains(buckets(), bucket) {
			l.fault(off, "unknown bucket %q", bucket)
		}
		return nil
	}
	payload, err := unseal(bucket, string(key), value)
	if err != nil {
		l.fault(off, "%s %q: %v", bucket, key, err)
		return nil
	}
	if bucket != bucketFormat {
		l.t.total.add(value)
	}
	if m := l.raw[bucket]; m != nil {
		if len(payload) > MaxDefinition {
			l.fault(off, "%s %q: %d bytes, at most %d", bucket, key, len(payload), MaxDefinition)
		}
		m[string(key)] = true
		return nil
	}
	var r record
	if bucket == bucketAudit && !l.audit && len(key) == 8 && string(key) != auditKey(0) {
		r = &AuditEntry{Seq: binary.BigEndian.Uint64(key)}
	} else if r, err = decode(bucket, string(key), payload); err != nil {
		l.fault(off, "%s %q: %v", bucket, key, err)
		return nil
	}
	switch r := r.(type) {
	case *format:
		l.format = r
	case *AuditEntry:
		if last := l.t.auditLast; last != 0 && r.Seq != last+1 {
			l.fault(off, "audit entry %d follows %d", r.Seq, last)
		}
	}
	l.t.set(r)
	return nil
}

// references checks what records say of each other.
func (l *loader) references() {
	t := l.t
	if n := t.auditLast - t.auditFirst + 1; t.auditLast > 0 && n > MaxAudit {
		l.fault(0, "%d audit entries, at most %d", n, MaxAudit)
	}
	for _, a := range t.accounts {
		if t.workspaces[a.Workspace] == nil {
			l.fault(0, "account %q: there is no workspace %q", a.ID, a.Workspace)
		}
		for _, g := range a.Grants {
			if g.Space == AllSpaces {
				continue
			}
			if s := t.spaces[g.Space]; s == nil || s.Workspace != a.Workspace {
				l.fault(0, "account %q: grant on space %q, which its workspace lacks", a.ID, g.Space)
			}
		}
	}
	for _, s := range t.spaces {
		if t.workspaces[s.Workspace] == nil {
			l.fault(0, "space %q: there is no workspace %q", s.ID, s.Workspace)
		}
	}
	for _, w := range t.workflows {
		l.workflow(w)
	}
	for id := range l.raw[bucketDrafts] {
		if t.workflows[id] == nil {
			l.fault(0, "draft of workflow %q, which is not there", id)
		}
	}
	for id, snapshots := range t.snapshots {
		l.snapshots(id, snapshots)
	}
	for key := range l.raw[bucketDefinitions] {
		l.fault(0, "definition %q has no snapshot", key) // those that have one are taken out above
	}
	for id, bindings := range t.bindings {
		l.bindings(id, bindings)
	}
}

func (l *loader) workflow(w *Workflow) {
	if l.t.workspaces[w.Workspace] == nil {
		l.fault(0, "workflow %q: there is no workspace %q", w.ID, w.Workspace)
	}
	if !l.raw[bucketDrafts][w.ID] {
		l.fault(0, "workflow %q has no draft", w.ID)
	}
	var current string
	if s := l.t.current(w.ID); s != nil {
		current = s.ID
	}
	if w.Published != current {
		l.fault(0, "workflow %q: published is %q, its newest snapshot %q", w.ID, w.Published, current)
	}
}

func (l *loader) snapshots(workflow string, snapshots []*Snapshot) {
	if l.t.workflows[workflow] == nil {
		l.fault(0, "snapshots of workflow %q, which is not there", workflow)
	}
	if len(snapshots) > MaxSnapshots {
		l.fault(0, "workflow %q has %d snapshots, at most %d", workflow, len(snapshots), MaxSnapshots)
	}
	for i, s := range snapshots {
		if i > 0 && s.Number != snapshots[i-1].Number+1 {
			l.fault(0, "workflow %q: snapshot %d follows %d", workflow, s.Number, snapshots[i-1].Number)
		}
		_, key := s.place()
		if !l.raw[bucketDefinitions][key] {
			l.fault(0, "snapshot %q has no definition", s.ID)
		}
		delete(l.raw[bucketDefinitions], key)
	}
}

func (l *loader) bindings(workflow string, bindings map[string]*Binding) {
	w := l.t.workflows[workflow]
	if w == nil {
		l.fault(0, "bindings of workflow %q, which is not there", workflow)
		return
	}
	for id := range bindings {
		if s := l.t.spaces[id]; s == nil || s.Workspace != w.Workspace {
			l.fault(0, "workflow %q: binding to space %q, which its workspace lacks", workflow, id)
		}
	}
	for _, o := range []Origin{ByDraft, ByPublish} {
		if n := len(l.t.boundBy(workflow, o)); n > MaxSpaces {
			l.fault(0, "workflow %q has %d active bindings by %s, at most %d", workflow, n, o, MaxSpaces)
		}
	}
	for _, b := range l.t.boundBy(workflow, ByPublish) {
		s := l.t.current(workflow)
		if s == nil || !slices.ContainsFunc(s.Spaces, func(s SnapshotSpace) bool { return s.Space == b.Space }) {
			l.fault(0, "workflow %q: space %q is bound by a publication that does not name it", workflow, b.Space)
		}
	}
}
