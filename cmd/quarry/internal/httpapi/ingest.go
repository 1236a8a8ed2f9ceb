package httpapi

import (
	"encoding/base64"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/httpapi/shape"
	"github.com/quarrysearch/quarry/knowledge"
	"github.com/quarrysearch/quarry/storage"
)

// groupBytes is how much of an upload is in memory before it is brought in.
const groupBytes = 32 << 20

type ingestIn struct {
	Base    string `path:"base" doc:"id of the knowledge base"`
	Prefix  string `query:"prefix" shape:"maxlen=256" doc:"put before the names, with a /"`
	Replace bool   `query:"replace" doc:"let a file take over the name of a document that came from elsewhere"`
}

type ingestOneIn struct {
	Base     string `path:"base" doc:"id of the knowledge base"`
	Document string `path:"document" doc:"name and id of the document; its extension hints at the format"`
	Title    string `query:"title" shape:"maxlen=1024" doc:"overrides what the document says of itself"`
	Replace  bool   `query:"replace" doc:"let it take over the name of a document that came from elsewhere"`
}

type reportAnswer struct {
	*knowledge.Report
}

type inBaseDocument struct {
	Base     string `path:"base" doc:"id of the knowledge base, or id@n"`
	Document string `path:"document" doc:"id of the document"`
}

type enabledIn struct {
	Base     string `path:"base" doc:"id of the knowledge base"`
	Document string `path:"document" doc:"id of the document"`
	Body     struct {
		Enabled bool `json:"enabled" shape:"required" doc:"false: no search finds the document"`
	} `body:"json"`
}

type baseDocumentAnswer struct {
	Document knowledge.Document `json:"document"`
}

type baseDocumentsIn struct {
	Base  string `path:"base" doc:"id of the knowledge base, or id@n"`
	Limit int    `query:"limit" shape:"min=1,max=1000,default=100" doc:"documents on a page"`
	After string `query:"after" doc:"next of the page before"`
}

type baseDocumentsAnswer struct {
	Documents []knowledge.Document `json:"documents" doc:"by id, ascending"`
	Next      string               `json:"next,omitempty" doc:"continues behind this page; missing on the last"`
}

type sourceIn struct {
	Base     string `path:"base" doc:"id of the knowledge base, or id@n"`
	Document string `path:"document" doc:"id of the document"`
	Version  int    `query:"version" shape:"min=1,max=2147483647" doc:"of the document; default the current one"`
}

type expandIn struct {
	Base string `path:"base" doc:"id of the knowledge base, or id@n"`
	Body struct {
		Chunk    string `json:"chunk" shape:"required,minlen=1,maxlen=1024" doc:"chunk_id of an item"`
		Before   int    `json:"before,omitempty" shape:"min=0,max=1000" doc:"chunks before it"`
		After    int    `json:"after,omitempty" shape:"min=0,max=1000" doc:"chunks behind it"`
		Section  bool   `json:"section,omitempty" doc:"the whole innermost section"`
		MaxBytes int    `json:"max_bytes,omitempty" shape:"min=0,max=16777216,default=65536" doc:"bound of the text"`
	} `body:"json"`
}

type passageAnswer struct {
	Passage knowledge.Passage `json:"passage"`
}

