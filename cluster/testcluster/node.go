package testcluster

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// stopLimit is how long a node may take to end when it is asked to.
const stopLimit = 10 * time.Second

// A node is one process, running or not.
type node struct {
	name, dir string
	binary    string
	env       []string
	ports     ports
	proxy     *proxy // nil without

	mu   sync.Mutex // held while the process is started or ended
	cmd  *exec.Cmd
	done chan struct{} // closed when cmd has ended; nil before the first start
}

// environment is all a node sees of the outside.
func (n *node) environment(key string, gossip, raft []string) []string {
	return []string{
		"HOME=" + n.dir,
		"PATH=" + os.Getenv("PATH"),
		"GOMEMLIMIT=1GiB",
		"PERSISTENCE_DATA_PATH=" + filepath.Join(n.dir, "data"),
		"CLUSTER_HOSTNAME=" + n.name,
		"CLUSTER_IN_LOCALHOST=true",
		"CLUSTER_BIND_ADDR=127.0.0.1",
		"CLUSTER_ADVERTISE_ADDR=127.0.0.1",
		fmt.Sprint("CLUSTER_GOSSIP_BIND_PORT=", n.ports.gossip()),
		fmt.Sprint("CLUSTER_DATA_BIND_PORT=", n.ports.data()),
		"CLUSTER_JOIN=" + strings.Join(gossip, ","),
		fmt.Sprint("RAFT_PORT=", n.ports.raft()),
		fmt.Sprint("RAFT_INTERNAL_RPC_PORT=", n.ports.raftRPC()),
		"RAFT_JOIN=" + strings.Join(raft, ","),
		fmt.Sprint("RAFT_BOOTSTRAP_EXPECT=", len(raft)),
		"RAFT_BOOTSTRAP_TIMEOUT=60",
		"RAFT_TIMEOUTS_MULTIPLIER=1",
		fmt.Sprint("GRPC_PORT=", n.ports.grpc()),
		"AUTHENTICATION_ANONYMOUS_ACCESS_ENABLED=false",
		"AUTHENTICATION_APIKEY_ENABLED=true",
		"AUTHENTICATION_APIKEY_ALLOWED_KEYS=" + key,
		"AUTHENTICATION_APIKEY_USERS=admin",
		"AUTHORIZATION_ADMINLIST_ENABLED=true",
		"AUTHORIZATION_ADMINLIST_USERS=admin",
		"USE_INVERTED_SEARCHABLE=false",
		"ASYNC_REPLICATION_FREQUENCY=5s",
		"ASYNC_REPLICATION_PROPAGATION_DELAY=5s",
		"DISABLE_TELEMETRY=true",
		"DEFAULT_VECTORIZER_MODULE=none",
		"API_BASED_MODULES_DISABLED=true",
		"AUTOSCHEMA_ENABLED=false",
		"DISK_USE_READONLY_PERCENTAGE=99",
		"DISK_USE_WARNING_PERCENTAGE=98",
		"GO_PROFILING_DISABLE=true",
		"QUERY_MAXIMUM_RESULTS=10000",
	}
}

func (n *node) url() string {
	if n.proxy != nil {
		return "http://" + n.proxy.address()
	}
	return fmt.Sprintf("http://127.0.0.1:%d", n.ports.rest())
}

func (n *node) logFile() string { return filepath.Join(n.dir, "log") }

// start starts the process; one that runs is an error.
func (n *node) start() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.runningLocked() {
		return fmt.Errorf("testcluster: %s runs already", n.name)
	}
	log, err := os.OpenFile(n.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own handle
	cmd := exec.Command(n.binary, "--scheme", "http", "--host", "127.0.0.1", "--port", fmt.Sprint(n.ports.rest()))
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = n.env, n.dir, log, log
	endWithParent(cmd)
	started, done := make(chan error), make(chan struct{})
	go func() {
		// The system ends the child when the thread that started it ends, so that
		// thread stays.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in the log
		}
		close(done)
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("testcluster: %s: %w", n.name, err)
	}
	n.cmd, n.done = cmd, done
	return nil
}

// end ends the process: with a patience of 0 by killing it.
func (n *node) end(patience time.Duration) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.runningLocked() {
		return nil
	}
	if patience > 0 {
		if err := n.cmd.Process.Signal(syscall.SIGTERM); err == nil {
			select {
			case <-n.done:
				return nil
			case <-time.After(patience):
			}
		}
	}
	if err := n.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("testcluster: %s: %w", n.name, err)
	}
	<-n.done
	return nil
}

func (n *node) runningLocked() bool {
	if n.done == nil {
		return false
	}
	select {
	case <-n.done:
		return false
	default:
		return true
	}
}

func (n *node) running() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.runningLocked()
}

// ended is closed when the process has ended.
func (n *node) ended() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.done
}

// stutter stops and continues the process in turns.
func (n *node) stutter(run, pause time.Duration) (func() error, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.runningLocked() {
		return nil, fmt.Errorf("testcluster: %s does not run", n.name)
	}
	p, done := n.cmd.Process, n.done
	if err := suspend(p, false); err != nil {
		return nil, err
	}
	stop, ended := make(chan struct{}), make(chan error)
	go func() {
		var err error
		paused := false
		for {
			span := run
			if paused {
				span = pause
			}
			select {
			case <-time.After(span):
				paused = !paused
				err = errors.Join(err, suspend(p, paused))
				continue
			case <-stop:
				err = errors.Join(err, suspend(p, false))
			case <-done:
				<-stop
			}
			ended <- err
			return
		}
	}()
	return func() error {
		close(stop)
		return <-ended
	}, nil
}

func (n *node) usage() (u Usage, err error) {
	n.mu.Lock()
	if n.runningLocked() {
		u = UsageOf(n.cmd.Process.Pid)
	}
	n.mu.Unlock()
	err = filepath.WalkDir(filepath.Join(n.dir, "data"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var info fs.FileInfo
			if info, err = d.Info(); err == nil {
				u.Disk += info.Size()
			}
		}
		if errors.Is(err, fs.ErrNotExist) { // merged away meanwhile
			return nil
		}
		return err
	})
	return u, err
}

// tailBytes bounds what an error shows of a log.
const tailBytes = 2000

// tail is the end of the log.
func (n *node) tail() []byte {
	b, err := os.ReadFile(n.logFile())
	if err != nil {
		return []byte(err.Error())
	}
	return bytes.TrimSpace(b[max(0, len(b)-tailBytes):])
}
