package segment

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/quarrysearch/quarry/bm25"
	"github.com/quarrysearch/quarry/bm25/analysis"
	"github.com/quarrysearch/quarry/bm25/sparse"
	"github.com/quarrysearch/quarry/hnsw"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/storage"
)

// A creator starts a section, as (*storage.SegmentWriter).Section does.
type creator = func(section string) (io.Writer, error)

const (
	metaSection = "segment"

	// Version is the newest version of the sections' layout. A segment has the
	// least that can say what it holds.
	//
	//	1: first version
	//	2: fields of sparse vectors
	Version = 2
)

// Write writes the sections of a segment of docs, sorted by id without
// repeats, to w, which the caller finishes. docs must be valid under sc.
//
// Texts are analyzed in o.Threads goroutines, long fields in several at a time,
// while the filter indexes are built; the bytes depend on docs, sc and o.GraphMin
// and o.Memory alone.
func Write(ctx context.Context, w *storage.SegmentWriter, sc *Schema, docs []Doc, o Options) error {
	w.StopWhen(ctx.Err)
	n, err := docCount(len(docs))
	if err != nil {
		return err
	}
	text, vectors, metas := collect(sc, docs)
	for _, t := range text {
		t.split(o.threads())
	}
	sparses := collectSparse(docs)
	fb := filter.NewBuilder()
	defer func() {
		for _, t := range text {
			for _, b := range t.builders {
				b.Reset()
				builders.Put(b)
			}
		}
	}()
	if err := buildParts(ctx, text, docs, fb, metas, o.threads()); err != nil {
		return err
	}
	if err := writeHead(w.Section, n, text, vectors, sparses); err != nil {
		return err
	}
	at := func(i int) []byte { return unsafe.Slice(unsafe.StringData(docs[i].ID), len(docs[i].ID)) }
	if err := writeIDs(w.Section, len(docs), at); err != nil {
		return err
	}
	if err := writeStored(w.Section, docs, o); err != nil {
		return err
	}
	if err := fb.Write(sub(w.Section, filterPrefix), n); err != nil {
		return err
	}
	for _, t := range text {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := bm25.WriteAll(sub(w.Section, textPrefix(t.field.Name)), t.builders, o.threads()); err != nil {
			return err
		}
	}
	for _, v := range vectors {
		if err := v.build(ctx, w, docs, o); err != nil {
			return err
		}
	}
	for _, p := range sparses {
		if err := sparse.Write(sub(w.Section, sparsePrefix(p.name)), p.docs, p.vectors); err != nil {
			return fmt.Errorf("sparse field %q: %w", p.name, err)
		}
	}
	return nil
}

// MaxDocs is the largest number of docs in a segment.
const MaxDocs = math.MaxInt32

func docCount(n int) (uint32, error) {
	if n > MaxDocs {
		return 0, errors.Join(storage.ErrTooLarge, errors.New("more than 2^31-1 documents in one segment"))
	}
	return uint32(n), nil
}

// A textPart is a text field of the segment being written: for each doc that
// has it, the doc and the place in its list of texts. Each of its builders takes
// a run of them, which ends in front of an entry of ends.
type textPart struct {
	field    *TextField
	docs     []uint32
	at       []int32
	bytes    int
	ends     []int
	builders []*bm25.Builder
}

// shareBytes is the text that is worth a builder and a goroutine of its own.
const shareBytes = 1 << 20

// split shares the docs out to at most n builders.
func (t *textPart) split(n int) {
	n = max(1, min(n, t.bytes/shareBytes))
	for i := range n {
		t.ends = append(t.ends, len(t.docs)*(i+1)/n)
		t.builders = append(t.builders, builders.Get().(*bm25.Builder))
	}
}

type vectorPart struct {
	field *VectorField
	docs  []uint32
	at    []int32
}

