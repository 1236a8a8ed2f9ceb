package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quarrysearch/quarry/collection"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/storage"
)

// A version of a document in the journal; the zero one is no document.
type version struct {
	number int64
	group  string
}

// A journal holds what each document may be, and what was last done to it. An
// operation that was acknowledged leaves one possibility. One that failed may take
// effect at any later time, also behind others that were acknowledged: what it would
// leave stays possible.
type journal struct {
	may     map[string][]version
	late    map[string][]version // of operations that failed
	history map[string][]string
}

func newJournal() *journal {
	return &journal{map[string][]version{}, map[string][]version{}, map[string][]string{}}
}

func (j *journal) set(id string, v version, acknowledged bool) {
	if acknowledged {
		j.may[id] = []version{v}
	} else {
		j.late[id] = add(j.late[id], v)
	}
	j.note(id, fmt.Sprintf("%v", v), acknowledged)
}

// allowed are the versions that a document may be; none is no document.
func (j *journal) allowed(id string) []version {
	out := slices.Concat(j.may[id], j.late[id])
	if len(j.may[id]) == 0 {
		out = add(out, version{})
	}
	return out
}

// drop is a delete by filter: what is of the group goes.
func (j *journal) drop(group string, acknowledged bool) {
	for id := range j.history {
		var next []version
		for _, v := range j.allowed(id) {
			if v.group == group {
				if !acknowledged {
					next = add(next, v)
				}
				v = version{}
			}
			next = add(next, v)
		}
		if !slices.Equal(next, j.allowed(id)) && !acknowledged {
			j.late[id] = add(j.late[id], version{})
		}
		if acknowledged {
			j.may[id] = next
		}
		j.note(id, "delete all of "+group, acknowledged)
	}
}

// note keeps the last operations that met a document.
func (j *journal) note(id, what string, acknowledged bool) {
	if !acknowledged {
		what += " failed"
	}
	h := append(j.history[id], time.Now().Format("05.000 ")+what)
	j.history[id] = h[max(0, len(h)-8):]
}

func add(vs []version, v version) []version {
	if slices.Contains(vs, v) {
		return vs
	}
	return append(vs, v)
}

// Sizes of the load. Each writer has documents of its own, so that what it does to
// one happens in order.
const (
	writers     = 3
	readers     = 2
	idsEach     = 40
	putAtOnce   = 5
	anchors     = 50 // documents nobody changes
	callLimit   = 10 * time.Second
	callMargin  = 2 * time.Second
	pauseOfLoad = 10 * time.Millisecond
)

var groups = []string{"slate", "granite", "marble"}

func faultSchema() *index.Schema {
	return &index.Schema{
		Text:    []index.TextField{{Name: "body"}},
		Vectors: []index.VectorField{{Name: "v", Dim: 8}},
		Meta:    map[string]filter.Type{"writer": filter.Keyword, "group": filter.Keyword, "version": filter.Int64, "anchor": filter.Bool},
		Strict:  true,
	}
}

func faultDocument(rng *rand.Rand, id, writer string, v version) index.Document {
	vec := make([]float32, 8)
	for i := range vec {
		vec[i] = float32(rng.NormFloat64())
	}
	return index.Document{ID: id, Text: map[string]string{"body": fmt.Sprintf("stone of %s cut %d", v.group, v.number)}, Vectors: map[string][]float32{"v": vec},
		Meta: map[string]any{"writer": writer, "group": v.group, "version": v.number, "anchor": writer == ""}}
}

// A load writes and reads until it is stopped, and keeps the journal.
type load struct {
	c    collection.Collection
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu       sync.Mutex
	journal  []*journal // one a writer
	calls    map[string]*calls
	mistakes []string // what must never be
}

// calls are those of one kind in a phase.
type calls struct {
	done, failed int
	worst        time.Duration // of one call
	gap          time.Duration // between two that succeeded
	last         time.Time     // that one succeeded
	began        time.Time     // the last that succeeded
	errs         []string      // the first ones
}

