// Renders the Helm chart with the engine and the functions that Helm uses, and checks the objects:
// they fit together, are objects of the API of Kubernetes, and run commands that exist.

import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { startDirectory } from "./data/data-files.ts";
import { checkCommand, documentsOf } from "./helpers/deploy-files.ts";
import { goEnvironment, goTemplates, kubernetesTypes, testIf } from "./helpers/needs.ts";

interface Container {
  readonly name: string;
  readonly image: string;
  readonly command?: readonly string[];
  readonly args?: readonly string[];
  readonly env?: readonly { readonly name: string }[];
  readonly ports?: readonly { readonly name: string }[];
  readonly volumeMounts?: readonly { readonly name: string }[];
  readonly lifecycle?: object;
  readonly readinessProbe?: { readonly httpGet: { readonly port: string } };
  readonly livenessProbe?: { readonly httpGet: { readonly port: string } };
}

/** The parts of Kubernetes objects that the tests look at. */
interface KubernetesObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly spec: {
    readonly replicas?: number;
    readonly podManagementPolicy?: string;
    readonly selector?: { readonly matchLabels?: Labels } & Record<string, unknown>;
    readonly scaleTargetRef?: { readonly kind: string; readonly name: string };
    readonly metrics?: readonly { readonly external?: { readonly metric: { name: string } } }[];
    readonly volumeClaimTemplates?: readonly KubernetesObject[];
    readonly template: {
      readonly metadata: { readonly labels: Labels };
      readonly spec: {
        readonly containers: readonly Container[];
        readonly serviceAccountName?: string;
        readonly terminationGracePeriodSeconds?: number;
        readonly topologySpreadConstraints?: readonly object[];
        readonly volumes?: readonly { readonly name: string; readonly emptyDir?: object }[];
      };
    };
  };
}

type Labels = Readonly<Record<string, string>>;

/** Values with which the chart is rendered: the defaults, and each other branch of a template. */
const chartValues = {
  defaults: "{}",
  kueue: readFileSync("deploy/examples/kueue.yaml", "utf8"),
  everything: `
nats: { url: "tls://nats.example:4222", credentials: creds }
store: { existingSecret: bucket, endpoint: "http://radosgw:7480" }
serviceAccount: { create: false }
image: { repository: registry.example/osiris, tag: "1.2.3" }
imagePullSecrets: [{ name: registry }]
root: { args: [--host-silence, 5s] }
workers: { enabled: true }
metrics: { enabled: false }
hosts:
  drainSeconds: 100
  drainUrl: aws
  args: [--threads, "2"]
  annotations: { example.com/team: ads }
  priorityClassName: low
  affinity: { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms:
    [{ matchExpressions: [{ key: kubernetes.io/arch, operator: In, values: [amd64] }] }] } } }
  autoscaling: { enabled: true }`,
};

let renderer: string | undefined;

/** Renders the chart by Go's templates and Sprig, as Helm does (test/helpers/helm/render.go). */
function chartWith(t: ExecutionContext, values: string): KubernetesObject[] {
  const directory = startDirectory(t);
  if (renderer === undefined) {
    renderer = join(mkdtempSync(join(tmpdir(), "osiris-helm-")), "render");
    const env = { ...process.env, ...goEnvironment };
    execFileSync("go", ["build", "-o", renderer, "test/helpers/helm/render.go"], { env });
  }
  const file = join(directory, "values.yaml");
  writeFileSync(file, values);
  const text = execFileSync(renderer, ["deploy/helm/osiris", "ctr", "ml", file], {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"],
  });
  writeFileSync(join(directory, "rendered.yaml"), text);
  return documentsOf<KubernetesObject | null>(join(directory, "rendered.yaml")).flatMap(
    (one) => one ?? [],
  );
}

test.after.always(() => {
  if (renderer !== undefined) rmSync(dirname(renderer), { recursive: true });
});

