package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	extender "k8s.io/kube-scheduler/extender/v1"
)

// target is one extender, reached over one connection that is kept.
type target struct {
	name   string
	url    string
	client *http.Client
	reply  bytes.Buffer
	calls  map[string]*series // by verb
}

// series is what was measured of one verb at one target, in milliseconds and in the order of the calls.
type series struct {
	wire    []float64 // from the first byte of the call to the last byte of its reply
	decoded []float64 // the same and decoding the reply with the official types
	request int       // bytes of the latest call
	answer  int       // bytes of the latest reply
	kept    int       // nodes kept by the latest filter
}

func newTarget(named, cert, key, ca string) (*target, error) {
	name, url, found := strings.Cut(named, "=")
	if !found {
		return nil, fmt.Errorf("target %q: want NAME=URL", named)
	}
	// As kube-scheduler's transport: HTTP/2 is offered, the server chooses.
	transport := &http.Transport{ForceAttemptHTTP2: true, MaxConnsPerHost: 1, IdleConnTimeout: 90 * time.Second}
	if strings.HasPrefix(url, "https:") {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, err
		}
		authority, err := os.ReadFile(ca)
		if err != nil {
			return nil, err
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(authority)
		transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, RootCAs: pool}
	}
	client := &http.Client{Transport: transport, Timeout: 60 * time.Second}
	return &target{name: name, url: strings.TrimRight(url, "/"), client: client, calls: map[string]*series{}}, nil
}

// schedule takes a pod through the verbs as kube-scheduler does: prioritize is about what filter kept, in
// the order of its reply.
func (t *target) schedule(o *options, made *bodies, pod *corev1.Pod, names []string) error {
	if strings.Contains(o.verbs, "filter") {
		body, err := made.encoded(pod, names)
		if err != nil {
			return err
		}
		if names, err = t.filter(body, names, o.form == "nodes", o.expected); err != nil {
			return err
		}
	}
	if strings.Contains(o.verbs, "prioritize") && len(names) > 0 {
		body, err := made.encoded(pod, names)
		if err != nil {
			return err
		}
		return t.prioritize(body, names)
	}
	return nil
}

// filter asks which nodes the pod may go to and returns the kept ones in the order of the reply.
func (t *target) filter(body []byte, asked []string, whole bool, expected int) ([]string, error) {
	var result extender.ExtenderFilterResult
	measured, err := t.call("filter", body, &result)
	if err != nil {
		return nil, err
	}
	kept, err := keptNodes(&result, asked, whole)
	if err == nil && expected >= 0 && len(kept) != expected {
		err = fmt.Errorf("%d of %d nodes are kept, expected %d; %s", len(kept), len(asked), expected, sample(result.FailedAndUnresolvableNodes))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: filter: %w", t.name, err)
	}
	measured.kept = len(kept)
	return kept, nil
}

// prioritize asks for the scores of the nodes.
func (t *target) prioritize(body []byte, asked []string) error {
	var result extender.HostPriorityList
	if _, err := t.call("prioritize", body, &result); err != nil {
		return err
	}
	scored := make(map[string]bool, len(result))
	for _, each := range result {
		scored[each.Host] = true
	}
	for _, name := range asked {
		if !scored[name] {
			return fmt.Errorf("%s: prioritize: node %s has no score", t.name, name)
		}
	}
	if len(result) != len(asked) {
		return fmt.Errorf("%s: prioritize: %d scores for %d nodes", t.name, len(result), len(asked))
	}
	return nil
}

// call sends one body and decodes the reply; both parts are timed.
func (t *target) call(verb string, body []byte, result any) (*series, error) {
	request, err := http.NewRequest(http.MethodPost, t.url+"/"+verb, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	t.reply.Reset()
	started := time.Now()
	response, err := t.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.name, err)
	}
	_, err = io.Copy(&t.reply, response.Body)
	wire := time.Since(started)
	response.Body.Close()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.name, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s: %s: %.300s", t.name, verb, response.Status, t.reply.String())
	}
	if err := json.Unmarshal(t.reply.Bytes(), result); err != nil {
		return nil, fmt.Errorf("%s: %s: %w in %.300s", t.name, verb, err, t.reply.String())
	}
	decoded := time.Since(started)
	measured := t.calls[verb]
	if measured == nil {
		measured = &series{}
		t.calls[verb] = measured
	}
	measured.wire = append(measured.wire, milliseconds(wire))
	measured.decoded = append(measured.decoded, milliseconds(decoded))
	measured.request, measured.answer = len(body), t.reply.Len()
	return measured, nil
}

// keptNodes checks that every node that was asked for is either kept or refused with a reason, and once.
func keptNodes(result *extender.ExtenderFilterResult, asked []string, whole bool) ([]string, error) {
	if result.Error != "" {
		return nil, fmt.Errorf("Error: %s", result.Error)
	}
	var kept []string
	switch {
	case whole && result.Nodes != nil:
		for i := range result.Nodes.Items {
			kept = append(kept, result.Nodes.Items[i].Name)
		}
	case !whole && result.NodeNames != nil:
		kept = *result.NodeNames
	default:
		return nil, fmt.Errorf("the reply has not the form of the call")
	}
	seen := make(map[string]bool, len(asked))
	for _, name := range kept {
		seen[name] = true
	}
	for _, refused := range []extender.FailedNodesMap{result.FailedNodes, result.FailedAndUnresolvableNodes} {
		for name, reason := range refused {
			if reason == "" {
				return nil, fmt.Errorf("node %s is refused without a reason", name)
			}
			seen[name] = true
		}
	}
	for _, name := range asked {
		if !seen[name] {
			return nil, fmt.Errorf("node %s is neither kept nor refused", name)
		}
	}
	if named := len(kept) + len(result.FailedNodes) + len(result.FailedAndUnresolvableNodes); named != len(asked) {
		return nil, fmt.Errorf("%d nodes were offered, the reply names %d", len(asked), named)
	}
	return kept, nil
}

func sample(refused extender.FailedNodesMap) string {
	for name, reason := range refused {
		return fmt.Sprintf("such as %s: %s", name, reason)
	}
	return "none is refused"
}

func milliseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }
