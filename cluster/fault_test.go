package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quarrysearch/quarry/cluster/testcluster"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/storage"
)

// Limits of what a fault may cost.
const (
	resumeLimit   = 15 * time.Second  // without a write, after the leader was killed
	hangLimit     = 6 * time.Second   // for a write that hangs: Options.Attempt and what a batch adds
	convergeLimit = 120 * time.Second // until all replicas are one again
	settle        = 8 * time.Second   // in which nothing may come back: a round of repairs and more
	busyLimit     = 60 * time.Second  // without a write where any machine will do
)

// A fault is what happens to nodes while a load is on.
type fault struct {
	name string
	run  func(t *testing.T, tc *testcluster.Cluster, l *load)
}

// TestFaults writes and reads all the time, and meanwhile: a follower is killed and
// comes back, the leader is, two of three are, a node and the way to another are
// slow, and all are restarted in turn. After each, and after the last again, what was
// acknowledged is there, on every replica; what was deleted is not; every call ended
// in time, with success or ErrUnavailable. With -short it is one fault that passes on
// overloaded machines, too, where calls fail that otherwise may not.
func TestFaults(t *testing.T) {
	tc := testcluster.ForTest(t, testcluster.Options{Nodes: 3, Proxy: true})
	faults := []fault{{"follower killed", followerKilled}, {"leader killed", leaderKilled}, {"two killed", twoKilled}, {"slow", slowNode}, {"rolling restart", rollingRestart}}
	if testing.Short() {
		faults = []fault{{"node killed", nodeKilled}}
	}
	var again []func(t *testing.T)
	for i, s := range faults {
		c, err := Open(t.Context(), Options{URLs: tc.URLs(), Key: tc.Key(), Collection: fmt.Sprint("Stones-", i), Schema: faultSchema()})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		t.Run(s.name, func(t *testing.T) {
			l := startLoad(t, c)
			time.Sleep(time.Second)
			l.phase(t, "before")
			s.run(t, tc, l)
			l.end()
			l.phase(t, "after")
			for _, m := range l.mistakes {
				t.Error(m)
			}
			all := converge(t, tc, c, l)
			again = append(again, func(t *testing.T) {
				for _, b := range compareReplicas(t, tc, c, all) {
					t.Errorf("%s, changed with nobody writing: %s", s.name, b)
				}
				compareAnswers(t, tc, c, all)
			})
		})
	}
	if !testing.Short() {
		time.Sleep(settle)
	}
	for _, f := range again {
		f(t)
	}
}

