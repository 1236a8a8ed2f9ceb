package testcluster

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Version is the version of Weaviate that the adapter was measured with.
const Version = "1.35.2"

// ErrNoBinary is what Start returns without a program; tests skip with its text.
var ErrNoBinary = errors.New("QUARRY_WEAVIATE is not set")

// readyLimit bounds the wait for a node that was started.
const readyLimit = 60 * time.Second

// Options of a cluster.
type Options struct {
	// Nodes is their number, default 3.
	Nodes int
	// Dir holds data and logs; it is made, and kept by Close. Default: a new folder
	// among the temporary files, which Close removes.
	Dir string
	// Binary is the program; default what QUARRY_WEAVIATE names.
	Binary string
	// Env is set besides, as NAME=value; the last of a name holds.
	Env []string
	// Proxy puts a proxy before each REST port, for Delay.
	Proxy bool
}

// A Cluster is a number of nodes, started or not.
type Cluster struct {
	dir   string
	own   bool // dir is ours to remove
	key   string
	nodes []*node
	http  *http.Client
}

// Cached is where .ci/cluster builds the program.
func Cached() (string, error) {
	cache, err := os.UserCacheDir()
	return filepath.Join(cache, "quarry-cluster", "weaviate-"+Version, "weaviate-server"), err
}

