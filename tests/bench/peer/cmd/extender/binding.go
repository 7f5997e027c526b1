package main

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	extender "k8s.io/kube-scheduler/extender/v1"
)

// binder asks the API server for Bindings, without the cost of a whole client library.
type binder struct {
	server string
	token  string
	client *http.Client
}

func newBinder(server, ca, tokenFile string) (*binder, error) {
	token, err := os.ReadFile(tokenFile)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool(ca)},
		ForceAttemptHTTP2:   true, // as client-go does
		MaxIdleConnsPerHost: 100,
	}
	return &binder{
		server: strings.TrimRight(server, "/"),
		token:  strings.TrimSpace(string(token)),
		client: &http.Client{Transport: transport},
	}, nil
}

// bind is the verb: an empty Error means that the pod is bound.
func (b *binder) bind(args *extender.ExtenderBindingArgs) any {
	result := &extender.ExtenderBindingResult{}
	if err := b.post(args); err != nil {
		result.Error = err.Error()
	}
	return result
}

func (b *binder) post(args *extender.ExtenderBindingArgs) error {
	body, err := json.Marshal(&corev1.Binding{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Binding"},
		ObjectMeta: metav1.ObjectMeta{Name: args.PodName, Namespace: args.PodNamespace, UID: args.PodUID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: args.Node},
	})
	if err != nil {
		return err
	}
	url := fmt.Sprintf("%s/api/v1/namespaces/%s/pods/%s/binding", b.server, args.PodNamespace, args.PodName)
	request, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+b.token)
	response, err := b.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusCreated {
		return fmt.Errorf("binding: %s: %s", response.Status, text)
	}
	return nil
}
