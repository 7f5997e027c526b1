// Controlplane is one part of a Kubernetes control plane, chosen by the first argument: every part in
// one binary, compiled from its published Go module, and each run as its own process because they
// share feature gates and metrics registries.
package main

import (
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	manager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

var parts = map[string]func() *cobra.Command{
	"etcd":                    newEtcdCommand,
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": manager.NewControllerManagerCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kubectl":                 kubectl.NewDefaultKubectlCommand,
}

func main() {
	if len(os.Args) < 2 || parts[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: controlplane etcd|kube-apiserver|kube-controller-manager|kube-scheduler|kubectl [flags]")
		os.Exit(2)
	}
	holdOnTo(os.Getenv("CONTROLPLANE_LIFELINE"))
	part := os.Args[1]
	// Cobra and kubectl's plugin lookup both read os.Args: each part has to see itself as argument 0.
	os.Args = append([]string{part}, os.Args[2:]...)
	os.Exit(cli.Run(parts[part]()))
}

// holdOnTo ends this process when the other end of a pipe closes. The process that starts a control plane
// keeps that end open, so that no part outlives it, not even when it was killed.
func holdOnTo(descriptor string) {
	number, err := strconv.Atoi(descriptor)
	if err != nil {
		return
	}
	go func() {
		_, _ = os.NewFile(uintptr(number), "lifeline").Read(make([]byte, 1))
		os.Exit(1)
	}()
}

// newEtcdCommand serves one member on a unix socket. A second, throw-away socket takes the place of the
// peer address that etcd demands, and fsync is off: nothing here outlives the test that started it.
func newEtcdCommand() *cobra.Command {
	var dir, socket string
	command := &cobra.Command{
		Use:          "etcd",
		SilenceUsage: true,
		RunE: func(*cobra.Command, []string) error {
			config := embed.NewConfig()
			config.Dir = filepath.Join(dir, "member")
			config.UnsafeNoFsync = true
			config.LogLevel = "error"
			config.LogOutputs = []string{"stderr"}
			// etcd takes no path in a URL, only a host: the name of a socket in the working directory.
			if err := os.Chdir(filepath.Dir(socket)); err != nil {
				return err
			}
			client := url.URL{Scheme: "unix", Host: filepath.Base(socket) + ":0"}
			peer := url.URL{Scheme: "unix", Host: "peer-of-" + client.Host}
			config.ListenClientUrls = []url.URL{client}
			config.AdvertiseClientUrls = []url.URL{client}
			config.ListenPeerUrls = []url.URL{peer}
			config.AdvertisePeerUrls = []url.URL{peer}
			config.InitialCluster = config.InitialClusterFromName(config.Name)
			return serve(config)
		},
	}
	command.Flags().StringVar(&dir, "data-dir", "", "absolute path of the directory for the data")
	command.Flags().StringVar(&socket, "socket", "", "absolute path of the unix socket for clients, which gets :0 added to it")
	for _, name := range []string{"data-dir", "socket"} {
		if err := command.MarkFlagRequired(name); err != nil {
			panic(err)
		}
	}
	return command
}

func serve(config *embed.Config) error {
	server, err := embed.StartEtcd(config)
	if err != nil {
		return err
	}
	defer server.Close()
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGINT, syscall.SIGTERM)
	select {
	case <-server.Server.ReadyNotify():
	case <-ended:
		return nil
	case err := <-server.Err():
		return err
	case <-time.After(time.Minute):
		server.Server.Stop()
		return fmt.Errorf("etcd was not ready within a minute")
	}
	fmt.Println("ready")
	select {
	case <-ended:
		return nil
	case err := <-server.Err():
		return err
	}
}
