package knowledge

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/quarrysearch/quarry/storage"
)

// Everything at once on a few bases: no race, no deadlock, and only the errors
// that a base that comes and goes explains.
func TestConcurrentUse(t *testing.T) {
	s := openMem(t, storage.NewMemFS(), Options{Embedder: newWords("w", 16)})
	allowed := func(err error) bool {
		return err == nil || errors.Is(err, storage.ErrNotFound) || errors.Is(err, ErrExists) || errors.Is(err, storage.ErrClosed)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	run := func(n int, f func(i int) error) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range n {
				if err := f(i); !allowed(err) {
					t.Error(err)
				}
			}
		}()
	}
	ids := []string{"a", "b"}
	for w := range 2 {
		run(15, func(i int) error {
			id := ids[(i+w)%2]
			_, err := s.Create(ctx, id, &BaseOptions{Chunk: lines(), Analyzer: "standard"})
			if !allowed(err) {
				return err
			}
			_, err = s.Ingest(ctx, IngestRequest{Base: id, Sources: []Source{text("x.txt", fmt.Sprintf("one %d\ntwo", i)), text(fmt.Sprintf("%d.txt", i), "three")}})
			return err
		})
	}
	run(30, func(i int) error {
		_, err := s.Search(ctx, Request{Bases: ids, Query: "two three", Mode: Hybrid, OnError: Partial})
		return err
	})
	run(10, func(i int) error { return second(s.DeleteDocuments(ctx, ids[i%2], "x.txt")) })
	run(5, func(i int) error { return s.Delete(ctx, ids[i%2]) })
	run(5, func(i int) error { return second(s.Rebuild(ctx, ids[i%2], nil, nil)) })
	run(10, func(i int) error {
		for _, err := range s.Documents(ctx, ids[i%2]) {
			if err != nil {
				return err
			}
		}
		return second(s.Bases(ctx))
	})
	run(5, func(i int) error { return second(s.Prune(ctx, ids[i%2])) })
	run(8, func(i int) error {
		g, err := s.Freeze(ctx, ids[i%2])
		if err != nil {
			return err
		}
		if rep, err := s.Check(ctx, g.Reference()); !allowed(err) {
			return fmt.Errorf("%s: %v %w", g.Reference(), rep, err)
		}
		_, err = s.Search(ctx, Request{Bases: []string{g.Reference(), ids[i%2]}, Query: "two three", Mode: Hybrid, OnError: Partial})
		return errors.Join(err, s.DropGeneration(ctx, g.Base, g.Number))
	})
	run(30, func(i int) error { return s.SetEnabled(ctx, ids[i%2], "x.txt", i%4 < 2) })
	wg.Wait()
	if ctx.Err() != nil {
		t.Fatal("too slow, or stuck")
	}
	for _, id := range ids {
		if rep, err := s.Check(t.Context(), id); !allowed(err) {
			t.Error(err, rep)
		}
	}
}

func TestGate(t *testing.T) {
	g := newGate(10)
	if !g.take(t.Context(), 7) {
		t.Fatal("there is room")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if g.take(ctx, 1000) {
		t.Fatal("there is none")
	}
	done := make(chan bool)
	go func() { done <- g.take(t.Context(), 1000) }() // more than there ever is: all of it
	g.give(7)
	if !<-done || g.free != 0 {
		t.Errorf("%d free", g.free)
	}
	g.give(1000)
	if g.free != 10 {
		t.Errorf("%d free", g.free)
	}
}
