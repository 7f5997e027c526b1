package main

import (
	"bytes"
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	extender "k8s.io/kube-scheduler/extender/v1"
)

// The body with whole nodes is put together from encoded nodes; it must be what kube-scheduler would send.
func TestWholeNodesAreEncodedAsBySchedulers(t *testing.T) {
	nodes, err := nodesFrom("", 7)
	if err != nil {
		t.Fatal(err)
	}
	made, err := newBodies(nodes, true, "default", map[string]string{"app": "x"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	pod, names := made.pod(), made.shuffled()
	got, err := made.encoded(pod, names)
	if err != nil {
		t.Fatal(err)
	}
	items := make([]corev1.Node, len(names))
	for i, name := range names {
		if err := json.Unmarshal(made.whole[name], &items[i]); err != nil {
			t.Fatal(err)
		}
	}
	want, err := json.Marshal(&extender.ExtenderArgs{Pod: pod, Nodes: &corev1.NodeList{Items: items}})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if size := len(made.whole[names[0]]); size < 7_200 || size > 8_200 {
		t.Errorf("a node takes %d bytes; a real one takes about 7,700", size)
	}
}

func TestNoTwoPodsShareAUID(t *testing.T) {
	made, err := newBodies(nil, false, "default", nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for range 10_000 {
		uid := string(made.pod().UID)
		if seen[uid] || len(uid) != 36 {
			t.Fatalf("UID %q", uid)
		}
		seen[uid] = true
	}
}

func TestQuantile(t *testing.T) {
	values := []float64{5, 1, 4, 2, 3}
	for q, want := range map[float64]float64{0.01: 1, 0.5: 3, 0.8: 4, 0.99: 5, 1: 5} {
		if got := quantile(values, q); got != want {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
}
