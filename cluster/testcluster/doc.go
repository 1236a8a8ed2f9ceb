// Package testcluster runs a cluster of Weaviate nodes on this machine, for tests,
// measurements and trials: one or more processes on loopback, on free ports, with
// their data and logs in one folder.
//
//	c, err := testcluster.Start(ctx, testcluster.Options{Nodes: 3})
//	… c.URLs(), c.Key() …
//	err = c.Kill(1); err = c.Restart(ctx, 1)
//	err = c.Close()
//
// # The program
//
// QUARRY_WEAVIATE names it. .ci/cluster builds it into the user's cache (Cached) and
// sets the variable for the tests it runs. Without it Start returns ErrNoBinary, and
// tests skip with its text: a plain go test starts no cluster. Tests call ForTest, or
// Running where the cluster that QUARRY_CLUSTER names will do.
//
// # Settings
//
// A node gets an empty environment and what is set here: every node names all nodes
// in CLUSTER_JOIN and RAFT_JOIN (with one name alone a node that was down does not
// find back), keyword search with exact scores (USE_INVERTED_SEARCHABLE=false, to be
// set before the first collection is made), raft without its fivefold patience
// (RAFT_TIMEOUTS_MULTIPLIER=1), one key for one administrator, no telemetry.
// Options.Env adds to it.
//
// # Ports
//
// Six a node, probed below the range that systems give to outgoing connections, so
// that a node that is down finds its own again. With Options.Proxy the REST port is
// reached through a proxy in this process, which can delay what passes.
//
// # Faults
//
// Kill ends a process without warning. Stop asks it to end, waits ten seconds, and
// then kills: a node without a quorum never ends by itself. Delay slows the way to a
// node. Stutter slows the node itself, on all its ports, those between the nodes
// included: the process is stopped for a part of the time (Linux).
//
// Processes are ended by the handles that started them, never by name. On Linux they
// also end with this process, however it ends.
//
// # Concurrency
//
// All methods may be called from any goroutine; two that start or end the same node
// wait for each other.
package testcluster