func leaderOf(t *testing.T, tc *testcluster.Cluster) int {
	t.Helper()
	i, err := tc.Leader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func kill(t *testing.T, tc *testcluster.Cluster, nodes ...int) {
	t.Helper()
	for _, i := range nodes {
		if err := tc.Kill(i); err != nil {
			t.Fatal(err)
		}
	}
}

func restart(t *testing.T, tc *testcluster.Cluster, nodes ...int) {
	t.Helper()
	errs := make(chan error)
	for _, i := range nodes {
		go func() { errs <- tc.Restart(t.Context(), i) }()
	}
	for range nodes {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// noErrors wants every call of a phase to have succeeded.
func noErrors(t *testing.T, phase map[string]*calls) {
	t.Helper()
	for kind, s := range phase {
		if s.failed > 0 {
			t.Errorf("%s: %d calls failed, as %s", kind, s.failed, s.errs[0])
		}
	}
}

// nodeKilled says nothing of calls that fail, but that they go on succeeding.
func nodeKilled(t *testing.T, tc *testcluster.Cluster, l *load) {
	follower := (leaderOf(t, tc) + 1) % tc.Nodes()
	kill(t, tc, follower)
	time.Sleep(2 * time.Second)
	l.awaitPut(t, time.Now().Add(busyLimit))
	l.phase(t, "node down")
	restart(t, tc, follower)
	time.Sleep(2 * time.Second)
	l.awaitPut(t, time.Now().Add(busyLimit))
	l.phase(t, "node back")
}

// followerKilled also is the node that comes back after it missed writes and
// deletes.
func followerKilled(t *testing.T, tc *testcluster.Cluster, l *load) {
	follower := (leaderOf(t, tc) + 1) % tc.Nodes()
	kill(t, tc, follower)
	time.Sleep(6 * time.Second)
	noErrors(t, l.phase(t, "follower down"))
	restart(t, tc, follower)
	time.Sleep(5 * time.Second)
	noErrors(t, l.phase(t, "follower back"))
}

func leaderKilled(t *testing.T, tc *testcluster.Cluster, l *load) {
	leader := leaderOf(t, tc)
	kill(t, tc, leader)
	killed := time.Now()
	time.Sleep(hangLimit)
	l.awaitPut(t, killed.Add(resumeLimit))
	l.phase(t, "leader down")
	restart(t, tc, leader)
	time.Sleep(3 * time.Second)
	l.phase(t, "leader back")
}

// twoKilled leaves no majority: nothing is acknowledged that is not safe.
func twoKilled(t *testing.T, tc *testcluster.Cluster, l *load) {
	kill(t, tc, 0, 1)
	time.Sleep(callLimit + callMargin)
	l.phase(t, "one left")
	restart(t, tc, 0, 1)
	l.awaitPut(t, time.Now().Add(resumeLimit))
	time.Sleep(2 * time.Second)
	l.phase(t, "all back")
}

// slowNode slows one node to a fifth on all its ports, and the way to another.
func slowNode(t *testing.T, tc *testcluster.Cluster, l *load) {
	end, err := tc.Stutter(0, 50*time.Millisecond, 200*time.Millisecond)
	if err != nil {
		t.Skip(err)
	}
	time.Sleep(4 * time.Second)
	noErrors(t, l.phase(t, "a node slow"))
	if err := end(); err != nil {
		t.Error(err)
	}
	if err := tc.Delay(1, 300*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	time.Sleep(4 * time.Second)
	noErrors(t, l.phase(t, "the way to a node slow"))
	if err := tc.Delay(1, 0); err != nil {
		t.Fatal(err)
	}
}

// rollingRestart asks one node after the other to end and starts it again, as an
// upgrade does.
func rollingRestart(t *testing.T, tc *testcluster.Cluster, l *load) {
	for i := range tc.Nodes() {
		if err := tc.Stop(i); err != nil {
			t.Fatal(err)
		}
		restart(t, tc, i)
		time.Sleep(time.Second)
	}
	noErrors(t, l.phase(t, "rolling restart"))
}

// converge waits until each replica of each document is what the journal of all
// writers allows, which it returns.
func converge(t *testing.T, tc *testcluster.Cluster, c *Collection, l *load) (all *journal) {
	t.Helper()
	all = newJournal()
	for _, j := range l.journal {
		maps.Copy(all.may, j.may)
		maps.Copy(all.late, j.late)
		maps.Copy(all.history, j.history)
	}
	start := time.Now()
	for {
		bad := compareReplicas(t, tc, c, all)
		if len(bad) == 0 {
			break
		}
		if time.Since(start) > convergeLimit {
			t.Fatalf("after %v replicas are not what was acknowledged, %d of %d documents:\n%s", convergeLimit, len(bad), len(all.history), strings.Join(bad[:min(10, len(bad))], "\n"))
		}
		time.Sleep(500 * time.Millisecond)
	}
	t.Logf("all replicas as acknowledged after %.1f s, %d documents", time.Since(start).Seconds(), len(all.history))
	return all
}

// compareReplicas asks each node for its own copy of each document.
func compareReplicas(t *testing.T, tc *testcluster.Cluster, c *Collection, all *journal) (bad []string) {
	t.Helper()
	for id := range all.history {
		allowed := all.allowed(id)
		var got []copied
		for i := range tc.Nodes() {
			v, err := replica(t, tc, c, i, id)
			if err != nil {
				return []string{err.Error()}
			}
			got = append(got, v)
			if !slices.Contains(allowed, v.version) {
				bad = append(bad, fmt.Sprintf("%s on node %d is %v, allowed: %v after %s", id, i, v, allowed, strings.Join(all.history[id], "; ")))
			}
		}
		if slices.ContainsFunc(got, func(v copied) bool { return v.version != got[0].version }) {
			bad = append(bad, fmt.Sprintf("%s differs: %v after %s", id, got, strings.Join(all.history[id], "; ")))
		}
	}
	return bad
}

// A copied is a document as one node holds it.
type copied struct {
	version
	at int64 // when it was written, in ms since 1970
}

// replica is what node i itself holds of a document.
func replica(t *testing.T, tc *testcluster.Cluster, c *Collection, i int, id string) (copied, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("%s/v1/objects/%s/%s?node_name=node%d", tc.URLs()[i], c.class, uuid(id), i), nil)
	if err != nil {
		return copied{}, err
	}
	r.Header.Set("Authorization", "Bearer "+tc.Key())
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return copied{}, err
	}
	defer a.Body.Close()
	switch a.StatusCode {
	case http.StatusNotFound:
		return copied{}, nil
	case http.StatusOK:
	default:
		return copied{}, fmt.Errorf("node %d, %s: %s", i, id, a.Status)
	}
	data, err := io.ReadAll(a.Body)
	if err != nil {
		return copied{}, err
	}
	var times struct{ LastUpdateTimeUnix int64 }
	if err := json.Unmarshal(data, &times); err != nil {
		return copied{}, err
	}
	d, err := decodeObject(data, c.known.Load())
	if err != nil || d.ID != id {
		return copied{}, fmt.Errorf("node %d holds %q as %q: %v", i, d.ID, id, err)
	}
	return copied{version{d.Meta["version"].(int64), d.Meta["group"].(string)}, times.LastUpdateTimeUnix}, nil
}

// tellCounts logs what each node counts. It is no error that a node which was down
// counts too many: the engine leaves places of replaced documents in that node's
// filters when it repairs the documents (package comment).
func tellCounts(t *testing.T, tc *testcluster.Cluster, name string, want int) {
	t.Helper()
	for i := range tc.Nodes() {
		c, err := Open(t.Context(), Options{URLs: tc.URLs()[i : i+1], Key: tc.Key(), Collection: name})
		if err != nil {
			t.Fatal(err)
		}
		n, err := c.Count(t.Context(), filter.Eq("anchor", false))
		if cerr := c.Close(); err != nil || cerr != nil {
			t.Fatal(err, cerr)
		}
		if n != want {
			t.Logf("node %d counts %d documents, %d are there", i, n, want)
		}
		if n < want {
			t.Errorf("node %d misses documents in its filters", i)
		}
	}
}

// compareAnswers asks as a caller does: by id, by filter, and for all documents.
func compareAnswers(t *testing.T, tc *testcluster.Cluster, c *Collection, all *journal) {
	t.Helper()
	live := map[string]bool{}
	for id := range all.history {
		allowed := all.allowed(id)
		d, err := c.Get(t.Context(), id)
		v := version{}
		if err == nil {
			v = version{d.Meta["version"].(int64), d.Meta["group"].(string)}
			live[id] = true
		}
		if err != nil && !errors.Is(err, storage.ErrNotFound) || !slices.Contains(allowed, v) {
			t.Errorf("%s is %v (%v), allowed: %v", id, v, err, allowed)
		}
	}
	tellCounts(t, tc, c.o.Collection, len(live))
	seen := 0
	for d, err := range c.Documents(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		if seen++; d.Meta["anchor"] == false && !live[d.ID] {
			t.Errorf("%s is listed and not there", d.ID)
		}
	}
	if seen != len(live)+anchors {
		t.Errorf("%d documents are listed, %d are there", seen, len(live)+anchors)
	}
}