func startLoad(t *testing.T, c collection.Collection) *load {
	t.Helper()
	rng, b := rand.New(rand.NewPCG(1, 1)), index.NewBatch()
	for i := range anchors {
		b.Put(faultDocument(rng, fmt.Sprint("anchor", i), "", version{int64(i), groups[i%len(groups)]}))
	}
	for start := time.Now(); ; { // the machine may be busy
		err := c.Apply(t.Context(), b)
		if err == nil {
			break
		}
		if !errors.Is(err, collection.ErrUnavailable) || time.Since(start) > time.Minute {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	l := &load{c: c, stop: stop, calls: map[string]*calls{}}
	for w := range writers {
		j := newJournal()
		l.journal = append(l.journal, j)
		l.wg.Go(func() { l.write(ctx, w, j) })
	}
	for r := range readers {
		l.wg.Go(func() { l.read(ctx, r) })
	}
	return l
}

// end stops the load; the call each goroutine is in ends first.
func (l *load) end() {
	l.stop()
	l.wg.Wait()
}

func (l *load) mistake(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.mistakes) < 20 {
		l.mistakes = append(l.mistakes, fmt.Sprintf(format, args...))
	}
}

// call makes a call with a deadline and says whether it succeeded. An error that is
// none of those a caller may expect, and a call that outlives its deadline, are
// mistakes.
func (l *load) call(kind string, f func(ctx context.Context) error) bool {
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	start := time.Now()
	err := f(ctx)
	took := time.Since(start)
	if took > callLimit+callMargin {
		l.mistake("%s took %v, its deadline is %v", kind, took, callLimit)
	}
	if err != nil && !errors.Is(err, collection.ErrUnavailable) {
		l.mistake("%s: not a typed error: %v", kind, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.calls[kind]
	if s == nil {
		s = &calls{last: start}
		l.calls[kind] = s
	}
	s.worst = max(s.worst, took)
	if err != nil {
		s.failed++
		if len(s.errs) < 2 {
			s.errs = append(s.errs, err.Error())
		}
		return false
	}
	s.done++
	s.gap, s.last, s.began = max(s.gap, time.Since(s.last)), time.Now(), start
	return true
}

// awaitPut waits until a put that begins from now on has succeeded; it is an error
// when none has at a time.
func (l *load) awaitPut(t *testing.T, until time.Time) {
	t.Helper()
	for from := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		l.mu.Lock()
		s := l.calls["put"]
		done := s != nil && s.began.After(from)
		l.mu.Unlock()
		if done {
			return
		}
		if time.Now().After(until) {
			t.Error("writes do not go on")
			return
		}
	}
}

// phase returns what was counted since the last call of it.
func (l *load) phase(t *testing.T, name string) map[string]*calls {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.calls
	l.calls = map[string]*calls{}
	for kind, s := range out {
		s.gap = max(s.gap, time.Since(s.last))
		l.calls[kind] = &calls{last: s.last}
	}
	var b strings.Builder
	for _, kind := range []string{"put", "delete", "delete by filter", "search", "get", "count"} {
		if s := out[kind]; s != nil {
			fmt.Fprintf(&b, "; %s %d ok, %d failed, worst %d ms, gap %d ms", kind, s.done, s.failed, s.worst.Milliseconds(), s.gap.Milliseconds())
		}
	}
	t.Logf("%s%s", name, b.String())
	for kind, s := range out {
		for _, e := range s.errs {
			t.Logf("%s: %s: %.300s", name, kind, e)
		}
	}
	return out
}

func (l *load) write(ctx context.Context, w int, j *journal) {
	rng, name := rand.New(rand.NewPCG(2, uint64(w))), fmt.Sprint("w", w)
	ids := make([]string, idsEach)
	for i := range ids {
		ids[i] = fmt.Sprintf("%s-%d", name, i)
	}
	for number := int64(1); ctx.Err() == nil; number++ {
		switch op := rng.IntN(20); {
		case op < 15:
			b, v := index.NewBatch(), version{number, groups[rng.IntN(len(groups))]}
			put := make([]string, putAtOnce)
			for i := range put {
				put[i] = ids[rng.IntN(len(ids))]
				b.Put(faultDocument(rng, put[i], name, v))
			}
			ok := l.call("put", func(ctx context.Context) error { return l.c.Apply(ctx, b) })
			for _, id := range put {
				j.set(id, v, ok)
			}
		case op < 19:
			b, id := index.NewBatch(), ids[rng.IntN(len(ids))]
			b.Delete(id)
			j.set(id, version{}, l.call("delete", func(ctx context.Context) error { return l.c.Apply(ctx, b) }))
		default:
			b, group := index.NewBatch(), groups[rng.IntN(len(groups))]
			b.DeleteWhere(filter.And(filter.Eq("writer", name), filter.Eq("group", group)))
			j.drop(group, l.call("delete by filter", func(ctx context.Context) error { return l.c.Apply(ctx, b) }))
		}
		pause(ctx)
	}
}

func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(pauseOfLoad):
	}
}

// read asks what must hold at all times: documents nobody changes are there.
func (l *load) read(ctx context.Context, r int) {
	rng, all := rand.New(rand.NewPCG(3, uint64(r))), filter.Eq("anchor", true)
	for ctx.Err() == nil {
		var res *index.Results
		q := index.Query{Text: &index.TextQuery{Text: "stone of slate"}, Vector: &index.VectorQuery{Field: "v", Vector: faultDocument(rng, "q", "", version{}).Vectors["v"]}, Filter: all, K: 10}
		if l.call("search", func(ctx context.Context) (err error) { res, err = l.c.Search(ctx, q); return err }) && len(res.Hits) != 10 {
			l.mistake("a search among %d documents gave %d", anchors, len(res.Hits))
		}
		var d index.Document
		i := rng.IntN(anchors)
		id := fmt.Sprint("anchor", i)
		if l.call("get", func(ctx context.Context) (err error) { d, err = l.c.Get(ctx, id); return tellMissing(err) }) && d.Meta["version"] != int64(i) {
			l.mistake("%s: version %v", id, d.Meta["version"])
		}
		n := 0
		if l.call("count", func(ctx context.Context) (err error) { n, err = l.c.Count(ctx, all); return err }) && n != anchors {
			l.mistake("%d documents of %d are counted", n, anchors)
		}
		pause(ctx)
	}
}

// tellMissing makes a document that is not there a mistake: it is no answer that
// may be expected.
func tellMissing(err error) error {
	if errors.Is(err, storage.ErrNotFound) {
		return fmt.Errorf("a document that was there is not: %v", err)
	}
	return err
}
