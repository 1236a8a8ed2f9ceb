package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/httpapi"
)

// Parts of the time to stop: requests may end by themselves, then they are
// cancelled, then cut off; the rest is the data directory's.
const (
	drainShare  = 0.7
	cancelShare = 0.1
)

// Listen opens the server's listener.
func (s *Server) Listen() (net.Listener, error) {
	l, err := net.Listen("tcp", s.c.Listen)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Run serves until ctx is done, and then stops, within the time there is for
// that. Nothing that was acknowledged is lost, whatever the error.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	base, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	// Errors of connections are the clients'; net/http has nothing else to say.
	srv := &http.Server{Handler: s, ReadHeaderTimeout: s.c.HeaderTimeout, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10,
		BaseContext: func(net.Listener) context.Context { return base }, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug)}
	address := l.Addr().String()
	l = netutil.LimitListener(l, s.c.MaxConns)
	if s.tls != nil {
		srv.TLSConfig = s.tls
		l = tls.NewListener(l, s.tls)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	s.log.Info("listening", "address", address, "tls", s.tls != nil, "keys", s.auth.needed(), "data", s.reg.Dir(), "read_only", s.reg.ReadOnly())
	if s.c.Ready != nil {
		s.c.Ready(address)
	}
	opened := make(chan struct{})
	go func() {
		defer close(opened)
		if err := s.reg.OpenAll(s.stopping); err != nil && s.stopping.Err() == nil {
			s.log.Error("some collections cannot be opened", "error", err)
		}
		s.ready.Store(true)
	}()
	var err error
	select {
	case <-ctx.Done():
		s.log.Info("stopping", "within", s.c.StopTimeout.String())
	case err = <-served: // the listener broke
		s.log.Error("listener failed", "error", err)
	}
	begun := time.Now()
	s.stop()
	s.drain(srv, cancel)
	<-opened
	end, done := context.WithDeadline(context.Background(), begun.Add(s.c.StopTimeout))
	defer done()
	if cerr := s.reg.Close(end); cerr != nil {
		s.log.Error("closing the data directory", "error", cerr)
		err = errors.Join(err, cerr)
	}
	s.log.Info("stopped", "seconds", time.Since(begun).Seconds())
	return err
}

// drain ends the connections.
func (s *Server) drain(srv *http.Server, cancel context.CancelCauseFunc) {
	shutdown := func(share float64) error {
		ctx, done := context.WithTimeout(context.Background(), time.Duration(share*float64(s.c.StopTimeout)))
		defer done()
		return srv.Shutdown(ctx)
	}
	if shutdown(drainShare) == nil {
		return
	}
	s.log.Warn("requests are still at work: cancelling them")
	cancel(httpapi.ErrStopping)
	if shutdown(cancelShare) != nil {
		s.log.Warn("requests are still at work: cutting them off")
		_ = srv.Close() // connections that break are the point
	}
}
