package external

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/quarrysearch/quarry/knowledge/catalog"
	"github.com/quarrysearch/quarry/knowledge/embed/service/call"
	"github.com/quarrysearch/quarry/storage"
)

// Options of a Handler. Retriever and Authorize are required: there is no door
// that is open by default.
type Options struct {
	Retriever Retriever
	// Authorize tells whether a key may retrieve from a base or space. Compare
	// keys in constant time (crypto/subtle).
	Authorize func(ctx context.Context, key, knowledgeID string) bool
	// Timeout of one request; default 30 s.
	Timeout time.Duration
	// OnError is told what the caller of the API is not, if it is not nil.
	OnError func(r *http.Request, err error)
}

// A Handler answers POST requests of the API; mount it at "/retrieval".
type Handler struct{ o Options }

var _ http.Handler = (*Handler)(nil)

// New makes a Handler.
func New(o Options) (*Handler, error) {
	if o.Retriever == nil || o.Authorize == nil || o.Timeout < 0 {
		return nil, storage.Invalidf("external: Retriever and Authorize are required, and Timeout is not negative")
	}
	if o.Timeout == 0 {
		o.Timeout = 30 * time.Second
	}
	return &Handler{o}, nil
}

// refusal is an error with what the caller is told.
type refusal struct {
	status int
	Failure
}

func (r *refusal) Error() string { return r.Message }

func refuse(status, code int, format string, args ...any) error {
	return &refusal{status, Failure{code, fmt.Sprintf(format, args...)}}
}

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	records, err := h.serve(w, r)
	status, body := http.StatusOK, any(Response{records})
	if err != nil {
		var known *refusal
		if !errors.As(err, &known) {
			known = refusalOf(err)
			if h.o.OnError != nil {
				h.o.OnError(r, err)
			}
		}
		status, body = known.status, known.Failure
	}
	b, err := json.Marshal(body)
	if err != nil {
		status, b = http.StatusInternalServerError, fmt.Appendf(nil, `{"error_code":%d,"error_msg":"internal error"}`, CodeInternal)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // whoever has left is told nothing
}

func (h *Handler) serve(w http.ResponseWriter, r *http.Request) ([]Record, error) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return nil, refuse(http.StatusMethodNotAllowed, CodeInvalid, "want POST, got %.20s", r.Method)
	}
	scheme, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	key = strings.TrimSpace(key)
	if !strings.EqualFold(scheme, "Bearer") || key == "" || strings.Contains(key, " ") {
		return nil, refuse(http.StatusForbidden, CodeNoBearer, "Invalid Authorization header format. Expected 'Bearer <api-key>'.")
	}
	ctx, cancel := context.WithTimeout(r.Context(), h.o.Timeout)
	defer cancel()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBodyBytes))
	if err != nil {
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			return nil, refuse(http.StatusRequestEntityTooLarge, CodeInvalid, "the body has more than %d bytes", MaxBodyBytes)
		}
		return nil, refuse(http.StatusBadRequest, CodeInvalid, "the body cannot be read")
	}
	q, err := ParseRequest(body)
	if err != nil {
		return nil, invalid(err)
	}
	if !h.o.Authorize(ctx, key, q.KnowledgeID) {
		return nil, refuse(http.StatusForbidden, CodeDenied, "Authorization failed. Please check your API key.")
	}
	records, err := h.o.Retriever.Retrieve(ctx, q)
	if err != nil {
		return nil, err
	}
	return checked(records, q)
}

// checked holds a Retriever to the contract.
func checked(records []Record, q *Request) ([]Record, error) {
	if len(records) > q.Setting.TopK {
		return nil, fmt.Errorf("external: %d records, want at most %d", len(records), q.Setting.TopK)
	}
	out := make([]Record, len(records))
	for i, r := range records {
		if !(r.Score >= q.Setting.ScoreThreshold && r.Score <= 1) || i > 0 && r.Score > records[i-1].Score {
			return nil, fmt.Errorf("external: record %d has score %v, out of range or order", i, r.Score)
		}
		if r.Metadata == nil {
			r.Metadata = map[string]any{}
		}
		out[i] = r
	}
	return out, nil
}

// invalid tells the caller what is wrong with the request.
func invalid(err error) error {
	message := strings.TrimPrefix(err.Error(), "quarry: invalid: ")
	if len(message) > 500 {
		message = strings.ToValidUTF8(message[:500], "") + "…"
	}
	return refuse(http.StatusBadRequest, CodeInvalid, "%s", message)
}

// refusalOf classes an error of a Retriever. What it says stays inside, but for
// what is wrong with the request.
func refusalOf(err error) *refusal {
	to := refuse(http.StatusInternalServerError, CodeInternal, "internal error")
	switch {
	case errors.Is(err, storage.ErrNotFound):
		to = refuse(http.StatusNotFound, CodeNotFound, "The knowledge does not exist.")
	case errors.Is(err, catalog.ErrPermission), errors.Is(err, catalog.ErrNotBound), errors.Is(err, catalog.ErrInactive), errors.Is(err, catalog.ErrUnpublished), errors.Is(err, catalog.ErrWorkspace):
		to = refuse(http.StatusForbidden, CodeDenied, "Authorization failed: the knowledge may not be used.")
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), errors.Is(err, call.ErrUnavailable):
		to = refuse(http.StatusServiceUnavailable, CodeInternal, "the knowledge cannot be searched at the moment")
	case errors.Is(err, storage.ErrInvalid):
		to = invalid(err)
	}
	var r *refusal
	errors.As(to, &r)
	return r
}
