package operate_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"example.com/checkout/deploy/proof/e2e"
)

// variants are the values with which the chart is tested: testdata/values.
var variants = []string{"minimal", "builds", "secured", "everything"}

const kubeVersion = "1.36.3"

// object is one manifest.
type object map[string]any

// at returns a field; nil when there is none.
func (o object) at(path ...any) any {
	var here any = map[string]any(o)
	for _, step := range path {
		switch within := here.(type) {
		case map[string]any:
			here = within[step.(string)]
		case []any:
			here = within[step.(int)]
		default:
			return nil
		}
	}
	return here
}

// put sets a field. What leads there must exist.
func (o object) put(value any, path ...any) {
	last := len(path) - 1
	switch within := o.at(path[:last]...).(type) {
	case map[string]any:
		within[path[last].(string)] = value
	case []any:
		within[path[last].(int)] = value
	default:
		panic(fmt.Sprint("there is no ", path))
	}
}

// container returns the container of an object's pods.
func (o object) container() object {
	return o.at("spec", "template", "spec", "containers", 0).(map[string]any)
}

// environment returns the variables of an object's pods with their values; that of one from elsewhere is <nil>.
func (o object) environment() map[string]string {
	all := map[string]string{}
	for _, variable := range o.container()["env"].([]any) {
		of := variable.(map[string]any)
		all[of["name"].(string)] = fmt.Sprint(of["value"])
	}
	return all
}

func (o object) kind() string { return o["kind"].(string) }
func (o object) name() string { return o.at("metadata", "name").(string) }

// template is the command that renders the chart with the values of a variant.
func template(kubeVersion, variant string, args ...string) []string {
	return append([]string{"template", "shop", e2e.Path("deploy/release/chart"), "--namespace", "shop", "--kube-version", kubeVersion,
		"--values", filepath.Join("testdata/values", variant+".yaml")}, args...)
}

// rendered returns the objects of the chart, hooks too.
func rendered(t *testing.T, variant string, args ...string) []object {
	return manifests(t, run(t, ".", built(t, helmProgram), template(kubeVersion, variant, args...)...))
}

func manifests(t *testing.T, text string) (all []object) {
	for decoder := yaml.NewDecoder(strings.NewReader(text)); ; {
		var o map[string]any
		err := decoder.Decode(&o)
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		if o != nil {
			all = append(all, o)
		}
	}
}

func TestChart_Lints(t *testing.T) {
	t.Parallel()
	helm := built(t, helmProgram)
	for _, variant := range variants {
		run(t, ".", helm, "lint", "--strict", e2e.Path("deploy/release/chart"), "--values", filepath.Join("testdata/values", variant+".yaml"))
	}
}

// TestChart_KeepsThePoliciesOfKubeScore runs its default checks. Those that are left out have a reason.
func TestChart_KeepsThePoliciesOfKubeScore(t *testing.T) {
	t.Parallel()
	args := []string{
		"score", "--exit-one-on-warning", "--kubernetes-version", "v" + kubeVersion[:strings.LastIndex(kubeVersion, ".")],
		"--ignore-container-cpu-limit",                      // a limit would slow payments on a node with idle cores
		"--ignore-test=container-image-pull-policy",         // a version's image never changes
		"--ignore-test=pod-networkpolicy",                   // only the operator knows who calls; networkPolicy is a value
		"--ignore-test=deployment-has-host-podantiaffinity", // topologySpreadConstraints spread the pods
	}
	for _, variant := range variants {
		text := run(t, ".", built(t, helmProgram), template(kubeVersion, variant)...)
		objects := filepath.Join(t.TempDir(), variant+".yaml")
		require.NoError(t, os.WriteFile(objects, []byte(text), 0o600))
		run(t, ".", built(t, kubeScoreProgram), append(args, objects)...)
	}
}

