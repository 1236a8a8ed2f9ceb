package serve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quarrysearch/quarry/bench"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/registry"
	"github.com/quarrysearch/quarry/collection"
	"github.com/quarrysearch/quarry/index"
)

// A loadSpec tells the client process what to do.
type loadSpec struct {
	Address  string `json:"address"`
	Path     string `json:"path"`
	Bodies   string `json:"bodies"` // file, a JSON body a line
	Conns    int    `json:"conns"`
	Requests int    `json:"requests"`
}

// A loadResult is what the client process saw.
type loadResult struct {
	Errors        int           `json:"errors"`
	Seconds       float64       `json:"seconds"`
	P10, P50, P99 time.Duration `json:",omitempty"`
}

// load is the client process: it sends requests over its connections, as fast as
// they are answered, with next to no work of its own.
func load(spec string) int {
	var s loadSpec
	result := loadResult{}
	if err := json.Unmarshal([]byte(spec), &s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	text, err := os.ReadFile(s.Bodies)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var requests [][]byte
	for line := range bytes.Lines(text) {
		requests = append(requests, fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", s.Path, len(line), line))
	}
	var next, failed atomic.Int64
	times := make([][]time.Duration, s.Conns)
	var wg sync.WaitGroup
	begun := time.Now()
	for i := range s.Conns {
		wg.Go(func() {
			c, err := net.Dial("tcp", s.Address)
			if err != nil {
				failed.Add(1)
				return
			}
			defer c.Close()
			in := bufio.NewReaderSize(c, 64<<10)
			for {
				n := int(next.Add(1)) - 1
				if n >= s.Requests {
					return
				}
				start := time.Now()
				if err := exchange(c, in, requests[n%len(requests)]); err != nil {
					fmt.Fprintln(os.Stderr, err)
					failed.Add(1)
					return
				}
				times[i] = append(times[i], time.Since(start))
			}
		})
	}
	wg.Wait()
	result.Seconds, result.Errors = time.Since(begun).Seconds(), int(failed.Load())
	all := slices.Concat(times...)
	slices.Sort(all)
	if len(all) > 0 {
		result.P10, result.P50, result.P99 = all[len(all)/10], all[len(all)/2], all[len(all)*99/100]
	}
	if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
		return 1
	}
	return 0
}

// exchange sends a request and reads over its answer.
func exchange(c net.Conn, in *bufio.Reader, request []byte) error {
	if _, err := c.Write(request); err != nil {
		return err
	}
	length, status := -1, ""
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) <= 2 {
			break
		}
		if status == "" {
			status = string(line)
		}
		if v, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if length, err = strconv.Atoi(strings.TrimSpace(string(v))); err != nil {
				return err
			}
		}
	}
	if !strings.HasPrefix(status, "HTTP/1.1 200 ") || length < 0 {
		return fmt.Errorf("%s, length %d", status, length)
	}
	_, err := in.Discard(length)
	return err
}

// A corpus is minilm-90k with its texts, in a data directory.
type corpus struct {
	dir     string
	texts   []string // of queries: the title of the text whose vector is asked for, five words of it
	vectors bench.Matrix[float32]
}

func corpusSchema() index.Schema {
	return index.Schema{Text: []index.TextField{{Name: "title"}, {Name: "text"}}, Vectors: []index.VectorField{{Name: "v", Dim: 384}}}
}