for (const [name, values] of Object.entries(chartValues)) {
  testIf(goTemplates).serial(`the chart's objects fit together: ${name}`, async (t) => {
    const objects = chartWith(t, values);
    const named = (kind: string) =>
      objects.filter((one) => one.kind === kind).map(({ metadata }) => metadata.name);
    t.is(new Set(objects.map((one) => one.kind + one.metadata.name)).size, objects.length);
    const workloads = objects.filter(({ kind }) => kind === "Deployment" || kind === "StatefulSet");
    for (const { spec } of workloads) {
      const { metadata, spec: pod } = spec.template;
      t.like(metadata.labels, spec.selector?.matchLabels ?? {});
      const volumes = [
        ...(pod.volumes ?? []).map((volume) => volume.name),
        ...(spec.volumeClaimTemplates ?? []).map((claim) => claim.metadata.name),
      ];
      for (const container of pod.containers) {
        const { image, args = [], env = [], volumeMounts = [], ports = [] } = container;
        for (const volume of volumeMounts) t.true(volumes.includes(volume.name), volume.name);
        for (const probe of [container.readinessProbe, container.livenessProbe]) {
          const port = probe?.httpGet.port;
          t.true(port === undefined || ports.some((one) => one.name === port), port);
        }
        if (image.startsWith("nats:")) continue;
        const names = env.map((one) => one.name).filter((one) => one.startsWith("OSIRIS_"));
        await checkCommand(t, args, names);
      }
    }
    const ofPods = (wanted: Labels) =>
      workloads.some(({ spec: { template } }) =>
        Object.entries(wanted).every(([key, value]) => template.metadata.labels[key] === value),
      );
    for (const { kind, spec } of objects) {
      // The selector of a Service has labels where those of other objects have `matchLabels`.
      if (kind === "Service") t.true(ofPods(spec.selector as unknown as Labels));
      if (kind === "PodDisruptionBudget") t.true(ofPods(spec.selector?.matchLabels ?? {}));
      if (kind !== "HorizontalPodAutoscaler") continue;
      t.true(named(spec.scaleTargetRef?.kind ?? "").includes(spec.scaleTargetRef?.name ?? ""));
      for (const { external } of spec.metrics ?? []) {
        const page = readFileSync("docs/operations.md", "utf8");
        const metric = external?.metric.name ?? "";
        t.true(metric === "" || page.includes(`| \`${metric}\` |`), metric);
      }
    }
    const hosts = workloads.find(({ metadata }) => metadata.name === "ctr-hosts")?.spec;
    const pod = hosts?.template.spec;
    const [{ args, lifecycle, livenessProbe, readinessProbe } = {} as Partial<Container>] =
      pod?.containers ?? [];
    const grace = Number(args?.[args.indexOf("--grace") + 1]);
    t.true((pod?.terminationGracePeriodSeconds ?? 0) > grace, "a drain ends before SIGKILL");
    t.is(hosts?.podManagementPolicy, "Parallel");
    t.truthy(lifecycle && livenessProbe && readinessProbe && pod?.topologySpreadConstraints);
    t.true(pod?.volumes?.every((one) => one.name === "nats" || one.emptyDir !== undefined));
    t.true(named("PodDisruptionBudget").includes("ctr-hosts"));
  });
}

testIf(goTemplates, kubernetesTypes).serial(
  "the chart's objects, and the example of a runtime, are objects of the API of Kubernetes",
  (t) => {
    const folder = startDirectory(t);
    const home = dirname(createRequire(import.meta.url).resolve("kubernetes-types/package.json"));
    const [runtime] = documentsOf<RuntimeObject>("deploy/examples/cluster-training-runtime.yaml");
    const jobs = runtime?.spec.template.spec.replicatedJobs ?? [];
    t.deepEqual(
      jobs.map((one) => one.name),
      ["leader", "node"],
    );
    const objects = [
      ...Object.values(chartValues).flatMap((values) => chartWith(t, values)),
      ...jobs.map(({ template }) => ({ apiVersion: "batch/v1", kind: "Job", ...template })),
    ];
    const check = (some: readonly unknown[]) => {
      writeFileSync(join(folder, "objects.ts"), some.map((one, i) => typed(one, i)).join("\n"));
      const paths = { "kubernetes-types/*": [join(home, "*")] };
      const resolution = { module: "esnext", moduleResolution: "bundler", types: [], paths };
      const compilerOptions = { ...resolution, noEmit: true, strict: true };
      const config = { compilerOptions, files: ["objects.ts"] };
      writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(config));
      const tsc = join("node_modules", "typescript", "bin", "tsc");
      return spawnSync("node", [tsc, "-p", folder], { encoding: "utf8" }).stdout;
    };
    t.is(check(objects), "");
    const [first] = objects.filter(({ kind }) => kind === "StatefulSet");
    // A field that the type does not have; without the cast it would not compile here.
    const wrong = structuredClone(first) as unknown as { spec: Record<string, unknown> };
    wrong.spec.podManagmentPolicy = "Parallel";
    t.regex(check([wrong]), /podManagmentPolicy.* does not exist in type 'StatefulSetSpec'/);
  },
);

interface RuntimeObject {
  readonly spec: {
    readonly template: {
      readonly spec: { readonly replicatedJobs: { name: string; template: object }[] };
    };
  };
}

/** A declaration that compiles only if each field of the object is one of its type. */
function typed(object: unknown, i: number): string {
  const { apiVersion, kind } = object as KubernetesObject;
  const group = apiVersion.includes("/") ? apiVersion : `core/${apiVersion}`;
  const type = `import("kubernetes-types/${group}").${kind}`;
  return `export const object${i}: ${type} = ${JSON.stringify(object)};`;
}
