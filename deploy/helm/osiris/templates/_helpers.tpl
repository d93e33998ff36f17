{{/* Labels of all objects of a part: (dict "top" . "part" "hosts") */}}
{{- define "osiris.labels" -}}
{{ include "osiris.selector" . }}
app.kubernetes.io/version: {{ .top.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .top.Release.Service }}
{{- end }}

{{/* Labels by which a part is selected. They never change. */}}
{{- define "osiris.selector" -}}
app.kubernetes.io/name: osiris
app.kubernetes.io/instance: {{ .top.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end }}

{{- define "osiris.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "osiris.nats" -}}
{{ .Values.nats.url | default (printf "nats://%s-nats:4222" .Release.Name) }}
{{- end }}

{{- define "osiris.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (ternary .Release.Name "default" .Values.serviceAccount.create) }}
{{- end }}

{{/* What all pods of Osiris share. */}}
{{- define "osiris.pod" -}}
serviceAccountName: {{ include "osiris.serviceAccount" . }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 1000
  fsGroup: 1000
{{- end }}

{{/* What all containers of Osiris share. */}}
{{- define "osiris.container" -}}
image: {{ include "osiris.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  capabilities:
    drop: ["ALL"]
env:
  - name: OSIRIS_NATS
    value: {{ include "osiris.nats" . }}
{{- if eq .Values.nats.credentials "token" }}
  - name: OSIRIS_TOKEN
    valueFrom:
      secretKeyRef:
        name: {{ .Values.nats.existingSecret }}
        key: token
{{- else if eq .Values.nats.credentials "creds" }}
  - name: OSIRIS_CREDS
    value: /etc/osiris/nats/creds
{{- end }}
{{- with .Values.store.region }}
  - name: AWS_REGION
    value: {{ . | quote }}
{{- end }}
{{- with .Values.store.endpoint }}
  - name: AWS_ENDPOINT_URL
    value: {{ . | quote }}
{{- end }}
{{- with .Values.store.existingSecret }}
envFrom:
  - secretRef:
      name: {{ . }}
{{- end }}
{{- end }}

{{- define "osiris.mounts" -}}
- name: work
  mountPath: /work
{{- if eq .Values.nats.credentials "creds" }}
- name: nats
  mountPath: /etc/osiris/nats
  readOnly: true
{{- end }}
{{- end }}

{{/* Volumes of a pod: (dict "top" . "size" "1Gi"). None is shared. */}}
{{- define "osiris.volumes" -}}
- name: work
  emptyDir:
    sizeLimit: {{ .size }}
{{- if eq .top.Values.nats.credentials "creds" }}
- name: nats
  secret:
    secretName: {{ .top.Values.nats.existingSecret }}
{{- end }}
{{- end }}

{{/* Alive: the main thread answers. Ready: the process leads, stands by, or has joined. */}}
{{- define "osiris.probes" -}}
ports:
  - name: health
    containerPort: 9465
startupProbe:
  httpGet:
    path: /livez
    port: health
  periodSeconds: 2
  failureThreshold: 60
livenessProbe:
  httpGet:
    path: /livez
    port: health
  periodSeconds: 10
  timeoutSeconds: 10
  failureThreshold: 6
readinessProbe:
  httpGet:
    path: /readyz
    port: health
  periodSeconds: 2
  timeoutSeconds: 2
{{- end }}

{{- define "osiris.spread" -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: {{ .key }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "osiris.selector" . | nindent 8 }}
{{- end }}