// theCorpus builds it, once for all benchmarks; QUARRY_BENCH_DIR keeps it.
var theCorpus = sync.OnceValues(func() (*corpus, error) {
	data := filepath.Join(os.Getenv("QUARRY_DATA"), "minilm-90k")
	c := &corpus{dir: os.Getenv("QUARRY_BENCH_DIR")}
	var err error
	if c.dir == "" {
		if c.dir, err = os.MkdirTemp("", "quarry-bench-"); err != nil {
			return nil, err
		}
	}
	if c.vectors, err = bench.ReadVectors(filepath.Join(data, "query.f16"), 384); err != nil {
		return nil, err
	}
	base, err := bench.ReadVectors(filepath.Join(data, "base.f16"), 384)
	if err != nil {
		return nil, err
	}
	reg, err := registry.Open(c.dir, nil)
	if err != nil {
		return nil, err
	}
	h, err := reg.Create(context.Background(), "minilm", registry.CreateOptions{Schema: corpusSchema()})
	built := errors.Is(err, registry.ErrExists)
	if err != nil && !built {
		return nil, errors.Join(err, reg.Close(context.Background()))
	}
	wanted := 1000 // of the queries
	if !built {
		wanted += base.Rows()
	}
	docs, err := texts(data, wanted)
	if err == nil && !built {
		for from := 0; from < len(docs)-1000 && err == nil; from += 10_000 {
			var batch []index.Document
			for i := from; i < min(from+10_000, base.Rows()); i++ {
				batch = append(batch, index.Document{ID: strconv.Itoa(i), Text: docs[1000+i].Text, Meta: docs[1000+i].Meta, Vectors: map[string][]float32{"v": base.Row(i)}})
			}
			err = h.Apply(context.Background(), batch)
		}
		if err == nil {
			err = h.Index().(*collection.Local).Index.Merge(context.Background(), 1)
		}
		h.Release()
	}
	for i := range min(1000, len(docs)) {
		words := strings.Fields(docs[i].Text["title"])
		if len(words) == 0 { // of one in 26
			words = strings.Fields(docs[i].Text["text"])
		}
		c.texts = append(c.texts, strings.Join(words[:min(len(words), 5)], " "))
	}
	return c, errors.Join(err, reg.Close(context.Background()))
})

// texts joins the first rows of minilm-90k with the corpora they came from, the
// 1000 queries first. minilm-90k/README.md tells how each was cut.
func texts(dir string, rows int) ([]index.Document, error) {
	type key struct{ set, id string }
	all := map[key][2]string{}
	for set, file := range map[string]string{"tldr": "docs", "dify-docs": "chunks", "nodejs-org": "docs", "jaquad": "corpus", "scifact": "corpus", "nfcorpus": "corpus", "cranfield": "corpus"} {
		for line, err := range bench.Lines(filepath.Join(dir, "..", set, file+".jsonl.gz")) {
			var d struct{ ID, Title, Text string }
			if err == nil {
				err = json.Unmarshal([]byte(line), &d)
			}
			if err != nil {
				return nil, err
			}
			all[key{set, d.ID}] = [2]string{d.Title, d.Text}
		}
	}
	var out []index.Document
	for line, err := range bench.Lines(filepath.Join(dir, "rows.jsonl.gz")) {
		if len(out) == rows {
			break
		}
		var row struct {
			Set, ID string
			Start   int
		}
		if err == nil {
			err = json.Unmarshal([]byte(line), &row)
		}
		if err != nil {
			return nil, err
		}
		d := all[key{row.Set, row.ID}]
		text := []rune(d[1])
		size := map[string]int{"nodejs-org": 1000, "jaquad": 600}[row.Set]
		if size == 0 {
			size = 1200
		}
		from := min(row.Start, len(text))
		out = append(out, index.Document{Text: map[string]string{"title": d[0], "text": string(text[from:min(len(text), from+size)])}, Meta: map[string]any{"set": row.Set}})
	}
	return out, nil
}

// bodies writes the searches of a benchmark to a file.
func (c *corpus) bodies(b *testing.B, more string) string {
	b.Helper()
	var out bytes.Buffer
	for i, text := range c.texts {
		q, err := json.Marshal(text)
		if err != nil {
			b.Fatal(err)
		}
		v, err := json.Marshal(c.vectors.Row(i))
		if err != nil {
			b.Fatal(err)
		}
		fmt.Fprintf(&out, `{"query":%s,"vector":{"values":%s}%s}`+"\n", q, v, more)
	}
	path := filepath.Join(b.TempDir(), "bodies.jsonl")
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		b.Fatal(err)
	}
	return path
}

// benchServer serves the corpus in this process.
func benchServer(b *testing.B) (*corpus, *Server, string) {
	b.Helper()
	old := debug.SetGCPercent(gcPercent)
	b.Cleanup(func() { debug.SetGCPercent(old) })
	if os.Getenv("QUARRY_DATA") == "" {
		b.Skip("QUARRY_DATA is not set")
	}
	c, err := theCorpus()
	if err != nil {
		b.Fatal(err)
	}
	s, err := New(Config{Data: c.dir, Listen: "127.0.0.1:0"})
	if err != nil {
		b.Fatal(err)
	}
	l, err := s.Listen()
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Run(ctx, l) }()
	b.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	})
	return c, s, l.Addr().String()
}

