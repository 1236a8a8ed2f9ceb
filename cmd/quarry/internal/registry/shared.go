package registry

import (
	"context"
	"sync"
)

// A shared holds things that are made once, at first use, and used by all. A
// failure is told to those who waited for it and tried again by the next.
type shared[K comparable, V any] struct {
	mu   sync.Mutex
	made map[K]*making[V]
}

type making[V any] struct {
	done chan struct{} // closed when value and err are there
	v    V
	err  error
}

// do returns the thing of a key, made by make unless it is there. Whoever makes
// it does so without the context's end: others may be waiting.
func (s *shared[K, V]) do(ctx context.Context, key K, make func(context.Context) (V, error)) (V, error) {
	s.mu.Lock()
	m, ok := s.made[key]
	if !ok {
		m = &making[V]{done: newDone()}
		if s.made == nil {
			s.made = map[K]*making[V]{}
		}
		s.made[key] = m
		go func() {
			m.v, m.err = make(context.WithoutCancel(ctx))
			if m.err != nil {
				s.mu.Lock()
				delete(s.made, key)
				s.mu.Unlock()
			}
			close(m.done)
		}()
	}
	s.mu.Unlock()
	select {
	case <-m.done:
		return m.v, m.err
	case <-ctx.Done():
		var none V
		return none, ctx.Err()
	}
}

func newDone() chan struct{} { return make(chan struct{}) }

// get returns the thing of a key if it is there.
func (s *shared[K, V]) get(key K) (v V, ok bool) {
	s.mu.Lock()
	m := s.made[key]
	s.mu.Unlock()
	if m == nil {
		return v, false
	}
	<-m.done
	return m.v, m.err == nil
}