// collect sorts texts and vectors by field, fields in ascending order.
func collect(sc *Schema, docs []Doc) ([]*textPart, []*vectorPart, int) {
	texts := make(map[string]*textPart)
	vectors := make(map[string]*vectorPart)
	metas := 0
	for i := range docs {
		for j, t := range docs[i].Texts {
			if t.Text == "" {
				continue // stored, but there is nothing to find
			}
			p := texts[t.Field]
			if p == nil {
				p = &textPart{field: sc.Text[t.Field]}
				texts[t.Field] = p
			}
			p.docs, p.at = append(p.docs, uint32(i)), append(p.at, int32(j))
			p.bytes += len(t.Text)
		}
		for j, v := range docs[i].Vectors {
			p := vectors[v.Field]
			if p == nil {
				p = &vectorPart{field: sc.Vectors[v.Field]}
				vectors[v.Field] = p
			}
			p.docs, p.at = append(p.docs, uint32(i)), append(p.at, int32(j))
		}
		metas += len(docs[i].Metas)
	}
	var ts []*textPart
	for _, p := range texts {
		ts = append(ts, p)
	}
	slices.SortFunc(ts, func(a, b *textPart) int { return cmp.Compare(a.field.Name, b.field.Name) })
	var vs []*vectorPart
	for _, p := range vectors {
		vs = append(vs, p)
	}
	slices.SortFunc(vs, func(a, b *vectorPart) int { return cmp.Compare(a.field.Name, b.field.Name) })
	return ts, vs, metas
}

// A sparsePart is a field of sparse vectors of the segment being written.
type sparsePart struct {
	name    string
	docs    []uint32
	vectors []sparse.Vector
}

func collectSparse(docs []Doc) []*sparsePart {
	parts := make(map[string]*sparsePart)
	var out []*sparsePart
	for i := range docs {
		for _, v := range docs[i].Sparse {
			p := parts[v.Field]
			if p == nil {
				p = &sparsePart{name: v.Field}
				parts[v.Field] = p
				out = append(out, p)
			}
			p.docs, p.vectors = append(p.docs, uint32(i)), append(p.vectors, v.Vector)
		}
	}
	slices.SortFunc(out, func(a, b *sparsePart) int { return cmp.Compare(a.name, b.name) })
	return out
}

// smallWrite is the number of docs below which goroutines cost more than they
// bring.
const smallWrite = 64

// buildParts analyzes the texts and fills the filter builder, each builder in a
// goroutine's hands, of which there are threads.
func buildParts(ctx context.Context, text []*textPart, docs []Doc, fb *filter.Builder, metas, threads int) error {
	jobs := make([]func() error, 0, len(text)+1)
	for _, t := range text {
		for i := range t.builders {
			jobs = append(jobs, func() error { t.analyze(ctx, docs, i); return ctx.Err() })
		}
	}
	if metas > 0 {
		jobs = append(jobs, func() error { return addMetas(fb, docs) })
	}
	if len(docs) < smallWrite {
		threads = 1
	}
	errs := make([]error, len(jobs))
	var next atomic.Int64
	work := func() {
		for i := int(next.Add(1)) - 1; i < len(jobs); i = int(next.Add(1)) - 1 {
			errs[i] = jobs[i]()
		}
	}
	var wg sync.WaitGroup
	for range min(threads, len(jobs)) - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
	return errors.Join(errs...)
}

// Builders and scratches keep their memory from batch to batch.
var builders = sync.Pool{New: func() any { return bm25.NewBuilder() }}

var scratches = sync.Pool{New: func() any { return new(analysis.Scratch) }}

// analyze gives a builder the tokens of its docs.
func (t *textPart) analyze(ctx context.Context, docs []Doc, share int) {
	s := scratches.Get().(*analysis.Scratch)
	defer scratches.Put(s)
	b := t.builders[share]
	emit := func(k *analysis.Token) { b.Token(k.Term, k.Position) }
	from := 0
	if share > 0 {
		from = t.ends[share-1]
	}
	for i := from; i < t.ends[share]; i++ {
		if i%64 == 0 && ctx.Err() != nil {
			return
		}
		doc := t.docs[i]
		b.StartDoc(doc)
		t.field.Analyzer.Tokens(s, docs[doc].Texts[t.at[i]].Text, emit)
		b.EndDoc()
	}
}

func writeStored(create creator, docs []Doc, o Options) error {
	dw, err := storage.NewDocWriter(sub(create, storedPrefix), o.docMode())
	if err != nil {
		return err
	}
	for i := range docs {
		if err := dw.Add(docs[i].Stored); err != nil {
			return err
		}
	}
	return dw.Finish()
}

