package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/quarrysearch/quarry/bm25/analysis"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/segment"
	"github.com/quarrysearch/quarry/storage"
)

const (
	// maxBody is the size from which on no more documents join a request.
	maxBody = 4 << 20
	// perOperation is what each operation adds to the time of a batch, and each
	// document to that of a request: it goes into graphs.
	perOperation = 50 * time.Millisecond
	// stubborn is how often an object is sent whose error does not look passing.
	stubborn = 5
)

// Apply carries out a batch: what its filters delete, what it deletes, then what
// it puts, each on a majority of its replicas. All documents are checked before
// anything is sent. It is not atomic: after an error a part may have been done,
// and the batch can be applied again.
//
// A filter spares the documents that the batch puts: they are replaced.
func (c *Collection) Apply(ctx context.Context, b *index.Batch) error {
	if _, ok := ctx.Deadline(); !ok {
		more, cancel := context.WithTimeout(ctx, c.o.Timeout+time.Duration(b.Len())*perOperation)
		defer cancel()
		ctx = more
	}
	ctx, cancel, err := c.begin(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	return c.wrap("apply to", c.apply(ctx, b))
}

func (c *Collection) apply(ctx context.Context, b *index.Batch) error {
	e, err := c.resolve(ctx, b)
	if err != nil {
		return err
	}
	for _, f := range e.Wheres {
		if err := c.deleteWhere(ctx, f, e.Docs); err != nil {
			return err
		}
	}
	err = parallel(ctx, 4*c.o.Writers, len(e.Gone), func(ctx context.Context, i int) error {
		_, err := c.client.call(ctx, request{method: http.MethodDelete, path: c.objectPath(e.Gone[i]), write: true, replicated: true})
		if errors.Is(err, storage.ErrNotFound) {
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	l := c.known.Load()
	spans := batches(e.Docs, c.o.Documents)
	return parallel(ctx, c.o.Writers, len(spans), func(ctx context.Context, i int) error { return c.put(ctx, l, spans[i]) })
}

// resolve checks the batch and makes the metadata it brings known.
func (c *Collection) resolve(ctx context.Context, b *index.Batch) (*index.Effect, error) {
	e, err := c.known.Load().schema.Resolve(ctx, b, c.o.Analyzers...)
	if err == nil {
		err = c.grow(ctx, e.Grown)
	}
	if !errors.Is(err, storage.ErrSchema) && !errors.Is(err, storage.ErrInvalid) {
		return e, err
	}
	// Another program may have added what is missing, or types may differ now.
	l, rerr := c.refresh(ctx)
	if rerr != nil {
		return nil, errors.Join(err, rerr)
	}
	if e, err = l.schema.Resolve(ctx, b, c.o.Analyzers...); err != nil {
		return nil, err
	}
	return e, c.grow(ctx, e.Grown)
}

// batches cuts documents into runs of at most n, and of about maxBody.
func batches(docs []segment.Doc, n int) [][]segment.Doc {
	var out [][]segment.Doc
	from, size := 0, 0
	for i := range docs {
		more := sizeOf(&docs[i])
		if i > from && (i-from == n || size+more > maxBody) {
			out = append(out, docs[from:i])
			from, size = i, 0
		}
		size += more
	}
	if from < len(docs) {
		out = append(out, docs[from:])
	}
	return out
}

// sizeOf is about how many bytes a document has on its way.
func sizeOf(d *segment.Doc) int {
	n := 512 + 3*len(d.Stored)
	for _, v := range d.Vectors {
		n += 12 * len(v.Vec)
	}
	return n
}

// parallel runs f(0) to f(n-1), at most limit at a time. The first error ends the
// others.
func parallel(ctx context.Context, limit, n int, f func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	var once sync.Once
	var first error
	slots := make(chan struct{}, limit)
	for i := range n {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			if err := f(ctx, i); err != nil {
				once.Do(func() { first = err })
				cancel()
			}
			<-slots
		})
	}
	wg.Wait()
	if first != nil {
		return first
	}
	return ctx.Err()
}

// An object is a document on its way.
type object struct {
	id   string
	data []byte
}

// encode makes objects of documents.
func (c *Collection) encode(l *layout, docs []segment.Doc) ([]object, error) {
	e := encoder{class: c.class, l: l, scratch: analysisScratch.Get().(*analysis.Scratch)}
	defer analysisScratch.Put(e.scratch)
	size := 0
	for i := range docs {
		size += sizeOf(&docs[i])
	}
	objects, b := make([]object, len(docs)), make([]byte, 0, size)
	for i := range docs {
		from := len(b)
		var err error
		if b, err = e.object(b, &docs[i]); err != nil {
			return nil, err
		}
		objects[i] = object{docs[i].ID, b[from:]}
	}
	return objects, nil
}

// put sends documents until the cluster has taken each of them.
func (c *Collection) put(ctx context.Context, l *layout, docs []segment.Doc) error {
	objects, err := c.encode(l, docs)
	if err != nil {
		return err
	}
	for try := 0; ; try++ {
		refused, err := c.putOnce(ctx, objects)
		if err != nil || len(refused) == 0 {
			return err
		}
		left := objects[:0]
		for _, o := range objects {
			text, is := refused[uuid(o.id)]
			if !is {
				continue
			}
			if try >= stubborn && !isPassing(text) {
				return storage.Invalidf("document %q: the cluster refuses it: %s", o.id, text)
			}
			left = append(left, o)
		}
		objects = left
		if try >= patience {
			c.client.degrade()
		}
		if err := c.client.pause(ctx, try, true); err != nil {
			return unavailable(err, fmt.Errorf("document %q: %s", objects[0].id, refused[uuid(objects[0].id)]))
		}
	}
}

// putOnce sends objects and returns the words about those that were refused, by
// their UUIDs.
func (c *Collection) putOnce(ctx context.Context, objects []object) (map[string]string, error) {
	size := 16
	for _, o := range objects {
		size += len(o.data) + 1
	}
	body := append(make([]byte, 0, size), `{"objects":[`...)
	for i, o := range objects {
		body = append(appendComma(body, i), o.data...)
	}
	var refused map[string]string
	_, err := c.client.call(ctx, request{method: http.MethodPost, path: "/v1/batch/objects", body: append(body, "]}"...), write: true, replicated: true,
		extra: time.Duration(len(objects)) * perOperation,
		check: func(data []byte) (err error) {
			refused, err = decodeResults(data, objects)
			return err
		}})
	return refused, err
}

// decodeResults reads what became of each object. One that is not told of is
// refused.
func decodeResults(data []byte, objects []object) (map[string]string, error) {
	var results []struct {
		ID     string `json:"id"`
		Result struct {
			Status string `json:"status"`
			Errors struct {
				Error []struct {
					Message string `json:"message"`
				} `json:"error"`
			} `json:"errors"`
		} `json:"result"`
	}
	// A node gives back all that it was sent. No string holds these words, since
	// quotation marks in it are escaped.
	if bytes.Count(data, []byte(`"result":{"status":"SUCCESS"}`)) == len(objects) {
		return nil, nil
	}
	if err := json.Unmarshal(data, &results); err != nil {
		return nil, &failure{fmt.Errorf("%w: answer of the cluster to a batch: %w", storage.ErrCorrupt, err), true}
	}
	refused := make(map[string]string)
	for _, o := range objects {
		refused[uuid(o.id)] = "the answer does not tell of it: unavailable"
	}
	for _, r := range results {
		if r.Result.Status == "SUCCESS" && len(r.Result.Errors.Error) == 0 {
			delete(refused, r.ID)
		} else if _, is := refused[r.ID]; is {
			text := r.Result.Status
			for _, e := range r.Result.Errors.Error {
				text += " " + e.Message
			}
			refused[r.ID] = words([]byte(text))
		}
	}
	return refused, nil
}