// TestChart_RefusesWrongValues checks that the schema, or helm, names the wrong value.
func TestChart_RefusesWrongValues(t *testing.T) {
	t.Parallel()
	for set, says := range map[string]string{
		`worker.builds=[]`:                              "minItems",
		`worker.builds=null`:                            "builds",
		`worker.builds=[{"id": "0.1.0", "replica": 2}]`: "replica",
		`worker.builds=[{"id": "A b"}]`:                 "pattern",
		`worker.builds=[{"id": "1", "digest": "1f"}]`:   "pattern",
		`worker.builds=[{"id": "1", "image": "a", "digest": "sha256:` + strings.Repeat("1f", 32) + `"}]`: "not",
		`temporal.address="temporal"`:                   "pattern",
		`hosts.page="https://pay.shop.example"`:         "pattern",
		`setting.CHECKOUT_LOG_LEVEL="info"`:             "setting",
		`settings.CHECKOUT_MASTER_KEYS="1:c2VjcmV0"`:    "CHECKOUT_MASTER_KEYS",
		`settings.CHECKOUT_API_ADDRESS=":1"`:            "CHECKOUT_API_ADDRESS",
		`settings.CHECKOUT_SMTP_URL="smtp://a:b@c"`:     "CHECKOUT_SMTP_URL",
		`api.replicas=0`:                                "minimum",
		`monitoring.enabled="perhaps"`:                  "boolean",
		`networkPolicy.enabled=true`:                    "minItems", // nobody named would be everybody
		`networkPolicy={"enabled": true, "from": [{}]}`: "minProperties",
		`api.autoscaling.maxReplica=3`:                  "maxReplica",
		`temporal.tls.secrets="temporal-client"`:        "secrets",
		`ingress.class="public"`:                        "class",
		`image.pullPolicy="Sometimes"`:                  "pullPolicy",
		`pods.tolerations={}`:                           "tolerations",
		`api.settings.CHECKOUT_MASTER_KEYS="1:c2Vj"`:    "CHECKOUT_MASTER_KEYS",
	} {
		said := refusal(t, kubeVersion, "--set-json", set)
		require.Contains(t, said, "schema(s)", set)
		require.Contains(t, said, says, set)
	}
	for set, says := range map[string]string{ // the schema cannot see that values contradict each other
		`worker.builds=[{"id": "0.1.0"}, {"id": "0.1.0"}]`: "worker.builds names a build twice",
		`api.autoscaling.maxReplicas=1`:                    "api.autoscaling.maxReplicas is less than api.replicas",
	} {
		require.Contains(t, refusal(t, kubeVersion, "--set-json", set), says, set)
	}
	require.Contains(t, refusal(t, "1.30.0"), "chart requires kubeVersion")
}

// refusal returns what helm says when it does not render the chart.
func refusal(t *testing.T, kubeVersion string, args ...string) string {
	said, err := exec.CommandContext(t.Context(), built(t, helmProgram), template(kubeVersion, "minimal", args...)...).CombinedOutput()
	require.Error(t, err, args)
	return string(said)
}

// TestChart_GivesABuildItsSettings: a setting that is new in a version reaches no older build, which would refuse it.
func TestChart_GivesABuildItsSettings(t *testing.T) {
	t.Parallel()
	given := map[string]string{}
	for _, o := range pods(rendered(t, "everything")) {
		if from, ok := o.environment()["CHECKOUT_MAIL_FROM"]; ok {
			given[o.name()] = from
		}
		require.Equal(t, "checkout", o.at("spec", "template", "spec", "nodeSelector", "pool"), o.name())
	}
	require.Equal(t, map[string]string{"shop-api": "api@shop.example", "shop-worker-0-2-0": "new@shop.example"}, given)
}

// pods returns the objects that make pods.
func pods(all []object) []object {
	return slices.DeleteFunc(slices.Clone(all), func(o object) bool { return o.at("spec", "template", "spec") == nil })
}

// TestChart_AgreesWithItself checks in each pod that an address is a port of the container, that each file
// of a setting is mounted, and that probes ask a port.
func TestChart_AgreesWithItself(t *testing.T) {
	t.Parallel()
	for _, variant := range variants {
		for _, o := range pods(rendered(t, variant)) {
			container := o.container()
			ports, files := map[string]bool{}, map[string]bool{}
			if list, ok := container["ports"].([]any); ok {
				for _, port := range list {
					ports[fmt.Sprint(port.(map[string]any)["containerPort"])] = true
				}
			}
			sources, _ := o.at("spec", "template", "spec", "volumes", 0, "projected", "sources").([]any)
			for _, source := range sources {
				for _, from := range source.(map[string]any) {
					for _, item := range from.(map[string]any)["items"].([]any) {
						files["/run/checkout/"+fmt.Sprint(item.(map[string]any)["path"])] = true
					}
				}
			}
			where := variant + " " + o.name()
			used := 0
			for name, value := range o.environment() {
				if port, ok := strings.CutPrefix(value, ":"); ok {
					require.True(t, ports[port], "%s: %s", where, name)
				}
				if strings.HasPrefix(value, "/run/checkout/") {
					require.True(t, files[value], "%s: %s", where, name)
					used++
				}
			}
			require.Len(t, files, used, "%s: a secret is mounted that no setting names", where)
			for _, probe := range []string{"startupProbe", "livenessProbe", "readinessProbe"} {
				if container[probe] != nil {
					require.True(t, ports[fmt.Sprint(container.at(probe, "httpGet", "port"))], where)
				}
			}
		}
	}
}

