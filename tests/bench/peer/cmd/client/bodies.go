package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	extender "k8s.io/kube-scheduler/extender/v1"
)

// node is one line of the driver's list of nodes.
type node struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels"`
}

// bodies makes what kube-scheduler would send: another pod each time, the nodes in another order.
type bodies struct {
	names     []string
	whole     map[string][]byte // name -> encoded node; nil in the form with names
	namespace string
	labels    map[string]string
	random    *rand.Rand
	made      int
}

// nodesFrom reads the list of nodes, or names some where there is no list.
func nodesFrom(path string, count int) ([]node, error) {
	nodes := make([]node, 0, count)
	if path == "" {
		for i := range count {
			zone := string(rune('a' + i%3))
			nodes = append(nodes, node{
				Name:   fmt.Sprintf("ip-10-%d-%d-%d.eu-central-1.compute.internal", 16+i/65536, i/256%256, i%256),
				Labels: map[string]string{"topology.kubernetes.io/zone": "eu-central-1" + zone},
			})
		}
		return nodes, nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(content, &nodes); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if count > 0 {
		if len(nodes) < count {
			return nil, fmt.Errorf("%s holds %d nodes, %d are asked for", path, len(nodes), count)
		}
		nodes = nodes[:count]
	}
	return nodes, nil
}

func newBodies(nodes []node, whole bool, namespace string, labels map[string]string, seed uint64) (*bodies, error) {
	b := &bodies{namespace: namespace, labels: labels, random: rand.New(rand.NewPCG(seed, 1))}
	for _, each := range nodes {
		b.names = append(b.names, each.Name)
	}
	if whole {
		b.whole = make(map[string][]byte, len(nodes))
		for i, each := range nodes {
			content, err := json.Marshal(wholeNode(each, i))
			if err != nil {
				return nil, err
			}
			b.whole[each.Name] = content
		}
	}
	return b, nil
}

// pod is the next pod to be scheduled: its UID was never sent before.
func (b *bodies) pod() *corev1.Pod {
	b.made++
	return pendingPod(b.namespace, b.labels, b.made, b.uid())
}

func (b *bodies) uid() types.UID {
	high, low := b.random.Uint64(), b.random.Uint64()
	return types.UID(fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x",
		high>>32, high>>16&0xffff, high&0xfff, 0x8000|low>>48&0x3fff, low&0xffffffffffff))
}

// shuffled is all names in an order of their own, as the scheduler's parallel search leaves them.
func (b *bodies) shuffled() []string {
	names := append([]string(nil), b.names...)
	b.random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names
}

// encoded is the body of a call about these nodes, byte for byte what kube-scheduler's json.Marshal gives.
func (b *bodies) encoded(pod *corev1.Pod, names []string) ([]byte, error) {
	if b.whole == nil {
		return json.Marshal(&extender.ExtenderArgs{Pod: pod, NodeNames: &names})
	}
	encodedPod, err := json.Marshal(pod)
	if err != nil {
		return nil, err
	}
	size := len(encodedPod) + 100
	for _, name := range names {
		size += len(b.whole[name]) + 1
	}
	var out bytes.Buffer
	out.Grow(size)
	out.WriteString(`{"Pod":`)
	out.Write(encodedPod)
	out.WriteString(`,"Nodes":{"metadata":{},"items":[`)
	for i, name := range names {
		if i > 0 {
			out.WriteByte(',')
		}
		out.Write(b.whole[name])
	}
	out.WriteString(`]},"NodeNames":null}`)
	return out.Bytes(), nil
}