// drive runs the client process.
func drive(b *testing.B, spec loadSpec) loadResult {
	b.Helper()
	text, err := json.Marshal(spec)
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "QUARRY_TEST_CLIENT="+string(text))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	var r loadResult
	if err == nil {
		err = json.Unmarshal(out, &r)
	}
	if err != nil || r.Errors > 0 {
		b.Fatal(err, r.Errors)
	}
	return r
}

const benchPath = "/v1/collections/minilm/search"

// BenchmarkHybrid is what a server does on this machine, with its clients on the
// same cores: hybrid searches by text and vector over minilm-90k.
func BenchmarkHybrid(b *testing.B) {
	c, _, addr := benchServer(b)
	for name, more := range map[string]string{"ids": "", "titles": `,"fields":["title"]`} {
		bodies := c.bodies(b, more)
		b.Run(name, func(b *testing.B) {
			r := drive(b, loadSpec{addr, benchPath, bodies, 16, b.N})
			b.ReportMetric(float64(b.N)/r.Seconds, "searches/s")
			b.ReportMetric(float64(r.P50.Microseconds()), "p50-µs")
			b.ReportMetric(float64(r.P99.Microseconds()), "p99-µs")
		})
	}
}

// BenchmarkOverhead compares one search at a time over HTTP, from another
// process, with the call of the library that answers it. Beside the median there
// is the tenth part, and the processor time of this process, both less moved by
// what else the machine does.
//
//	http      the search
//	library   the call, one after the other
//	rested    the call, 200 µs after the one before: threads sleep and caches are
//	          cold, as they are when a request comes in
//	bare      net/http with the smallest answer there is, and the call before it
//	empty     the request to a collection without documents
//	nothing   net/http with the smallest answer there is
func BenchmarkOverhead(b *testing.B) {
	c, s, addr := benchServer(b)
	bodies := c.bodies(b, "")
	over := func(name, addr, path string) {
		b.Run(name, func(b *testing.B) {
			cpu := cpuTime()
			r := drive(b, loadSpec{addr, path, bodies, 1, b.N})
			report(b, cpu, r.P10, r.P50)
		})
	}
	over("http", addr, benchPath)
	h, err := s.Registry().Get(b.Context(), "minilm")
	if err != nil {
		b.Fatal(err)
	}
	defer h.Release()
	n := 0
	ask := func() {
		n = (n + 1) % len(c.texts)
		if _, err := h.Index().Search(b.Context(), index.Query{K: 10, Text: &index.TextQuery{Text: c.texts[n]}, Vector: &index.VectorQuery{Vector: c.vectors.Row(n)}}); err != nil {
			b.Error(err)
		}
	}
	library := func(name string, rest time.Duration) {
		b.Run(name, func(b *testing.B) {
			times := make([]time.Duration, b.N)
			cpu := cpuTime()
			for i := range times {
				time.Sleep(rest)
				start := time.Now()
				ask()
				times[i] = time.Since(start)
			}
			slices.Sort(times)
			report(b, cpu, times[len(times)/10], times[len(times)/2])
		})
	}
	library("library", 0)
	library("rested", 200*time.Microsecond)
	over("bare", plain(b, ask), benchPath)
	empty, err := s.Registry().Create(b.Context(), "empty", registry.CreateOptions{Schema: corpusSchema()})
	if err != nil && !errors.Is(err, registry.ErrExists) {
		b.Fatal(err)
	}
	if err == nil {
		empty.Release()
	}
	over("empty", addr, "/v1/collections/empty/search")
	over("nothing", plain(b, func() {}), benchPath)
}

// plain is a server that reads over a request, calls f, and gives the smallest
// answer there is.
func plain(b *testing.B, f func()) (addr string) {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		f()
		_, _ = w.Write([]byte("{}"))
	})}
	go func() { _ = s.Serve(l) }()
	b.Cleanup(func() { _ = s.Close() })
	return l.Addr().String()
}

// report tells two quantiles, and the processor time since cpu for each of b.N.
func report(b *testing.B, cpu, p10, p50 time.Duration) {
	b.ReportMetric(float64(p10.Nanoseconds())/1000, "p10-µs")
	b.ReportMetric(float64(p50.Nanoseconds())/1000, "p50-µs")
	b.ReportMetric(float64((cpuTime()-cpu).Nanoseconds())/1000/float64(b.N), "cpu-µs")
}