func ingestRoutes() []*route {
	const tag, path = "knowledge", "/v1/knowledge-bases/{base}"
	return []*route{
		op(route{method: "POST", path: path + "/documents", id: "ingestFiles", tag: tag, access: Write, stream: true, takes: "multipart/form-data", summary: "Bring files in; each is a document, named by its file name"}, ingestFiles),
		op(route{method: "GET", path: path + "/documents", id: "listBaseDocuments", tag: tag, access: Read, summary: "Page through the documents of a base"}, listBaseDocuments),
		op(route{method: "PUT", path: path + "/documents/{document}", id: "ingestDocument", tag: tag, access: Write, stream: true, takes: "*/*", summary: "Bring one document in: the body is the file"}, ingestOne),
		op(route{method: "GET", path: path + "/documents/{document}", id: "getBaseDocument", tag: tag, access: Read, summary: "Describe a document of a base"},
			func(c *call, in *inBaseDocument) (*baseDocumentAnswer, error) {
				s, err := c.store(in.Base)
				if err != nil {
					return nil, err
				}
				d, err := s.Document(c.r.Context(), in.Base, in.Document)
				return &baseDocumentAnswer{Document: d}, err
			}),
		op(route{method: "DELETE", path: path + "/documents/{document}", id: "deleteBaseDocument", tag: tag, access: Write, summary: "Delete a document, its chunks and its source"},
			func(c *call, in *inBaseDocument) (*deleteAnswer, error) {
				s, err := c.store(in.Base)
				if err != nil {
					return nil, err
				}
				n, err := s.DeleteDocuments(c.r.Context(), in.Base, in.Document)
				return &deleteAnswer{Deleted: n}, err
			}),
		op(route{method: "POST", path: path + "/documents/{document}/enabled", id: "enableBaseDocument", tag: tag, access: Write, summary: "Disable a document, or enable it again"},
			func(c *call, in *enabledIn) (*doneAnswer, error) {
				s, err := c.store(in.Base)
				if err != nil {
					return nil, err
				}
				return &doneAnswer{Done: true}, s.SetEnabled(c.r.Context(), in.Base, in.Document, in.Body.Enabled)
			}),
		op(route{method: "GET", path: path + "/documents/{document}/source", id: "documentSource", tag: tag, access: Read, stream: true, gives: "application/octet-stream", summary: "The bytes of a document's source, checked against their hash"}, source),
		op(route{method: "POST", path: path + "/expand", id: "expandChunk", tag: tag, access: Read, summary: "A chunk with what stands around it"},
			func(c *call, in *expandIn) (*passageAnswer, error) {
				s, err := c.store(in.Base)
				if err != nil {
					return nil, err
				}
				b := &in.Body
				p, err := s.Expand(c.r.Context(), in.Base, b.Chunk, knowledge.ExpandOptions{Before: b.Before, After: b.After, Section: b.Section, MaxBytes: b.MaxBytes})
				return &passageAnswer{Passage: p}, err
			}),
	}
}

func ingestOne(c *call, in *ingestOneIn) (*reportAnswer, error) {
	if err := c.takes(in.Base); err != nil {
		return nil, err
	}
	body, err := c.limit(c.a.o.MaxFile)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(body)
	if err != nil {
		return nil, bodyError(err)
	}
	r, err := c.ingest(knowledge.IngestRequest{Base: in.Base, Replace: in.Replace, Sources: []knowledge.Source{{Name: in.Document, Data: data, Title: in.Title}}})
	if err == nil && len(r.Failed) > 0 { // it was the only one
		err = r.Failed[0].Err
		if code := c.problem(err).Code; code == CodeInternal || code == CodeCorrupt { // the file is the sender's
			err = storage.Invalidf("%s", r.Failed[0].Reason)
		}
		return nil, err
	}
	return &reportAnswer{Report: r}, err
}

// takes tells, before a body is read for it, that a base can be written to.
func (c *call) takes(base string) error {
	if c.a.reg.ReadOnly() {
		return storage.ErrReadOnly
	}
	s, err := c.store(base)
	if err != nil {
		return err
	}
	_, err = s.Base(c.r.Context(), base)
	return err
}

// ingest brings sources in, and makes lists that are empty say so.
func (c *call) ingest(r knowledge.IngestRequest) (*knowledge.Report, error) {
	s, err := c.store(r.Base)
	if err != nil {
		return nil, err
	}
	r.MaxFileBytes = c.a.o.MaxFile
	start := time.Now()
	report, err := s.Ingest(c.r.Context(), r)
	if report == nil {
		report = &knowledge.Report{}
	}
	c.stage("ingest", start)
	return report, err
}

// ingestFiles brings in the files of a form, some at a time: what is in memory is
// bounded, whatever is sent. A file that cannot be read is in the report, and the
// others go on.
func ingestFiles(c *call, in *ingestIn) (*reportAnswer, error) {
	if err := c.wantMedia("multipart/form-data"); err != nil {
		return nil, err
	}
	if err := c.takes(in.Base); err != nil {
		return nil, err
	}
	body, err := c.limit(c.a.o.MaxUpload)
	if err != nil {
		return nil, err
	}
	_, params, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if err != nil || params["boundary"] == "" {
		return nil, &shape.Error{Reason: "the form has no boundary"}
	}
	f := &form{c: c, in: in, parts: multipart.NewReader(body, params["boundary"]), total: &knowledge.Report{Failed: []knowledge.Failure{}, Skipped: []knowledge.Skip{}}}
	for err == nil {
		err = f.next()
	}
	if err == io.EOF {
		err = f.flush()
	}
	return &reportAnswer{Report: f.total}, err
}

type form struct {
	c       *call
	in      *ingestIn
	parts   *multipart.Reader
	sources []knowledge.Source
	size    int
	total   *knowledge.Report
}

