// Command run starts a cluster of Weaviate nodes on this machine and keeps it until
// it is interrupted:
//
//	go run ./cluster/testcluster/run -nodes 3
//
// It prints the addresses and the key, as lines for a shell.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/quarrysearch/quarry/cluster/testcluster"
)

func main() {
	nodes := flag.Int("nodes", 3, "number of nodes")
	dir := flag.String("dir", "", "folder for data and logs, kept; default: a new one, removed at the end")
	binary := flag.String("binary", os.Getenv("QUARRY_WEAVIATE"), "weaviate-server; default: QUARRY_WEAVIATE, or the one that .ci/cluster built")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, testcluster.Options{Nodes: *nodes, Dir: *dir, Binary: *binary}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o testcluster.Options) (err error) {
	if o.Binary == "" {
		if o.Binary, err = testcluster.Cached(); err != nil {
			return err
		}
	}
	c, err := testcluster.Start(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	fmt.Printf("QUARRY_CLUSTER=%s\nQUARRY_CLUSTER_KEY=%s\n", strings.Join(c.URLs(), ","), c.Key())
	<-ctx.Done()
	return nil
}
