package operate_test

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/storage/pgtemp"
)

// operatorVersion is the Prometheus operator whose definitions of PodMonitor and PrometheusRule are used.
const operatorVersion = "v0.85.0"

// apiServer is a real API server without a cluster behind it: it checks and keeps objects, and no pod
// runs.
type apiServer struct {
	url    string
	client *http.Client
	config string // file for kubectl and helm
}

const token = "test-token"

func startAPIServer(t *testing.T) *apiServer {
	etcd, program := installed(t, "etcd", "etcd-server"), built(t, apiServerProgram)
	dir := t.TempDir()
	ports, err := pgtemp.FreePorts(3)
	require.NoError(t, err)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	pkcs := x509.MarshalPKCS1PrivateKey(key)
	keyFile := write("key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: pkcs})))

	clients := fmt.Sprintf("http://127.0.0.1:%d", ports[0])
	peers := fmt.Sprintf("http://127.0.0.1:%d", ports[1])
	start(t, devstack.Program{Name: "etcd", Path: etcd, Dir: dir, Log: filepath.Join(dir, "etcd.log"), Args: []string{
		"--data-dir", filepath.Join(dir, "etcd"), "--listen-client-urls", clients, "--advertise-client-urls", clients,
		"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "default=" + peers,
	}})
	s := &apiServer{
		url: fmt.Sprintf("https://127.0.0.1:%d", ports[2]),
		client: &http.Client{Timeout: time.Minute, Transport: &http.Transport{
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // it makes its certificate itself
		}},
	}
	s.config = write("kubeconfig", fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: test,
		clusters: [{name: test, cluster: {server: "%s", insecure-skip-tls-verify: true}}],
		users: [{name: test, user: {token: %s}}], contexts: [{name: test, context: {cluster: test, user: test}}]}`, s.url, token))
	process := start(t, devstack.Program{Name: "API server", Path: program, Dir: dir, Log: filepath.Join(dir, "api.log"), Args: []string{
		"--etcd-servers", clients, "--bind-address", "127.0.0.1", "--secure-port", fmt.Sprint(ports[2]), "--cert-dir", dir,
		"--token-auth-file", write("tokens", token+",test,test,system:masters\n"), "--service-cluster-ip-range", "10.0.0.0/24",
		"--service-account-issuer", "https://test", "--service-account-signing-key-file", keyFile,
		"--service-account-key-file", keyFile, "--endpoint-reconciler-type", "none", "--disable-admission-plugins", "ServiceAccount",
	}})
	e2e.Await(t, "the API server is ready", 3*time.Minute, func() bool {
		require.NoError(t, process.Err())
		_, _, err := s.call(http.MethodGet, "/readyz", nil)
		return err == nil
	})
	return s
}

// start starts a program that ends with the test.
func start(t *testing.T, program devstack.Program) *devstack.Process {
	process, err := program.Start()
	require.NoError(t, err)
	t.Cleanup(process.Kill)
	return process
}

// call returns the answer and the warnings that come with it. An answer of 400 or more is an error.
func (s *apiServer) call(method, path string, body any) (answer []byte, warnings []string, err error) {
	content, err := json.Marshal(body)
	if err != nil {
		return nil, nil, err
	}
	request, err := http.NewRequest(method, s.url+path, bytes.NewReader(content))
	if err != nil {
		return nil, nil, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/apply-patch+yaml") // JSON is YAML
	response, err := s.client.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= http.StatusBadRequest {
		var status struct{ Message string }
		_ = json.Unmarshal(answer, &status) // else the message is empty
		err = fmt.Errorf("%s: %s", response.Status, status.Message)
	}
	return answer, response.Header.Values("Warning"), err
}

// path returns where an object lies.
func path(o object, namespace string) string {
	kind := strings.ToLower(o.kind())
	switch {
	case strings.HasSuffix(kind, "y"):
		kind = strings.TrimSuffix(kind, "y") + "ie"
	case strings.HasSuffix(kind, "s"):
		kind += "e"
	}
	version := o["apiVersion"].(string)
	root := "/apis/" + version
	if !strings.Contains(version, "/") {
		root = "/api/" + version
	}
	if namespace != "" {
		root += "/namespaces/" + namespace
	}
	return root + "/" + kind + "s/" + o.name()
}

// apply gives an object to the server, which checks all of it.
func (s *apiServer) apply(o object, namespace, more string) error {
	_, warnings, err := s.call(http.MethodPatch, path(o, namespace)+"?fieldManager=test&force=true&fieldValidation=Strict"+more, o)
	if len(warnings) > 0 {
		err = errors.Join(err, fmt.Errorf("warning: %s", strings.Join(warnings, "; ")))
	}
	return err
}

const namespace = "shop"

// try gives an object to the server, which checks it and keeps nothing. A pod template is also tried as a
// pod, because Pod Security refuses pods alone.
func (s *apiServer) try(o object) error {
	err := s.apply(o, namespace, "&dryRun=All")
	template, ok := o.at("spec", "template").(map[string]any)
	if !ok || template["spec"] == nil {
		return err
	}
	pod := object{"apiVersion": "v1", "kind": "Pod", "spec": template["spec"], "metadata": map[string]any{
		"name": o.name(), "labels": object(template).at("metadata", "labels"),
	}}
	return errors.Join(err, s.apply(pod, namespace, "&dryRun=All"))
}

// clusterFor starts a server with the namespace, in which Pod Security is "restricted", and with the
// definitions of the Prometheus operator.
func clusterFor(t *testing.T) *apiServer {
	if !*withCluster {
		t.Skip("the API server runs only with -kubernetes")
	}
	s := startAPIServer(t)
	labels := map[string]any{}
	for _, mode := range []string{"enforce", "warn"} {
		labels["pod-security.kubernetes.io/"+mode] = "restricted"
	}
	require.NoError(t, s.apply(object{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace, "labels": labels}}, "", ""))

	var module struct{ Dir string }
	require.NoError(t, json.Unmarshal([]byte(run(t, t.TempDir(), "go", "mod", "download", "-json",
		"github.com/prometheus-operator/prometheus-operator@"+operatorVersion)), &module))
	for _, kind := range []string{"podmonitors", "prometheusrules"} {
		var definition map[string]any
		content, err := os.ReadFile(filepath.Join(module.Dir, "example/prometheus-operator-crd", "monitoring.coreos.com_"+kind+".yaml"))
		require.NoError(t, err)
		require.NoError(t, yaml.Unmarshal(content, &definition))
		require.NoError(t, s.apply(definition, "", ""))
		e2e.Await(t, kind+" are served", time.Minute, func() bool {
			_, _, err := s.call(http.MethodGet, "/apis/monitoring.coreos.com/v1/"+kind, nil)
			return err == nil
		})
	}
	return s
}

// TestChart_IsAcceptedByARealAPIServer gives every object of every variant to the API server, and then
// some with a fault, so that the acceptance means something.
func TestChart_IsAcceptedByARealAPIServer(t *testing.T) {
	s := clusterFor(t)
	for _, variant := range variants {
		for _, o := range rendered(t, variant) {
			require.NoError(t, s.try(o), "%s: %s %s", variant, o.kind(), o.name())
		}
	}

	container := []any{"spec", "template", "spec", "containers", 0}
	in := func(path ...any) []any { return append(append([]any{}, container...), path...) }
	for _, fault := range []struct {
		kind, name string
		value      any
		path       []any
		says       string
	}{
		{"Deployment", "shop-api", true, in("securityContext", "readOnlyRootFilesytem"), "field not declared in schema"},
		{"Deployment", "shop-api", "2", []any{"spec", "revisionHistoryLimit"}, "revisionHistoryLimit"},
		{"Deployment", "shop-api", "web", []any{"spec", "template", "metadata", "labels", "app.kubernetes.io/component"}, "selector"},
		{"Deployment", "shop-api", "a-port-with-a-long-name", in("ports", 0, "name"), "no more than 15"},
		{"Deployment", "shop-api", "250x", in("resources", "requests", "cpu"), "quantit"},
		{"Deployment", "shop-api", "fils", in("volumeMounts", 0, "name"), "Not found"},
		{"Deployment", "shop-api", "OTEL_METRICS_EXPORTER", in("env", 0, "name"), "duplicate"},
		{"Deployment", "shop-api", true, in("securityContext", "allowPrivilegeEscalation"), "allowPrivilegeEscalation"},
		{"Deployment", "shop-worker-0-2-0", false, []any{"spec", "template", "spec", "securityContext", "runAsNonRoot"}, "runAsNonRoot"},
		{"Deployment", "shop-worker-0-2-0", map[string]any{}, in("securityContext", "capabilities"), "unrestricted capabilities"},
		{"Job", "shop-setup", "Always", []any{"spec", "template", "spec", "restartPolicy"}, "restartPolicy"},
		{"HorizontalPodAutoscaler", "shop-api", 2, []any{"spec", "maxReplicas"}, "maxReplicas"},
		{"PodDisruptionBudget", "shop-api", 1, []any{"spec", "minAvailable"}, "both set"},
		{"PrometheusRule", "shop", "never", []any{"spec", "groups", 0, "rules", 0, "for"}, "for"},
	} {
		planted := false
		for _, o := range rendered(t, "everything") {
			if o.kind() == fault.kind && o.name() == fault.name {
				o.put(fault.value, fault.path...)
				planted = true
				require.ErrorContains(t, s.try(o), fault.says, "%s %v", fault.name, fault.path)
			}
		}
		require.True(t, planted, "%s %s", fault.kind, fault.name)
	}
}

// TestChart_AsksForABuildThatLeavesTheList installs two builds, and renders an upgrade that names one of
// them no more.
func TestChart_AsksForABuildThatLeavesTheList(t *testing.T) {
	s := clusterFor(t)
	helm := func(args ...string) string {
		return run(t, ".", built(t, helmProgram), append(args, "shop", e2e.Path("deploy/release/chart"), "--kubeconfig", s.config,
			"--namespace", namespace, "--values", "testdata/values/builds.yaml")...)
	}
	helm("install", "--no-hooks")
	upgrade := helm("upgrade", "--dry-run=server", "--set-json", `worker.builds=[{"id": "0.2.0"}]`,
		"--set-json", `worker.retired=[]`)
	asked := regexp.MustCompile(`"--drained","[^"]*"`).FindAllString(upgrade, -1)
	require.Equal(t, []string{`"--drained","0.1.0"`}, asked)
}
