package httpapi

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/httpapi/shape"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/registry"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/storage"
)

const (
	mediaNDJSON = "application/x-ndjson"

	batchDocuments = 1000
	batchBytes     = 8 << 20
	maxBulkErrors  = 100
)

type bulkAnswer struct {
	Lines     int        `json:"lines" doc:"that were read"`
	Documents int        `json:"documents" doc:"that are durable"`
	Bad       int        `json:"bad" doc:"lines that made no document, or one that was refused"`
	Durable   int        `json:"durable_line" doc:"every good line up to this one, from 1, is durable"`
	Errors    []bulkLine `json:"errors" doc:"the first 100 bad lines"`
}

type bulkLine struct {
	Line   int    `json:"line" doc:"from 1"`
	ID     string `json:"id,omitempty"`
	Reason string `json:"reason"`
}

// bulk puts the documents of a stream, in batches that are each atomic.
func bulk(c *call, in *inCollection) (*bulkAnswer, error) {
	if err := c.wantMedia(mediaNDJSON, "application/jsonl"); err != nil {
		return nil, err
	}
	h, err := c.collection(in.Collection)
	if err != nil {
		return nil, err
	}
	defer h.Release()
	if err := c.writable(h); err != nil {
		return nil, err
	}
	body, err := c.limit(c.a.o.MaxBulk)
	if err != nil {
		return nil, err
	}
	each, err := shape.Of(reflect.TypeFor[document]())
	if err != nil {
		return nil, err
	}
	b := &bulkRun{c: c, h: h, shape: each, in: bufio.NewReaderSize(body, 64<<10)}
	b.out.Errors = []bulkLine{}
	start := time.Now()
	if err := b.run(); err != nil {
		p := *c.problem(err)
		p.Durable = &b.out
		return nil, &p
	}
	c.stage("import", start)
	return &b.out, nil
}

type bulkRun struct {
	c     *call
	h     *registry.Collection
	shape *shape.Shape
	in    *bufio.Reader
	out   bulkAnswer

	line  []byte
	docs  []index.Document
	lines []int // of docs
	size  int
}

func (b *bulkRun) run() error {
	if err := b.unzip(); err != nil {
		return err
	}
	for {
		err := b.next()
		if err == io.EOF {
			return b.apply()
		}
		if err != nil {
			return bodyError(err)
		}
		if len(b.docs) >= batchDocuments || b.size >= batchBytes {
			if err := b.apply(); err != nil {
				return err
			}
		}
	}
}

// unzip reads on through gzip where the body is of that.
func (b *bulkRun) unzip() error {
	switch coding := b.c.r.Header.Get("Content-Encoding"); coding {
	case "", "identity", "gzip":
	default:
		return &Problem{Status: http.StatusUnsupportedMediaType, Code: CodeMedia, Detail: "the Content-Encoding is none of gzip and identity"}
	}
	if head, _ := b.in.Peek(2); !bytes.Equal(head, []byte{0x1f, 0x8b}) {
		return nil
	}
	z, err := gzip.NewReader(b.in)
	if err != nil {
		return storage.Invalidf("gzip: %v", err)
	}
	b.in = bufio.NewReaderSize(z, 64<<10)
	return nil
}

// next reads a line into the batch; io.EOF behind the last.
func (b *bulkRun) next() error {
	line, err := b.read()
	if err != nil {
		return err
	}
	b.out.Lines++
	if len(bytes.TrimSpace(line)) == 0 {
		return nil
	}
	var d document
	if err := b.shape.Decode(string(line), &d); err != nil {
		b.bad(b.out.Lines, d.ID, err)
		return nil
	}
	doc, err := d.index()
	if err != nil {
		b.bad(b.out.Lines, d.ID, err)
		return nil
	}
	b.docs, b.lines = append(b.docs, doc), append(b.lines, b.out.Lines)
	b.size += len(line)
	return nil
}

// read reads a line, valid until the next call. A line beyond the limit ends the
// import: it may have no end.
func (b *bulkRun) read() ([]byte, error) {
	b.line = b.line[:0]
	for {
		part, err := b.in.ReadSlice('\n')
		b.line = append(b.line, part...)
		if int64(len(b.line)) > b.c.a.o.MaxLine {
			p := TooLarge(b.c.a.o.MaxLine)
			p.Detail = "line " + itoa(b.out.Lines+1) + " is larger than " + bytesOf(p.Limit) + ", the most that a line may have"
			return nil, p
		}
		switch {
		case err == bufio.ErrBufferFull:
		case err == io.EOF && len(b.line) > 0: // a last line without an end
			return b.line, nil
		case err != nil:
			return nil, err
		default:
			return b.line, nil
		}
	}
}

// apply applies the batch.
func (b *bulkRun) apply() error {
	select {
	case <-b.c.a.o.Stopping:
		return ErrStopping
	default:
	}
	if err := b.put(b.docs, b.lines); err != nil {
		return err
	}
	b.out.Durable = b.out.Lines
	b.docs, b.lines, b.size = b.docs[:0], b.lines[:0], 0
	clear(b.docs[:cap(b.docs)]) // let the texts go
	return nil
}

// put applies documents. Where they are refused as a whole, it halves them until
// the bad ones stand alone.
func (b *bulkRun) put(docs []index.Document, lines []int) error {
	if len(docs) == 0 {
		return nil
	}
	err := b.h.Apply(b.c.r.Context(), docs)
	switch {
	case err == nil:
		b.out.Documents += len(docs)
		return nil
	case !errors.Is(err, storage.ErrInvalid) && !errors.Is(err, storage.ErrSchema) && !errors.Is(err, storage.ErrTooLarge):
		return err
	case len(docs) == 1:
		b.bad(lines[0], docs[0].ID, err)
		return nil
	}
	half := len(docs) / 2
	if err := b.put(docs[:half], lines[:half]); err != nil {
		return err
	}
	return b.put(docs[half:], lines[half:])
}

func (b *bulkRun) bad(line int, id string, err error) {
	b.out.Bad++
	if len(b.out.Errors) < maxBulkErrors {
		b.out.Errors = append(b.out.Errors, bulkLine{line, id, strings.ToValidUTF8(b.c.a.plain(err), "�")})
	}
}
