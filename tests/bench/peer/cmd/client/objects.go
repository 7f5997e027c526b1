package main

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var epoch = metav1.NewTime(time.Date(2026, 11, 2, 8, 30, 0, 0, time.UTC))

// pendingPod is a pod of a Deployment after admission and defaulting, as the scheduler's cache holds
// it: no kind, no managedFields.
func pendingPod(namespace string, labels map[string]string, number int, uid types.UID) *corev1.Pod {
	yes, no := true, false
	grace, seconds, mode := int64(30), int64(300), int32(420)
	expiration, priority, zero := int64(3607), int32(0), int64(1000)
	policy := corev1.PreemptLowerPriority
	all := map[string]string{"app.kubernetes.io/name": "bench", "pod-template-hash": "6d5f4c8b7d"}
	for name, value := range labels {
		all[name] = value
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("bench-6d5f4c8b7d-%05d", number), GenerateName: "bench-6d5f4c8b7d-", Namespace: namespace,
			UID: uid, ResourceVersion: fmt.Sprint(4_000_000 + number), Generation: 1, CreationTimestamp: epoch, Labels: all,
			Annotations: map[string]string{"prometheus.io/scrape": "true", "prometheus.io/port": "9100"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "bench-6d5f4c8b7d",
				UID: "0b8f6c1e-6a0e-4a59-9d4d-6a4d2f0c7e11", Controller: &yes, BlockOwnerDeletion: &yes,
			}},
		},
		Spec: corev1.PodSpec{
			Volumes: []corev1.Volume{{Name: "kube-api-access-x7k2p", VolumeSource: corev1.VolumeSource{
				Projected: &corev1.ProjectedVolumeSource{DefaultMode: &mode, Sources: []corev1.VolumeProjection{
					{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: &expiration, Path: "token"}},
					{ConfigMap: &corev1.ConfigMapProjection{
						LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
						Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
					}},
				}},
			}}},
			Containers: []corev1.Container{{
				Name: "app", Image: "registry.example/team/app:1.42.0", Args: []string{"serve", "--port=8080"},
				Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}},
				Env: []corev1.EnvVar{
					{Name: "LOG_LEVEL", Value: "info"},
					{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.name"}}},
				},
				Resources: corev1.ResourceRequirements{
					Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")},
					Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m"), corev1.ResourceMemory: resource.MustParse("512Mi")},
				},
				VolumeMounts:             []corev1.VolumeMount{{Name: "kube-api-access-x7k2p", ReadOnly: true, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}},
				TerminationMessagePath:   "/dev/termination-log",
				TerminationMessagePolicy: corev1.TerminationMessageReadFile,
				ImagePullPolicy:          corev1.PullIfNotPresent,
				SecurityContext:          &corev1.SecurityContext{RunAsUser: &zero, AllowPrivilegeEscalation: &no},
			}},
			RestartPolicy: corev1.RestartPolicyAlways, TerminationGracePeriodSeconds: &grace, DNSPolicy: corev1.DNSClusterFirst,
			ServiceAccountName: "default", DeprecatedServiceAccount: "default", SecurityContext: &corev1.PodSecurityContext{},
			SchedulerName: corev1.DefaultSchedulerName,
			Tolerations: []corev1.Toleration{
				{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds},
				{Key: "node.kubernetes.io/unreachable", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds},
			},
			Priority: &priority, EnableServiceLinks: &yes, PreemptionPolicy: &policy,
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending, QOSClass: corev1.PodQOSBurstable},
	}
}

