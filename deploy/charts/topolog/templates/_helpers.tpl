{{- /* Labels that the chart adds to every object. */}}
{{- define "topolog.labels" -}}
app.kubernetes.io/part-of: topolog
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- /* An image by its digest if there is one, else by its tag. Takes the image and the tag by default. */}}
{{- define "topolog.image" -}}
{{- $image := index . 0 -}}
{{ $image.registry }}/{{ $image.repository }}{{ if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default (index . 1) }}{{ end }}
{{- end }}

{{- define "topolog.image.topolog" -}}
{{ include "topolog.image" (list .Values.image .Chart.AppVersion) }}
{{- end }}

{{- define "topolog.image.valkey" -}}
{{ include "topolog.image" (list .Values.store.bundled.image "") }}
{{- end }}

{{- /* By default of the minor version of the API server: a newer kube-scheduler is not supported. */}}
{{- define "topolog.image.kube-scheduler" -}}
{{- $version := semver .Capabilities.KubeVersion.Version -}}
{{ include "topolog.image" (list .Values.scheduler.image (printf "v%d.%d.0" $version.Major $version.Minor)) }}
{{- end }}

{{- /*
The name of a ConfigMap or Secret ends in a hash of its content, as kustomize makes it: a change restarts every process that
reads it, and a rollback of the release restores the former one. Takes the name and the data.
*/}}
{{- define "topolog.hashed" -}}
{{- $content := dict "data" (index . 1) "kind" "ConfigMap" "name" "" | toJson | sha256sum | trunc 10 -}}
{{ index . 0 }}-{{ $content | replace "0" "g" | replace "1" "h" | replace "3" "k" | replace "a" "m" | replace "e" "t" }}
{{- end }}

{{- /* Of a ConfigMap whose name has a hash: pods of the former revision read it until the new ones are ready, and after. */}}
{{- define "topolog.kept" -}}
helm.sh/resource-policy: keep
{{- end }}

{{- /* The settings of all processes, as variables: config is by group, and a value that is no text is JSON. */}}
{{- define "topolog.settings" -}}
{{- $found := merge (dict "TOPOLOG_CLUSTER" .Values.cluster) .Values.archive.variables -}}
{{- with .Values.archive.url -}}
{{- $_ := set $found "TOPOLOG_COMPACTION_ARCHIVE" . -}}
{{- end -}}
{{- if .Values.archive.existingClaim -}}
{{- $_ := set $found "TOPOLOG_COMPACTION_ARCHIVE" "/var/lib/topolog/archive" -}}
{{- end -}}
{{- range $group, $settings := .Values.config -}}
{{- range $name, $value := $settings -}}
{{- $variable := printf "TOPOLOG_%s_%s" (upper $group) (upper $name) -}}
{{- $_ := set $found $variable (ternary $value (toJson $value) (kindIs "string" $value)) -}}
{{- end -}}
{{- end -}}
{{ toJson $found }}
{{- end }}

{{- define "topolog.settingsName" -}}
{{ include "topolog.hashed" (list "topolog" (include "topolog.settings" . | fromJson)) }}
{{- end }}

{{- /* The configuration of the kube-scheduler beside the extender, or of an existing one. */}}
{{- define "topolog.schedulerData" -}}
{{- $place := ternary "sidecar" "service" (eq .Values.scheduler.mode "sidecar") -}}
{{- $text := printf "files/kube-scheduler-%s.yaml" $place | .Files.Get | replace "topolog-system" .Release.Namespace -}}
{{ dict "kube-scheduler.yaml" $text | toJson }}
{{- end }}

{{- /* Without a hash for an existing kube-scheduler: no pod of the release reads it, and people look it up by its name. */}}
{{- define "topolog.schedulerName" -}}
{{- $name := "topolog-kube-scheduler" -}}
{{- if eq .Values.scheduler.mode "sidecar" -}}
{{ include "topolog.hashed" (list $name (include "topolog.schedulerData" . | fromJson)) }}
{{- else -}}
{{ $name }}
{{- end -}}
{{- end }}

{{- define "topolog.valkeyData" -}}
{{ dict "valkey.conf" (.Files.Get "files/valkey.conf") | toJson }}
{{- end }}

{{- define "topolog.valkeyName" -}}
{{ include "topolog.hashed" (list "topolog-valkey" (include "topolog.valkeyData" . | fromJson)) }}
{{- end }}

{{- /* The Secret with a URL of the store for each process: of others, of the value url, or made by bootstrap. */}}
{{- define "topolog.storeSecret" -}}
{{- if .Values.store.external.url -}}
{{ include "topolog.hashed" (list "topolog-store" (dict "url" .Values.store.external.url)) }}
{{- else -}}
{{ .Values.store.external.existingSecret | default "topolog-store" }}
{{- end -}}
{{- end }}

{{- /* Whether a process makes Secrets in the cluster: certificates, or the passwords of the bundled store. */}}
{{- define "topolog.bootstrapped" -}}
{{ or (eq .Values.certificates.source "bootstrap") .Values.store.bundled.enabled }}
{{- end }}

{{- /* What exists only while `helm test` runs. */}}
{{- define "topolog.testHook" -}}
helm.sh/hook: test
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}
