package workflow

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/quarrysearch/quarry/cluster"
	"github.com/quarrysearch/quarry/cluster/testcluster"
	"github.com/quarrysearch/quarry/collection"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/knowledge"
	"github.com/quarrysearch/quarry/storage"
)

// elsewhere is where openStore keeps indexes; nil: in the store.
var elsewhere *knowledge.Elsewhere

// TestOnCluster runs the tests of the Search Knowledge node, the seed's workflow
// among them, as they are, with the indexes of their bases on a cluster.
func TestOnCluster(t *testing.T) {
	elsewhere = onCluster(t)
	defer func() { elsewhere = nil }()
	for name, test := range map[string]func(*testing.T){
		"S1_2": TestS1_2_Query, "S1_3": TestS1_3_Merge, "S1_4": TestS1_4_MergeByRank, "S1_5": TestS1_5_FailingBase, "S1_6": TestS1_6_Output,
		"S1_7": TestS1_7_Rerank, "S1_8": TestS1_8_Depth, "S1_9": TestS1_9_EndToEnd, "S1_9_NoEndpoint": TestS1_9_NoEndpoint, "G03": TestG03, "G09": TestG09,
		"ConcurrentRuns": TestConcurrentRuns,
	} {
		t.Run(name, test)
	}
}

// onCluster keeps indexes on a cluster, on one shard each: ranks follow the statistics
// of a shard, and a few texts on several have none. They are dropped with the test.
func onCluster(t *testing.T) *knowledge.Elsewhere {
	t.Helper()
	urls, key := testcluster.Running(t)
	o := cluster.Options{URLs: urls, Key: key, Shards: 1}
	var mu sync.Mutex
	made := map[string]bool{}
	t.Cleanup(func() {
		for name := range made {
			if err := o.DropNamed(context.Background(), name); err != nil && !errors.Is(err, storage.ErrNotFound) {
				t.Error(err)
			}
		}
	})
	return &knowledge.Elsewhere{Drop: o.DropNamed, Open: func(ctx context.Context, name string, s *index.Schema) (collection.Collection, error) {
		mu.Lock()
		made[name] = true
		mu.Unlock()
		return o.OpenNamed(ctx, name, s)
	}}
}