// wholeNode is a node of a managed cluster with its images and managedFields: about 7.7 KB of JSON.
func wholeNode(each node, number int) *corev1.Node {
	labels := map[string]string{
		"beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
		"kubernetes.io/hostname": each.Name, "node.kubernetes.io/instance-type": "m6i.8xlarge", "topology.kubernetes.io/region": "eu-central-1",
	}
	for name, value := range each.Labels {
		labels[name] = value
	}
	capacity := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("31850m"), corev1.ResourceMemory: resource.MustParse("126868524Ki"), corev1.ResourcePods: resource.MustParse("234"),
		corev1.ResourceEphemeralStorage: resource.MustParse("95551679124"), "hugepages-1Gi": resource.MustParse("0"), "hugepages-2Mi": resource.MustParse("0"),
	}
	address := fmt.Sprintf("10.%d.%d.%d", 16+number/65536, number/256%256, number%256)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: each.Name, UID: types.UID(fmt.Sprintf("4c1d7a52-0000-4000-8000-%012x", number)), ResourceVersion: fmt.Sprint(3_000_000 + number),
			CreationTimestamp: epoch, Labels: labels,
			Annotations: map[string]string{
				"csi.volume.kubernetes.io/nodeid": fmt.Sprintf(`{"ebs.csi.aws.com":"i-%017x"}`, number), "node.alpha.kubernetes.io/ttl": "0",
				"alpha.kubernetes.io/provided-node-ip": address, "volumes.kubernetes.io/controller-managed-attach-detach": "true",
			},
			ManagedFields: []metav1.ManagedFieldsEntry{
				managed("kubelet", "", `{"f:metadata":{"f:annotations":{".":{},"f:alpha.kubernetes.io/provided-node-ip":{},"f:volumes.kubernetes.io/controller-managed-attach-detach":{}},"f:labels":{".":{},"f:beta.kubernetes.io/arch":{},"f:beta.kubernetes.io/os":{},"f:kubernetes.io/arch":{},"f:kubernetes.io/hostname":{},"f:kubernetes.io/os":{},"f:node.kubernetes.io/instance-type":{},"f:topology.kubernetes.io/region":{},"f:topology.kubernetes.io/zone":{}}},"f:spec":{"f:providerID":{}}}`),
				managed("kube-controller-manager", "", `{"f:metadata":{"f:annotations":{"f:node.alpha.kubernetes.io/ttl":{}}},"f:spec":{"f:podCIDR":{},"f:podCIDRs":{".":{},"v:\"10.244.0.0/24\"":{}}}}`),
				managed("kubelet", "status", `{"f:metadata":{"f:annotations":{"f:csi.volume.kubernetes.io/nodeid":{}}},"f:status":{"f:allocatable":{"f:ephemeral-storage":{},"f:memory":{}},"f:capacity":{"f:ephemeral-storage":{},"f:memory":{}},"f:conditions":{"k:{\"type\":\"DiskPressure\"}":{"f:lastHeartbeatTime":{}},"k:{\"type\":\"MemoryPressure\"}":{"f:lastHeartbeatTime":{}},"k:{\"type\":\"PIDPressure\"}":{"f:lastHeartbeatTime":{}},"k:{\"type\":\"Ready\"}":{"f:lastHeartbeatTime":{},"f:lastTransitionTime":{},"f:message":{},"f:reason":{},"f:status":{}}},"f:images":{},"f:nodeInfo":{"f:bootID":{}}}}`),
			},
		},
		Spec: corev1.NodeSpec{
			PodCIDR: "10.244.0.0/24", PodCIDRs: []string{"10.244.0.0/24"}, ProviderID: fmt.Sprintf("aws:///eu-central-1a/i-%017x", number),
		},
		Status: corev1.NodeStatus{
			Capacity: capacity, Allocatable: capacity,
			Conditions: []corev1.NodeCondition{
				condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
				condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
				condition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
				condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status"),
			},
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: address}, {Type: corev1.NodeHostName, Address: each.Name}, {Type: corev1.NodeInternalDNS, Address: each.Name},
			},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: 10250}},
			NodeInfo: corev1.NodeSystemInfo{
				MachineID: fmt.Sprintf("%032x", number), SystemUUID: fmt.Sprintf("ec2%05x-0000-4000-8000-%012x", number, number),
				BootID: fmt.Sprintf("6f0a2b1c-0000-4000-8000-%012x", number), KernelVersion: "6.12.40-63.114.amzn2023.x86_64", OSImage: "Amazon Linux 2023.9.20260929",
				ContainerRuntimeVersion: "containerd://2.1.4", KubeletVersion: "v1.37.0", OperatingSystem: "linux", Architecture: "amd64",
			},
			Images: images(),
		},
	}
}

func managed(manager, subresource, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &epoch, FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(fields), Subresource: subresource,
	}
}

func condition(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason, message string) corev1.NodeCondition {
	return corev1.NodeCondition{Type: kind, Status: status, LastHeartbeatTime: epoch, LastTransitionTime: epoch, Reason: reason, Message: message}
}

func images() []corev1.ContainerImage {
	found := make([]corev1.ContainerImage, 0, 18)
	for i := range 18 {
		found = append(found, corev1.ContainerImage{
			Names: []string{
				fmt.Sprintf("registry.example/team-%02d/service@sha256:%s", i, strings.Repeat(fmt.Sprintf("%02x", 17*i%256), 32)),
				fmt.Sprintf("registry.example/team-%02d/service:v1.%d.0", i, i),
			},
			SizeBytes: int64(48_000_000 + 7_654_321*i),
		})
	}
	return found
}