// next reads a file; io.EOF behind the last.
func (f *form) next() error {
	part, err := f.parts.NextRawPart()
	if err == io.EOF {
		return err
	}
	if err != nil {
		return bodyError(err)
	}
	defer part.Close() // what is left of it is passed over
	name, err := fileName(part)
	if err != nil {
		return err
	}
	data, err := io.ReadAll(io.LimitReader(part, f.c.a.o.MaxFile+1))
	if err != nil {
		return bodyError(err)
	}
	if int64(len(data)) > f.c.a.o.MaxFile {
		p := TooLarge(f.c.a.o.MaxFile)
		p.Detail = fmt.Sprintf("file %.80q is larger than %s, the most that a file may have", name, bytesOf(p.Limit))
		return p
	}
	if f.in.Prefix != "" {
		name = strings.TrimRight(f.in.Prefix, "/") + "/" + name
	}
	f.sources, f.size = append(f.sources, knowledge.Source{Name: name, Data: data}), f.size+len(data)
	if f.size < groupBytes {
		return nil
	}
	return f.flush()
}

// fileName is that of a part, with the folders a browser gives it.
func fileName(part *multipart.Part) (string, error) {
	_, params, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
	name := strings.ReplaceAll(params["filename"], `\`, "/")
	switch {
	case err != nil || name == "":
		return "", &shape.Error{Field: part.FormName(), Reason: "is no file: every part of the form wants a filename"}
	case !utf8.ValidString(name) || len(name) > 512:
		return "", &shape.Error{Field: "filename", Reason: "want at most 512 bytes of UTF-8"}
	}
	name = strings.TrimLeft(path.Clean("/"+name), "/") // names nothing on any disk, but reads as a path
	if name == "" {
		return "", &shape.Error{Field: "filename", Reason: "has no name in it"}
	}
	return name, nil
}

func (f *form) flush() error {
	if len(f.sources) == 0 {
		return nil
	}
	select {
	case <-f.c.a.o.Stopping:
		return ErrStopping
	default:
	}
	r, err := f.c.ingest(knowledge.IngestRequest{Base: f.in.Base, Replace: f.in.Replace, Sources: f.sources})
	f.sources, f.size = nil, 0
	t := f.total
	t.Added, t.Updated, t.Unchanged, t.Removed = t.Added+r.Added, t.Updated+r.Updated, t.Unchanged+r.Unchanged, t.Removed+r.Removed
	t.Failed, t.Skipped = append(t.Failed, r.Failed...), append(t.Skipped, r.Skipped...)
	t.Warnings, t.Chunks, t.Bytes = t.Warnings+r.Warnings, t.Chunks+r.Chunks, t.Bytes+r.Bytes
	t.Seconds, t.EmbedSeconds = t.Seconds+r.Seconds, t.EmbedSeconds+r.EmbedSeconds
	return err
}

func listBaseDocuments(c *call, in *baseDocumentsIn) (*baseDocumentsAnswer, error) {
	s, err := c.store(in.Base)
	if err != nil {
		return nil, err
	}
	last, err := base64.RawURLEncoding.DecodeString(in.After)
	if err != nil {
		return nil, &shape.Error{Field: "after", Reason: "is no cursor of this list"}
	}
	limit := in.Limit
	if limit == 0 {
		limit = 100
	}
	out := &baseDocumentsAnswer{Documents: []knowledge.Document{}}
	for d, err := range s.Documents(c.r.Context(), in.Base) {
		if err != nil {
			return nil, err
		}
		if d.ID <= string(last) && in.After != "" {
			continue
		}
		if len(out.Documents) == limit {
			out.Next = base64.RawURLEncoding.EncodeToString([]byte(out.Documents[limit-1].ID))
			break
		}
		out.Documents = append(out.Documents, d)
	}
	return out, nil
}

// source gives bytes that somebody uploaded: a browser is to keep them, not to
// show them.
func source(c *call, in *sourceIn) (*none, error) {
	s, err := c.store(in.Base)
	if err != nil {
		return nil, err
	}
	version := in.Version
	if version == 0 {
		d, err := s.Document(c.r.Context(), in.Base, in.Document)
		if err != nil {
			return nil, err
		}
		version = d.Version
	}
	data, d, err := s.Source(c.r.Context(), in.Base, in.Document, version)
	if err != nil {
		return nil, err
	}
	h := c.w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": path.Base(d.ID)}))
	h.Set("Content-Length", strconv.Itoa(len(data)))
	h.Set("ETag", `"`+d.ArtifactHash+`"`)
	c.w.WriteHeader(http.StatusOK)
	_, err = c.w.Write(data)
	c.info.Err = err // a client that went away
	return nil, nil
}
