package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/quarrysearch/quarry/cluster/testcluster"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
)

// TestBackup backs a collection up to an S3 endpoint and restores it on three nodes,
// with the requests that SCALE.md shows.
func TestBackup(t *testing.T) {
	endpoint := startS3(t, "quarry")
	tc := testcluster.ForTest(t, testcluster.Options{Nodes: 3, Env: []string{"ENABLE_MODULES=backup-s3", "BACKUP_S3_BUCKET=quarry", "BACKUP_S3_ENDPOINT=" + strings.TrimPrefix(endpoint, "http://"),
		"BACKUP_S3_USE_SSL=false", "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_REGION=us-east-1"}})
	o := Options{URLs: tc.URLs(), Key: tc.Key(), Collection: "Stones", Schema: faultSchema(), Attempt: time.Minute}
	c, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const n = 500
	fillStones(t, c, n)
	start := time.Now()
	ask(t, tc, http.MethodPost, "/v1/backups/s3", fmt.Sprintf(`{"id":"monday","include":[%q]}`, c.class))
	await(t, tc, "/v1/backups/s3/monday")
	backup := time.Since(start)
	if err := Drop(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	start = time.Now()
	ask(t, tc, http.MethodPost, "/v1/backups/s3/monday/restore", `{}`)
	await(t, tc, "/v1/backups/s3/monday/restore")
	t.Logf("%d documents on three nodes: backup %.1f s, restore %.1f s", n, backup.Seconds(), time.Since(start).Seconds())
	o.Schema = nil
	again, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if got, err := again.Count(t.Context(), filter.Filter{}); err != nil || got != n {
		t.Errorf("%d documents (%v), want %d", got, err, n)
	}
	for i := range tc.Nodes() {
		for _, id := range []string{"s0", "s250", "s499"} {
			if v, err := replica(t, tc, again, i, id); err != nil || v.group == "" {
				t.Errorf("node %d: %s is %v, %v", i, id, v, err)
			}
		}
	}
}

func fillStones(t *testing.T, c *Collection, n int) {
	t.Helper()
	rng, b := rand.New(rand.NewPCG(4, 4)), index.NewBatch()
	for i := range n {
		b.Put(faultDocument(rng, fmt.Sprint("s", i), "x", version{int64(i), groups[i%len(groups)]}))
	}
	if err := c.Apply(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

// startS3 starts an S3 endpoint with one bucket.
func startS3(t *testing.T, bucket string) (url string) {
	t.Helper()
	program := os.Getenv("QUARRY_MOTO")
	if program == "" {
		t.Skip("QUARRY_MOTO is not set")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd := exec.Command(program, "-H", "127.0.0.1", "-p", fmt.Sprint(port))
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	url = fmt.Sprintf("http://127.0.0.1:%d", port)
	for start := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url+"/"+bucket, nil)
		if err != nil {
			t.Fatal(err)
		}
		a, err := http.DefaultClient.Do(r)
		if err == nil {
			_ = a.Body.Close()
			if a.StatusCode == http.StatusOK {
				return url
			}
			err = fmt.Errorf("status %s", a.Status)
		}
		if time.Since(start) > time.Minute {
			t.Fatalf("the S3 endpoint: %v", err)
		}
	}
}

// ask sends a request to the first node.
func ask(t *testing.T, tc *testcluster.Cluster, method, path, body string) []byte {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, tc.URLs()[0]+path, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+tc.Key())
	r.Header.Set("Content-Type", "application/json")
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err != nil || a.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %s: %s (%v)", method, path, a.Status, b, err)
	}
	return b
}

// await waits for a backup or a restore to succeed.
func await(t *testing.T, tc *testcluster.Cluster, path string) {
	t.Helper()
	for start := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		var s struct{ Status, Error string }
		if err := json.Unmarshal(ask(t, tc, http.MethodGet, path, ""), &s); err != nil {
			t.Fatal(err)
		}
		switch {
		case s.Status == "SUCCESS":
			return
		case s.Status == "FAILED" || s.Status == "CANCELED" || time.Since(start) > 2*time.Minute:
			t.Fatalf("%s: %s after %v: %s", path, s.Status, time.Since(start), s.Error)
		}
	}
}
