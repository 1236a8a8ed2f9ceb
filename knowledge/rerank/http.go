package rerank

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/quarrysearch/quarry/knowledge/embed/service/call"
	"github.com/quarrysearch/quarry/storage"
)

// A Provider is a kind of reranking service.
type Provider uint8

// The providers.
const (
	// Cohere is POST /v2/rerank under https://api.cohere.com.
	Cohere Provider = iota
	// Jina is POST /rerank under https://api.jina.ai/v1, or under the base URL
	// of a server that speaks it (vLLM, llama.cpp).
	Jina
	// Voyage is POST /rerank under https://api.voyageai.com/v1.
	Voyage
	// TEI is POST /rerank of a Text Embeddings Inference server, by default
	// under http://localhost:8080.
	TEI
)

// String returns the name that ParseProvider reads.
func (p Provider) String() string {
	if int(p) < len(shapes) {
		return shapes[p].name
	}
	return "unknown"
}

// ParseProvider reads "cohere", "jina", "voyage" or "tei".
func ParseProvider(name string) (Provider, error) {
	var names []string
	for p := range shapes {
		if shapes[p].name == name {
			return Provider(p), nil
		}
		names = append(names, shapes[p].name)
	}
	return 0, storage.Invalidf("reranking provider %q, want one of %s", name, strings.Join(names, ", "))
}

// Options configure an HTTP reranker. The zero value of a field stands for its
// default.
type Options struct {
	// Call says how the service is reached. Its defaults are shorter than an
	// embedder's, because somebody waits: Timeout 10 s, Tries 2.
	Call call.Options
	// Model is required, except by TEI, which serves one.
	Model string
	// Scale says what the service's values are. Default: logits for TEI, which
	// is asked for them; unit for the others.
	Scale Scale
	// MaxPassages bounds one request; more are sent in several. Scores of one
	// query stay comparable only for models that score each passage by itself,
	// as cross-encoders do. Default: 1000, TEI 32. Voyage takes 600,000 tokens
	// as well, the query counted once for each passage: ask it for fewer when
	// passages are long.
	MaxPassages int
	// Truncate lets the service cut a query and passage that are together
	// longer than its model takes. Services do not tell when they do. Default:
	// they are asked to refuse. Cohere and Jina have no such parameter.
	Truncate bool
}

// HTTP reranks through a service.
type HTTP struct {
	shape  *shape
	o      Options
	client *call.Client
}

var _ Reranker = (*HTTP)(nil)

// NewHTTP returns a reranker over a provider. It reads the key and sends
// nothing. Errors match storage.ErrInvalid.
func NewHTTP(p Provider, o Options) (*HTTP, error) {
	if int(p) >= len(shapes) {
		return nil, storage.Invalidf("reranking provider %d", p)
	}
	s := &shapes[p]
	switch {
	case strings.TrimSpace(o.Model) == "" && p != TEI:
		return nil, storage.Invalidf("%s: Model is required", s.name)
	case o.Scale > ScaleCosine:
		return nil, storage.Invalidf("%s: Scale %d", s.name, o.Scale)
	case o.MaxPassages < 0:
		return nil, storage.Invalidf("%s: MaxPassages is negative", s.name)
	}
	if o.Scale == ScaleDefault {
		o.Scale = s.scale
	}
	if o.MaxPassages == 0 {
		o.MaxPassages = s.passages
	}
	if o.Call.Timeout == 0 {
		o.Call.Timeout = 10 * time.Second
	}
	if o.Call.Tries == 0 {
		o.Call.Tries = 2
	}
	if o.Call.BaseURL == "" {
		o.Call.BaseURL = s.base
		if o.Call.KeyEnv == "" && o.Call.KeyFile == "" {
			o.Call.KeyEnv = s.keyEnv // never sent to another address unless asked
		}
	}
	client, err := call.New(s.name, o.Call)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	return &HTTP{shape: s, o: o, client: client}, nil
}

// Name returns provider and model, "cohere/rerank-v3.5" say.
func (h *HTTP) Name() string {
	if h.o.Model == "" {
		return h.shape.name
	}
	return h.shape.name + "/" + h.o.Model
}

