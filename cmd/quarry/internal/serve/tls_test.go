package serve

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// writeCertificate writes a certificate for localhost, and its key.
func writeCertificate(t *testing.T, dir string, serial int64) (certFile, keyFile string, pool *x509.CertPool) {
	t.Helper()
	priv, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"}, NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true, IsCA: true}
	der, err := x509.CreateCertificate(rand.Reader, &cert, &cert, &priv.PublicKey, priv)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(priv)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	pemOf := func(kind string, b []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}) }
	if err := errors.Join(os.WriteFile(certFile, pemOf("CERTIFICATE", der), 0o600), os.WriteFile(keyFile, pemOf("EC PRIVATE KEY", keyDER), 0o600)); err != nil {
		t.Fatal(err)
	}
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(pemOf("CERTIFICATE", der))
	return certFile, keyFile, pool
}

// A certificate that is renewed is served at once; one that is only half written
// leaves the one before.
func TestCertificateReadAnew(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile, _ := writeCertificate(t, dir, 1)
	log := &lines{}
	c, err := newCertificates(certFile, keyFile, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	serial := func() int64 {
		t.Helper()
		c.due = time.Time{}
		pair, err := c.get(nil)
		if err != nil {
			t.Fatal(err)
		}
		return pair.Leaf.SerialNumber.Int64()
	}
	// Files of one length, written within one tick of the clock, look the same.
	later := func(file string, by time.Duration) {
		t.Helper()
		if err := os.Chtimes(file, time.Time{}, time.Now().Add(by)); err != nil {
			t.Fatal(err)
		}
	}
	if got := serial(); got != 1 {
		t.Errorf("serial %d", got)
	}
	writeCertificate(t, dir, 2)
	later(certFile, time.Hour)
	if got := serial(); got != 2 {
		t.Errorf("serial %d after a renewal, want 2", got)
	}
	good, err := os.ReadFile(keyFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(keyFile, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	later(keyFile, 2*time.Hour)
	for range 2 {
		if got := serial(); got != 2 {
			t.Errorf("serial %d, want 2", got)
		}
	}
	if n := strings.Count(log.String(), "cannot be read"); n != 1 {
		t.Errorf("told of %d times: %s", n, log.String())
	}
	if err := os.WriteFile(keyFile, good, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := serial(); got != 2 {
		t.Errorf("serial %d, want 2", got)
	}
}

func TestTLS(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile, pool := writeCertificate(t, dir, 1)
	r := start(t, &Config{TLSCert: certFile, TLSKey: keyFile})
	_, port, _ := splitPort(r.addr)
	for _, h2 := range []bool{false, true} {
		tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: h2}
		client := &http.Client{Transport: tr}
		u := url.URL{Scheme: "https", Host: "localhost:" + port, Path: "/v1/collections"}
		res, err := client.Get(u.String())
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != 200 || (res.ProtoMajor == 2) != h2 {
			t.Error(res.StatusCode, res.Proto)
		}
		if h2 { // deadlines of bodies and answers are those of the stream
			post, err := client.Post(u.String(), "application/json", strings.NewReader(`{"name":"x"}`))
			if err != nil {
				t.Fatal(err)
			}
			if post.StatusCode != 201 {
				t.Error(post.StatusCode)
			}
			_ = post.Body.Close()
		}
		_ = res.Body.Close()
		tr.CloseIdleConnections()
	}
	old := &tls.Config{RootCAs: pool, MaxVersion: tls.VersionTLS11, ServerName: "localhost"}
	if c, err := tls.Dial("tcp", r.addr, old); err == nil {
		t.Error("TLS 1.1 is let in")
		_ = c.Close()
	}
}
