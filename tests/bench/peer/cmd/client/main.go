// Client calls extenders as kube-scheduler does and measures how long they take: one client for Topolog and
// for its peer, so that what differs is the server. Over one keep-alive connection with mTLS, filter and
// then prioritize of the same pod over the nodes that were kept; with two targets each pod goes to both,
// in turns, so that whatever else the machine does hits both.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
)

type list []string

func (l *list) String() string { return strings.Join(*l, " ") }

func (l *list) Set(value string) error {
	*l = append(*l, value)
	return nil
}

type options struct {
	targets           list
	cert, key, ca     string
	nodes             string
	count             int
	form              string
	verbs             string
	calls, warm       int
	namespace, labels string
	expected          int
	seed              uint64
	samples, body     bool
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("client: ")
	var o options
	flag.Var(&o.targets, "target", "NAME=URL of an extender, such as ours=https://127.0.0.1:8443; may be given twice, then they are compared")
	flag.StringVar(&o.cert, "cert", "", "client certificate, PEM")
	flag.StringVar(&o.key, "key", "", "key of the client certificate, PEM")
	flag.StringVar(&o.ca, "ca", "", "CA of the servers' certificates, PEM")
	flag.StringVar(&o.nodes, "nodes", "", `file with the nodes: [{"name": "n1", "labels": {...}}, ...]; without it names are made up`)
	flag.IntVar(&o.count, "count", 5000, "how many of the nodes to send; 0 for all of the file")
	flag.StringVar(&o.form, "form", "names", "names (nodeCacheCapable: true) or nodes (whole objects)")
	flag.StringVar(&o.verbs, "verbs", "filter,prioritize", "filter, prioritize or both; prioritize alone is about all nodes")
	flag.IntVar(&o.calls, "calls", 500, "measured calls of each verb")
	flag.IntVar(&o.warm, "warm", 50, "calls before them that are not measured")
	flag.StringVar(&o.namespace, "namespace", "default", "namespace of the pods")
	flag.StringVar(&o.labels, "labels", "", "labels of the pods: key=value,key=value")
	flag.IntVar(&o.expected, "expect-kept", -1, "fail unless filter keeps exactly so many nodes; -1 for any number")
	flag.Uint64Var(&o.seed, "seed", uint64(os.Getpid()), "seed of UIDs and orders; two runs with one seed send the same pods")
	flag.BoolVar(&o.samples, "samples", false, "print every single time as well")
	flag.BoolVar(&o.body, "print-body", false, "print the body of one call and end")
	flag.Parse()
	if err := run(&o); err != nil {
		log.Fatal(err)
	}
}

func run(o *options) error {
	if o.form != "names" && o.form != "nodes" {
		return fmt.Errorf("-form is %q; it must be names or nodes", o.form)
	}
	nodes, err := nodesFrom(o.nodes, o.count)
	if err != nil {
		return err
	}
	made, err := newBodies(nodes, o.form == "nodes", o.namespace, pairs(o.labels), o.seed)
	if err != nil {
		return err
	}
	if o.body {
		body, err := made.encoded(made.pod(), made.shuffled())
		if err == nil {
			_, err = os.Stdout.Write(body)
		}
		return err
	}
	var targets []*target
	for _, named := range o.targets {
		each, err := newTarget(named, o.cert, o.key, o.ca)
		if err != nil {
			return err
		}
		targets = append(targets, each)
	}
	if err := measure(o, made, targets); err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", "  ")
	return out.Encode(describe(o.calls, len(nodes), o.form, targets, o.samples))
}

// measure sends every pod to every target, and lets another one be first each time.
func measure(o *options, made *bodies, targets []*target) error {
	// The client's own garbage is collected between calls, never within one.
	debug.SetGCPercent(-1)
	var before, now runtime.MemStats
	for i := range o.warm + o.calls {
		if i == o.warm {
			for _, each := range targets {
				each.calls = map[string]*series{}
			}
		}
		pod, names := made.pod(), made.shuffled()
		for turn := range targets {
			if err := targets[(turn+i)%len(targets)].schedule(o, made, pod, names); err != nil {
				return err
			}
			runtime.ReadMemStats(&now)
			if now.HeapAlloc > before.HeapAlloc+(64<<20) {
				runtime.GC()
				runtime.ReadMemStats(&before)
			}
		}
	}
	return nil
}

func pairs(text string) map[string]string {
	found := map[string]string{}
	for _, pair := range strings.Split(text, ",") {
		if key, value, ok := strings.Cut(pair, "="); ok {
			found[key] = value
		}
	}
	return found
}