// TestChart_GivesEachProcessItsSecretsOnly: the API has no key that moves money, and the jobs that talk to
// Temporal alone have no secret of the service.
func TestChart_GivesEachProcessItsSecretsOnly(t *testing.T) {
	t.Parallel()
	got := map[string][]string{}
	for _, o := range pods(rendered(t, "everything")) {
		got[o.name()] = []string{}
		for name := range o.environment() {
			if setting, secret := strings.CutSuffix(name, "_FILE"); secret && name != "SSL_CERT_FILE" {
				got[o.name()] = append(got[o.name()], setting)
			}
		}
		slices.Sort(got[o.name()])
	}
	worker := []string{"CHECKOUT_ETHEREUM_KEYSTORE_PASSWORD", "CHECKOUT_MASTER_KEYS", "CHECKOUT_STRIPE_SECRET_KEY", "DATABASE_URL"}
	require.Equal(t, map[string][]string{
		"shop-api":          {"CHECKOUT_MASTER_KEYS", "CHECKOUT_STRIPE_WEBHOOK_SECRETS", "DATABASE_URL"},
		"shop-worker-0-1-0": worker, "shop-worker-0-2-0": worker, "shop-setup": {"DATABASE_URL"}, "shop-release": {}, "shop-test": {},
	}, got)
}

// TestChart_RunsEachBuild checks the Deployments of the builds and the jobs about them. A build with a digest runs
// that image.
func TestChart_RunsEachBuild(t *testing.T) {
	t.Parallel()
	digest := "sha256:" + strings.Repeat("1f", 32)
	for newest, args := range map[string][]string{"checkout:0.2.0": nil, "checkout@" + digest: {"--set", "worker.builds[0].digest=" + digest}} {
		var got strings.Builder
		for _, o := range pods(rendered(t, "builds", args...)) {
			container := o.container()
			fmt.Fprintln(&got, o.name(), o.at("spec", "replicas"), container["image"], container["args"],
				o.at("metadata", "annotations", "helm.sh/hook"))
		}
		require.Equal(t, strings.ReplaceAll(`shop-api 2 NEWEST [api] <nil>
shop-worker-0-2-0 2 NEWEST [worker] <nil>
shop-worker-0-1-0 1 checkout:0.1.0 [worker] <nil>
shop-drained-0-0-9 <nil> NEWEST [release --drained 0.0.9] pre-upgrade
shop-setup <nil> NEWEST [setup] pre-install,pre-upgrade
shop-release <nil> NEWEST [release 0.2.0 --wait] post-install,post-upgrade,post-rollback
shop-test <nil> NEWEST [health api] test
`, "NEWEST", newest), got.String())
	}
}

// TestChart_ItsTestReachesTheAPI: helm test asks the Service, and the network policy lets its pod in, and to that port
// alone.
func TestChart_ItsTestReachesTheAPI(t *testing.T) {
	t.Parallel()
	all := rendered(t, "everything")
	find := func(kind, name string) object {
		i := slices.IndexFunc(all, func(o object) bool { return o.kind() == kind && o.name() == name })
		require.GreaterOrEqual(t, i, 0, "%s %s", kind, name)
		return all[i]
	}
	asks := find("Job", "shop-test")
	require.Contains(t, asks.container()["env"],
		map[string]any{"name": "CHECKOUT_API_ADDRESS", "value": "shop:8080"})
	require.Contains(t, find("Service", "shop").at("spec", "ports"), map[string]any{"name": "api", "port": 8080, "targetPort": "api"})
	admits := find("NetworkPolicy", "shop").at("spec", "ingress").([]any)
	require.Len(t, admits, 2)
	require.Equal(t, map[string]any{
		"from":  []any{map[string]any{"podSelector": map[string]any{"matchLabels": asks.at("spec", "template", "metadata", "labels")}}},
		"ports": []any{map[string]any{"port": "api"}},
	}, admits[1])
}