// Stats returns counts of requests.
func (h *HTTP) Stats() call.Stats { return h.client.Stats() }

// Close closes idle connections.
func (h *HTTP) Close() error { return h.client.Close() }

// Rerank implements Reranker. Errors are those of package call.
func (h *HTTP) Rerank(ctx context.Context, query string, passages []string, topN int) ([]Scored, error) {
	if err := checkQuery(query); err != nil {
		return nil, err
	}
	at, _ := notBlank(passages)
	if len(at) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	parts := (len(at) + h.o.MaxPassages - 1) / h.o.MaxPassages
	found, errs := make([][]Scored, parts), make([]error, parts)
	var wg sync.WaitGroup
	for i := range parts {
		part := at[i*len(at)/parts : (i+1)*len(at)/parts]
		wg.Go(func() {
			if found[i], errs[i] = h.part(ctx, query, passages, part, topN); errs[i] != nil {
				cancel()
			}
		})
	}
	wg.Wait()
	var all []Scored
	for i := range parts {
		all = append(all, found[i]...)
	}
	if err := first(errs); err != nil {
		return nil, err
	}
	all = top(all, topN)
	if err := Check(h.shape.name, all, len(passages), topN); err != nil {
		return nil, err
	}
	return all, nil
}

// first returns the first error that is not the mere consequence of another.
func first(errs []error) error {
	var canceled error
	for _, err := range errs {
		switch {
		case err != nil && !errors.Is(err, context.Canceled):
			return err
		case canceled == nil:
			canceled = err
		}
	}
	return canceled
}

// part scores the passages at the given places; in halves when the service
// says that they are too many.
func (h *HTTP) part(ctx context.Context, query string, passages []string, at []int, topN int) ([]Scored, error) {
	if topN <= 0 || topN > len(at) {
		topN = len(at)
	}
	texts := make([]string, len(at))
	for i, p := range at {
		texts[i] = passages[p]
	}
	body, err := json.Marshal(h.shape.request(&h.o, query, texts, topN))
	if err != nil {
		return nil, storage.Invalidf("%s: request: %v", h.shape.name, err)
	}
	reply, err := h.client.Post(ctx, h.shape.path, body, replyLimit(texts))
	if len(at) > 1 && errors.Is(err, storage.ErrTooLarge) {
		left, err := h.part(ctx, query, passages, at[:len(at)/2], topN)
		if err != nil {
			return nil, err
		}
		right, err := h.part(ctx, query, passages, at[len(at)/2:], topN)
		return append(left, right...), err
	}
	if err != nil {
		return nil, err
	}
	scored, err := parseReply(h.shape, h.o.Scale, reply, len(at))
	if err != nil {
		return nil, err
	}
	for i := range scored {
		scored[i].Index = at[scored[i].Index]
	}
	return scored, nil
}

// replyLimit bounds a reply: some services repeat the passages, escaped.
func replyLimit(texts []string) int64 {
	n := int64(1<<20) + 1024*int64(len(texts))
	for _, t := range texts {
		n += 6 * int64(len(t))
	}
	return n
}

// parseReply reads a reply about n passages.
func parseReply(s *shape, scale Scale, data []byte, n int) ([]Scored, error) {
	items, err := s.decode(s.name, data)
	if err != nil {
		return nil, err
	}
	if len(items) > n {
		return nil, call.Replyf(s.name, "%d scores for %d passages", len(items), n)
	}
	out := make([]Scored, len(items))
	for i, it := range items {
		if it.Index == nil || it.Score == nil {
			return nil, call.Replyf(s.name, "item %d has no index or no score", i)
		}
		raw := *it.Score
		if math.IsNaN(raw) || math.IsInf(raw, 0) {
			return nil, call.Replyf(s.name, "the score of passage %d is %v", *it.Index, raw)
		}
		score, ok := scale.score(raw)
		if !ok {
			return nil, call.Replyf(s.name, "the score of passage %d is %v, which is not on the declared scale: are these logits or cosines? (Options.Scale)", *it.Index, raw)
		}
		out[i] = Scored{Index: *it.Index, Score: score, Raw: raw}
	}
	if err := Check(s.name, out, n, 0); err != nil {
		return nil, err
	}
	return out, nil
}
