{{- define "checkout.name" -}}
{{ .Release.Name | trunc 30 | trimSuffix "-" }}
{{- end }}
{{- define "checkout.labels" -}}
{{- $labels := dict "app.kubernetes.io/name" "checkout" "app.kubernetes.io/instance" .root.Release.Name }}
{{- toJson (merge $labels (dict "app.kubernetes.io/component" .component) (.build | empty | ternary dict (dict "checkout/build" .build))) }}
{{- end }}
{{- /* A pod. Takes root, component, args, of (values of the process), and perhaps build, image (an item of worker.builds),
env, ports, health (the port of the probes) and grace (seconds). */ -}}
{{- define "checkout.pod" -}}
{{- $v := .root.Values }}
{{- $image := .image | default (first $v.worker.builds) }}
{{- $tag := empty $image.digest | ternary (printf ":%s" $image.id) (printf "@%s" $image.digest) }}
{{- /* Settings of one build come before those of all: an older build refuses a name that it does not know. */ -}}
{{- $settings := merge (dict) ((.image | default dict).settings | default dict) (.of.settings | default dict) $v.settings }}
{{- $secrets := concat (.of.secrets | default list) ($v.temporal.apiKey | ternary (list "TEMPORAL_API_KEY") list) | uniq }}
{{- $files := .of.files | default list }}
{{- $ofJob := dict "requests" (dict "cpu" "100m" "memory" "128Mi" "ephemeral-storage" "64Mi")
  "limits" (dict "memory" "512Mi" "ephemeral-storage" "1Gi") }}
metadata:
  labels: {{ include "checkout.labels" . }}
  {{- with $v.pods.annotations }}
  annotations: {{ toJson . }}
  {{- end }}
spec:
  {{- range $field, $value := omit $v.pods "annotations" }}
  {{- if $value }}
  {{ $field }}: {{ toJson $value }}
  {{- end }}
  {{- end }}
  automountServiceAccountToken: false
  serviceAccountName: {{ $v.serviceAccountName | default "default" }}
  imagePullSecrets: {{ toJson ($v.image.pullSecrets | default list) }}
  terminationGracePeriodSeconds: {{ .grace | default 30 }}
  restartPolicy: {{ if .health }}Always{{ else }}Never{{ end }}
  {{- if .health }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector: {matchLabels: {{ include "checkout.labels" . }}}
  {{- end }}
  securityContext:
    {runAsNonRoot: true, runAsUser: 65532, runAsGroup: 65532, fsGroup: 65532, seccompProfile: {type: RuntimeDefault}}
  containers:
    - name: checkout
      image: {{ $image.image | default (printf "%s%s" $v.image.repository $tag) | quote }}
      imagePullPolicy: {{ $v.image.pullPolicy }}
      args: {{ toJson .args }}
      securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
      resources: {{ toJson (.of.resources | default $ofJob) }}
      {{- if .health }}
      ports:
        {{- range $name, $port := merge .ports ($v.monitoring.enabled | ternary (dict "metrics" 9464) dict) }}
        - {name: {{ $name }}, containerPort: {{ $port }}}
        {{- end }}
      startupProbe: {httpGet: {path: /healthz, port: {{ .health }}}, periodSeconds: 2, failureThreshold: 60}
      livenessProbe: {httpGet: {path: /healthz, port: {{ .health }}}, periodSeconds: 10, timeoutSeconds: 5}
      readinessProbe: {httpGet: {path: /readyz, port: {{ .health }}}, periodSeconds: 5, timeoutSeconds: 5}
      {{- end }}
      env:
        {{- range $name, $value := merge (.env | default dict) (fromYaml (include "checkout.env" .root)) $settings }}
        - {name: {{ $name }}, value: {{ $value | toString | quote }}}
        {{- end }}
        {{- range $secrets }}
        - {name: {{ . }}_FILE, value: /run/checkout/{{ . }}}
        {{- end }}
        {{- range $files }}
        - {name: {{ . }}, value: /run/checkout/{{ . }}}
        {{- end }}
      volumeMounts: [{name: files, mountPath: /run/checkout, readOnly: true}]
  volumes:
    - name: files
      projected:
        defaultMode: 0440
        sources:
          {{- with concat $secrets $files }}
          - secret:
              name: {{ $v.secret }}
              items:
                {{- range . }}
                - {key: {{ . }}, path: {{ . }}}
                {{- end }}
          {{- end }}
          {{- with $v.temporal.tls }}
          {{- range $key := concat (empty .secret | ternary list (list "tls.crt" "tls.key")) (.ca | ternary (list "ca.crt") list) }}
          - secret: {name: {{ $v.temporal.tls.secret }}, items: [{key: {{ $key }}, path: temporal/{{ $key }}}]}
          {{- end }}
          {{- end }}
          {{- with $v.authorities }}
          - configMap: {name: {{ . }}, items: [{key: ca.crt, path: authorities/ca.crt}]}
          {{- end }}
{{- end }}
{{- /* What the chart itself sets for all processes. It stands in each pod, because a ConfigMap would be missing, or be the
old one, while the hooks run. */ -}}
{{- define "checkout.env" -}}
TEMPORAL_ADDRESS: {{ .Values.temporal.address }}
TEMPORAL_NAMESPACE: {{ .Values.temporal.namespace }}
CHECKOUT_PAGE_URL: https://{{ .Values.hosts.page }}
{{- with .Values.hosts.api }}
CHECKOUT_API_URL: https://{{ . }}
{{- end }}
CHECKOUT_DASHBOARD_URL: https://{{ .Values.hosts.dashboard }}
{{- with .Values.temporal.tls }}
TEMPORAL_TLS: {{ .enabled }}
{{- if .secret }}
TEMPORAL_TLS_CLIENT_CERT_PATH: /run/checkout/temporal/tls.crt
TEMPORAL_TLS_CLIENT_KEY_PATH: /run/checkout/temporal/tls.key
{{- end }}
{{- if .ca }}
TEMPORAL_TLS_SERVER_CA_CERT_PATH: /run/checkout/temporal/ca.crt
{{- end }}
{{- with .serverName }}
TEMPORAL_TLS_SERVER_NAME: {{ . }}
{{- end }}
{{- end }}
{{- if .Values.authorities }}
SSL_CERT_FILE: /run/checkout/authorities/ca.crt
{{- end }}
{{- if .Values.monitoring.enabled }}
OTEL_METRICS_EXPORTER: prometheus
OTEL_EXPORTER_PROMETHEUS_HOST: 0.0.0.0
{{- end }}
{{- end }}
