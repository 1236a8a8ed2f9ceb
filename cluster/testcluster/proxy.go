package testcluster

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A proxy passes TCP connections on to a port, and can hold back what passes.
type proxy struct {
	to    string
	in    net.Listener
	delay atomic.Int64 // nanoseconds

	wg   sync.WaitGroup
	mu   sync.Mutex
	open map[net.Conn]bool // nil once closed
}

func newProxy(to string) (*proxy, error) {
	in, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{to: to, in: in, open: map[net.Conn]bool{}}
	p.wg.Go(p.accept)
	return p, nil
}

func (p *proxy) address() string { return p.in.Addr().String() }

// Close ends the proxy and its connections.
func (p *proxy) Close() error {
	err := p.in.Close()
	p.mu.Lock()
	for c := range p.open {
		_ = c.Close() // both ends are done for
	}
	p.open = nil
	p.mu.Unlock()
	p.wg.Wait()
	return err
}

func (p *proxy) accept() {
	for {
		from, err := p.in.Accept()
		if err != nil {
			return // closed
		}
		if !p.keep(from) {
			return
		}
		p.wg.Go(func() { p.serve(from) })
	}
}

// keep remembers a connection for Close; after it, it closes the connection.
func (p *proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open == nil {
		_ = c.Close()
		return false
	}
	p.open[c] = true
	return true
}

func (p *proxy) drop(c net.Conn) {
	_ = c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, c)
}

func (p *proxy) serve(from net.Conn) {
	defer p.drop(from)
	to, err := net.Dial("tcp", p.to)
	if err != nil {
		return // the caller sees a connection that ends, as of a node that is down
	}
	if !p.keep(to) {
		return
	}
	defer p.drop(to)
	back := make(chan struct{})
	go func() {
		p.copy(from, to)
		close(back)
	}()
	p.copy(to, from)
	<-back
}

// copy passes bytes on until either end is closed, then closes both.
func (p *proxy) copy(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			time.Sleep(time.Duration(p.delay.Load()))
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
