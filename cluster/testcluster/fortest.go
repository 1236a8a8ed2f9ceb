package testcluster

import (
	"errors"
	"os"
	"strings"
	"testing"
)

// ForTest starts a cluster that ends with the test, which is skipped where there is
// no program.
func ForTest(t testing.TB, o Options) *Cluster {
	t.Helper()
	c, err := Start(t.Context(), o)
	if errors.Is(err, ErrNoBinary) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// Running gives the addresses and the key of the cluster that QUARRY_CLUSTER names,
// whose key is then empty here and in QUARRY_CLUSTER_KEY, or of three nodes as by
// ForTest.
func Running(t testing.TB) (urls []string, key string) {
	t.Helper()
	if list := os.Getenv("QUARRY_CLUSTER"); list != "" {
		return strings.Split(list, ","), ""
	}
	c := ForTest(t, Options{})
	return c.URLs(), c.Key()
}