func (o Options) docMode() storage.DocMode {
	if o.Memory {
		return storage.DocRaw
	}
	return storage.DocZstd
}

func (v *vectorPart) build(ctx context.Context, w *storage.SegmentWriter, docs []Doc, o Options) error {
	dim := v.field.Options.Dim
	rows := make([]float32, 0, len(v.docs)*dim)
	for i, doc := range v.docs {
		rows = append(rows, docs[doc].Vectors[v.at[i]].Vec...)
	}
	return hnsw.Build(ctx, o.vector(v.field), rows, v.docs, sub(w.Section, vectorPrefix(v.field.Name)))
}

// writeHead writes the section that says what else the segment holds.
func writeHead(create creator, docs uint32, text []*textPart, vectors []*vectorPart, sparses []*sparsePart) error {
	var n fieldNames
	for _, t := range text {
		n.text = append(n.text, t.field.Name)
	}
	for _, v := range vectors {
		n.vectors = append(n.vectors, v.field.Name)
	}
	for _, p := range sparses {
		n.sparse = append(n.sparse, p.name)
	}
	return writeSection(create, metaSection, appendHead(nil, docs, n))
}

func appendHead(b []byte, docs uint32, n fieldNames) []byte {
	lists := [][]string{n.text, n.vectors, n.sparse}
	v := uint32(Version)
	if len(n.sparse) == 0 {
		v, lists = 1, lists[:2]
	}
	b = storage.AppendU32(b, v)
	b = storage.AppendU32(b, docs)
	for _, names := range lists {
		b = storage.AppendUvarint(b, uint64(len(names)))
		for _, n := range names {
			b = storage.AppendBytes(b, n)
		}
	}
	return b
}

// Prefixes of the sections of each part. A field's name is escaped as in the
// path of a URL, so that it holds no slash and no two fields share a prefix.
const (
	storedPrefix = "docs/"
	filterPrefix = "filter/"
)

func textPrefix(field string) string   { return "text/" + escape(field) + "/" }
func vectorPrefix(field string) string { return "vector/" + escape(field) + "/" }
func sparsePrefix(field string) string { return "sparse/" + escape(field) + "/" }

// maxEscaped keeps section names within the container's 255 bytes.
const maxEscaped = 160

func escape(field string) string {
	if s := url.PathEscape(field); len(s) <= maxEscaped {
		return s
	}
	// Too long when escaped: a number from the name's bytes that no plain
	// escape equals, for it starts with a bare percent sign.
	return "%" + hashName(field)
}

func sub(create creator, prefix string) creator {
	return func(section string) (io.Writer, error) { return create(prefix + section) }
}

func subSection(section func(string) ([]byte, bool), prefix string) func(string) ([]byte, bool) {
	return func(name string) ([]byte, bool) { return section(prefix + name) }
}

func addMetas(fb *filter.Builder, docs []Doc) error {
	for i := range docs {
		for _, m := range docs[i].Metas {
			if err := fb.Add(uint32(i), m.Field, m.Value); err != nil {
				return err
			}
		}
	}
	return nil
}

// Match returns the docs, counted from 0, that a filter matches. It serves a
// DeleteWhere on the documents of its own batch.
func Match(f filter.Compiled, docs []Doc) (*roaring.Bitmap, error) {
	fb := filter.NewBuilder()
	if err := addMetas(fb, docs); err != nil {
		return nil, err
	}
	parts := make(map[string]*bytes.Buffer)
	err := fb.Write(func(name string) (io.Writer, error) {
		parts[name] = new(bytes.Buffer)
		return parts[name], nil
	}, uint32(len(docs)))
	if err != nil {
		return nil, err
	}
	s, err := filter.Open(func(name string) ([]byte, bool) {
		b, ok := parts[name]
		if !ok {
			return nil, false
		}
		return b.Bytes(), true
	}, uint32(len(docs)))
	if err != nil {
		return nil, err
	}
	return f.Eval(context.Background(), s, nil, uint32(len(docs)))
}
