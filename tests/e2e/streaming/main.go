// Streaming is the part of a kubelet that kube-apiserver sends `kubectl port-forward` to:
//
//	streaming ADDRESS CERTIFICATE KEY NETWORKS
//
// The file NETWORKS/namespace/pod is the network namespace of a pod, or a link to it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
)

const (
	idle     = 4 * time.Hour    // as long as a kubelet keeps a connection without data
	creation = 30 * time.Second // as long as it waits for the streams of a connection
)

// networks is the folder of the network namespaces.
type networks string

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: streaming ADDRESS CERTIFICATE KEY NETWORKS")
		os.Exit(2)
	}
	pods := networks(os.Args[4])
	http.HandleFunc("/portForward/{namespace}/{pod}", func(reply http.ResponseWriter, request *http.Request) {
		pod := filepath.Join(request.PathValue("namespace"), request.PathValue("pod"))
		options := &portforward.V4Options{} // for clients of another protocol than kube-apiserver
		portforward.ServePortForward(
			reply, request, pods, pod, "", options, idle, creation, portforward.SupportedProtocols)
	})
	fmt.Fprintln(os.Stderr, http.ListenAndServeTLS(os.Args[1], os.Args[2], os.Args[3], nil))
	os.Exit(1)
}

// PortForward copies between a stream and a port of a pod until both directions have ended, or one of them a
// second before, as containerd does.
func (pods networks) PortForward(_ context.Context, pod, _ string, port int32, stream io.ReadWriteCloser) error {
	connection, err := pods.dial(pod, port)
	if err != nil {
		return err
	}
	defer connection.Close()
	ended := make(chan error, 2)
	for _, ends := range [][2]io.ReadWriter{{stream, connection}, {connection, stream}} {
		go func() {
			_, err := io.Copy(ends[0], ends[1])
			ended <- err
		}()
	}
	err = <-ended
	select {
	case other := <-ended:
		err = errors.Join(err, other)
	case <-time.After(time.Second):
	}
	return err
}

// dial connects to the loopback address inside of a pod, as container runtimes do.
func (pods networks) dial(pod string, port int32) (connection *net.TCPConn, err error) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		// Never unlocked: the thread that entered the pod's network ends with this goroutine.
		runtime.LockOSThread()
		var network *os.File
		if network, err = os.Open(filepath.Join(string(pods), pod)); err != nil {
			return
		}
		defer network.Close()
		if err = unix.Setns(int(network.Fd()), unix.CLONE_NEWNET); err != nil {
			return
		}
		connection, err = net.DialTCP("tcp", nil, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: int(port)})
	}()
	<-ended
	return connection, err
}
