package testcluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// ports are a node's.
type ports []int

const portsEach = 6

func (p ports) rest() int    { return p[0] }
func (p ports) grpc() int    { return p[1] }
func (p ports) gossip() int  { return p[2] } // TCP and UDP
func (p ports) data() int    { return p[3] }
func (p ports) raft() int    { return p[4] }
func (p ports) raftRPC() int { return p[5] }

// Ports are looked for below those that Linux, macOS and Windows give to outgoing
// connections.
const (
	firstPort = 20_000
	lastPort  = 32_000
)

// freePorts returns n ports that nobody listens on.
func freePorts(n int) ([]int, error) {
	var out []int
	start := rand.IntN(lastPort - firstPort)
	for i := range lastPort - firstPort {
		port := firstPort + (start+i)%(lastPort-firstPort)
		if !free(port) {
			continue
		}
		if out = append(out, port); len(out) == n {
			return out, nil
		}
	}
	return nil, errors.New("testcluster: no free ports")
}

func free(port int) bool {
	t, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
	if err != nil {
		return false
	}
	u, err := net.ListenPacket("udp", fmt.Sprintf(":%d", port))
	if err == nil {
		err = u.Close()
	}
	return t.Close() == nil && err == nil
}