// Start starts a cluster and waits until every node is ready and sees the others,
// for at most a minute.
func Start(ctx context.Context, o Options) (_ *Cluster, err error) {
	if o.Nodes == 0 {
		o.Nodes = 3
	}
	if o.Binary == "" {
		if o.Binary = os.Getenv("QUARRY_WEAVIATE"); o.Binary == "" {
			return nil, ErrNoBinary
		}
	}
	c := &Cluster{dir: o.Dir, key: rand.Text(), http: &http.Client{Timeout: 5 * time.Second}}
	if c.dir == "" {
		c.own = true
		if c.dir, err = os.MkdirTemp("", "quarry-cluster-"); err != nil {
			return nil, err
		}
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	if err := c.layOut(o); err != nil {
		return nil, err
	}
	for _, n := range c.nodes {
		if err := n.start(); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	for i := range c.nodes {
		if err := c.wait(ctx, i); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// layOut chooses ports and writes the environments.
func (c *Cluster) layOut(o Options) error {
	free, err := freePorts(portsEach * o.Nodes)
	if err != nil {
		return err
	}
	var gossip, raft []string
	for i := range o.Nodes {
		p := ports(free[portsEach*i:])
		gossip = append(gossip, fmt.Sprintf("127.0.0.1:%d", p.gossip()))
		raft = append(raft, fmt.Sprintf("node%d:%d", i, p.raft()))
		c.nodes = append(c.nodes, &node{name: fmt.Sprintf("node%d", i), dir: filepath.Join(c.dir, fmt.Sprintf("node%d", i)), binary: o.Binary, ports: p})
	}
	for _, n := range c.nodes {
		if err := os.MkdirAll(n.dir, 0o777); err != nil {
			return err
		}
		n.env = append(n.environment(c.key, gossip, raft), o.Env...)
		if o.Proxy {
			if n.proxy, err = newProxy(fmt.Sprintf("127.0.0.1:%d", n.ports.rest())); err != nil {
				return err
			}
		}
	}
	return nil
}

// Nodes returns the number of nodes, running or not.
func (c *Cluster) Nodes() int { return len(c.nodes) }

// Key is the key of the administrator.
func (c *Cluster) Key() string { return c.key }

// Dir is the folder with data and logs.
func (c *Cluster) Dir() string { return c.dir }

// URLs are the nodes' REST addresses, http://127.0.0.1:port, through the proxies
// where there are any.
func (c *Cluster) URLs() []string {
	out := make([]string, len(c.nodes))
	for i, n := range c.nodes {
		out[i] = n.url()
	}
	return out
}

// GRPC is the address of node i for gRPC, 127.0.0.1:port.
func (c *Cluster) GRPC(i int) string { return fmt.Sprintf("127.0.0.1:%d", c.nodes[i].ports.grpc()) }

// Kill ends node i at once; one that is down is no error.
func (c *Cluster) Kill(i int) error { return c.nodes[i].end(0) }

// Stop asks node i to end and kills it after ten seconds.
func (c *Cluster) Stop(i int) error { return c.nodes[i].end(stopLimit) }

// Restart starts node i, which is down, with its data, and waits until it is ready
// and every node that runs sees the others, so that another may be ended.
func (c *Cluster) Restart(ctx context.Context, i int) error {
	if err := c.nodes[i].start(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	if err := c.wait(ctx, i); err != nil {
		return err
	}
	for j, n := range c.nodes {
		if j != i && n.running() {
			if err := c.wait(ctx, j); err != nil {
				return err
			}
		}
	}
	return nil
}

// Delay makes the proxy before node i hold back what passes, in either direction,
// for d; 0 ends it. It needs Options.Proxy.
func (c *Cluster) Delay(i int, d time.Duration) error {
	if c.nodes[i].proxy == nil {
		return errors.New("testcluster: Delay needs Options.Proxy")
	}
	c.nodes[i].proxy.delay.Store(int64(d))
	return nil
}

// Usage is what a node uses. What the system does not tell is 0.
type Usage struct {
	Resident int64         // bytes of memory
	CPU      time.Duration // since it was started
	Disk     int64         // bytes
}

// Usage is what node i uses now; of one that is down only Disk is told.
func (c *Cluster) Usage(i int) (Usage, error) { return c.nodes[i].usage() }

// Stutter lets the process of node i run for run and stop for pause, in turns, until
// the function it returns is called.
func (c *Cluster) Stutter(i int, run, pause time.Duration) (end func() error, err error) {
	return c.nodes[i].stutter(run, pause)
}

// Close ends all nodes and removes the folder if it was made here.
func (c *Cluster) Close() error {
	errs := make(chan error)
	for _, n := range c.nodes {
		go func() { errs <- n.end(stopLimit) }()
	}
	var err error
	for range c.nodes {
		err = errors.Join(err, <-errs)
	}
	for _, n := range c.nodes {
		if n.proxy != nil {
			err = errors.Join(err, n.proxy.Close())
		}
	}
	if c.own {
		err = errors.Join(err, os.RemoveAll(c.dir))
	}
	return err
}

// Leader is the number of the node that leads the raft group, as the nodes that run
// tell.
func (c *Cluster) Leader(ctx context.Context) (int, error) {
	var last error
	for i, n := range c.nodes {
		if !n.running() {
			continue
		}
		var stats struct {
			Statistics []struct{ Name, LeaderID string }
		}
		if last = c.get(ctx, i, "/v1/cluster/statistics", &stats); last != nil {
			continue
		}
		for _, s := range stats.Statistics {
			for j, m := range c.nodes {
				if s.LeaderID == m.name {
					return j, nil
				}
			}
		}
		last = errors.New("nobody leads")
	}
	return 0, fmt.Errorf("testcluster: no leader: %w", last)
}

// wait waits until node i is ready and sees every other that runs.
func (c *Cluster) wait(ctx context.Context, i int) error {
	n := c.nodes[i]
	for {
		err := c.ready(ctx, i)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("testcluster: %s is not ready: %w; its log ends:\n%s", n.name, err, n.tail())
		case <-n.ended():
			return fmt.Errorf("testcluster: %s ended; its log ends:\n%s", n.name, n.tail())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (c *Cluster) ready(ctx context.Context, i int) error {
	if err := c.get(ctx, i, "/v1/.well-known/ready", nil); err != nil {
		return err
	}
	var seen struct {
		Nodes []struct{ Name, Status string }
	}
	if err := c.get(ctx, i, "/v1/nodes", &seen); err != nil {
		return err
	}
	healthy := 0
	for _, s := range seen.Nodes {
		if s.Status == "HEALTHY" {
			healthy++
		}
	}
	running := 0
	for _, n := range c.nodes {
		if n.running() {
			running++
		}
	}
	if healthy < running {
		return fmt.Errorf("it sees %d of %d nodes", healthy, running)
	}
	return nil
}

// get asks node i past its proxy.
func (c *Cluster) get(ctx context.Context, i int, path string, into any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", c.nodes[i].ports.rest(), path), nil)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+c.key)
	a, err := c.http.Do(r)
	if err != nil {
		return err
	}
	defer a.Body.Close() // read only: nothing to lose
	if a.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, strings.ToLower(a.Status))
	}
	if into == nil {
		return nil
	}
	return json.NewDecoder(a.Body).Decode(into)
}
