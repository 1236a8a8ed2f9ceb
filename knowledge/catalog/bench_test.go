package catalog

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"
)

func BenchmarkPublish10(b *testing.B) {
	f := newFixture(b)
	must(b, f.SetActive("", "s11", false))
	must(b, second(f.UpdateWorkflow("", Workflow{ID: "flow", Draft: make([]byte, 20_000)}, 1)))
	for i := 0; b.Loop(); i++ {
		// Ten bindings in all: five stay, five are revoked or restored.
		must(b, second(f.Publish("admin", "flow", 2, append(spaces(0, 5), spaces(5+i%2, 10+i%2)...))))
	}
}

func BenchmarkPublishSpace(b *testing.B) {
	f := newFixture(b)
	for i := 0; b.Loop(); i++ {
		must(b, second(f.PublishSpace("admin", "s0", 1, i+1, nil)))
	}
}

func BenchmarkAuthorize(b *testing.B) {
	f := newFixture(b)
	must(b, second(f.Publish("admin", "flow", 1, spaces(0, 10))))
	for _, n := range []int{1, 5, 10} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			ids := spaces(0, n)
			b.ReportAllocs()
			for b.Loop() {
				must(b, second(f.published(ids...)))
			}
		})
	}
}

// A thousand runs at a time, while a space is published and a binding revoked
// and restored all the time. refused is the share of runs that met the latter.
func BenchmarkAuthorizeWhilePublishing(b *testing.B) {
	f := newFixture(b)
	must(b, second(f.Publish("admin", "flow", 1, spaces(0, 10))))
	stop := make(chan struct{})
	var writer sync.WaitGroup
	var writes int
	writer.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			must(b, second(f.PublishSpace("admin", "s3", 1, i+1, nil)))
			must(b, f.RevokeBinding("admin", "flow", "s5"))
			must(b, second(f.Publish("admin", "flow", 1, spaces(0, 10))))
			writes += 3
		}
	})
	ids := spaces(0, 10)
	b.SetParallelism(1000)
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			if _, err := f.published(ids...); err != nil && !isNotBound(err) {
				b.Error(err)
			}
			runtime.Gosched() // a run searches now; 2,000 busy loops would starve the writer
		}
	})
	close(stop)
	writer.Wait()
	b.ReportMetric(float64(writes)/b.Elapsed().Seconds(), "writes/s")
}

func isNotBound(err error) bool {
	e, ok := err.(*Error)
	return ok && e.Code == ErrNotBound
}

func BenchmarkOpen(b *testing.B) {
	f := newFixture(b)
	f.seed(func(w *writer) {
		for i := range 1000 {
			w.put(publishedSpace(fmt.Sprintf("space %d", i), "w", "base", w.now))
		}
		for i := range 10_000 { // 2 is this write's own
			w.put(&AuditEntry{Seq: uint64(i + 3), At: w.now, Account: "admin", Action: "set_active", Object: fmt.Sprintf("space %d", i%1000), Detail: "true"})
		}
	})
	must(b, f.Close())
	info, err := os.Stat(f.path)
	must(b, err)
	b.SetBytes(info.Size())
	for b.Loop() {
		c, err := Open(f.path, nil)
		must(b, err)
		must(b, c.Close())
	}
}
