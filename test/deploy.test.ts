// What cannot be run here is read: files of deployment are well formed, name only what there is,
// and call commands with options that they have.

import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import test, { type ExecutionContext } from "ava";
import { parseAllDocuments } from "yaml";
import { runCli } from "./helpers/cli.ts";
import { listTree } from "./helpers/tree.ts";

const files = listTree().filter((path) => path.startsWith("deploy/"));

interface Container {
  readonly image: string;
  readonly args?: readonly string[];
  readonly env?: readonly {
    readonly name: string;
    readonly valueFrom?: { readonly secretKeyRef: { name: string } };
  }[];
  readonly ports?: readonly { readonly containerPort: number }[];
  readonly readinessProbe?: { readonly httpGet: { readonly port: number } };
  readonly volumeMounts?: readonly { readonly name: string }[];
}

/** The parts of Kubernetes objects that these files have. */
interface KubernetesObject {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly resources?: readonly string[];
  readonly spec: {
    readonly selector?: { readonly matchLabels?: Record<string, string> } & Record<string, unknown>;
    readonly volumeClaimTemplates?: readonly KubernetesObject[];
    readonly template: {
      readonly metadata: { readonly labels: Record<string, string> };
      readonly spec: {
        readonly containers: readonly Container[];
        readonly volumes?: readonly {
          readonly name: string;
          readonly persistentVolumeClaim: { readonly claimName: string };
        }[];
      };
    };
  };
}

function documentsOf<Document>(path: string): Document[] {
  return parseAllDocuments(readFileSync(path, "utf8"), { merge: true }).map((document) => {
    if (document.errors.length > 0) throw document.errors[0];
    return document.toJS() as Document;
  });
}

/** Options whose values are numbers. */
const numeric = new Set(["--devices", "--min-devices", "--port", "--grace"]);

/** The command is one of ours, with the options that it is called with, and reads `env`. */
async function checkCommand(
  t: ExecutionContext,
  args: readonly string[],
  env: readonly string[] = [],
): Promise<void> {
  const [command = "", ...rest] = args;
  const { code, stdout } = await runCli([command, "--help"], ".");
  const help = stdout.replace(/\s+/g, " ");
  for (const name of env) t.true(help.includes(`env: ${name}`), `osiris ${command}: ${name}`);
  for (const [at, option] of rest.entries()) {
    const value = rest[at + 1] ?? "";
    if (numeric.has(option)) t.regex(value, /^(\d+|\$\{\w+\})$/, `osiris ${command} ${option}`);
    // What stands between two options is the value of the first.
    if (!option.startsWith("--")) t.true(rest[at - 1]?.startsWith("--"), option);
  }
  t.is(code, 0, command);
  const options = new Set([...stdout.matchAll(/^ {2}(--[a-z-]+)/gm)].map(([, option]) => option));
  for (const option of rest.filter((one) => one.startsWith("--"))) {
    t.true(options.has(option), `osiris ${command} ${option}`);
  }
}

test.serial("the Dockerfile copies what there is, and calls what package.json has", (t) => {
  const text = readFileSync("deploy/Dockerfile", "utf8");
  for (const [, from = ""] of text.matchAll(/^COPY (?!--)(.+) \S+$/gm)) {
    for (const path of from.split(" ")) t.true(existsSync(path), path);
  }
  const { bin, scripts } = JSON.parse(readFileSync("package.json", "utf8"));
  t.true(text.includes(`/osiris/${bin.osiris} /usr/local/bin/osiris`));
  for (const [, script = ""] of text.matchAll(/npm run (\S+)/g)) t.truthy(scripts[script], script);
});

test.serial("the Dockerfile keeps to what hadolint asks for", (t) => {
  const text = readFileSync("deploy/Dockerfile", "utf8").replace(/\\\n\s*/g, " ");
  const lines = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  const all = lines.map((line) => {
    const [, word = "", rest = ""] = /^([A-Z]+) (.*)$/.exec(line) ?? [];
    return { word, rest };
  });
  const of = (wanted: string) => all.flatMap(({ word, rest }) => (word === wanted ? rest : []));
  const known = ["FROM", "RUN", "WORKDIR", "COPY", "LABEL", "ENV", "USER", "VOLUME", "STOPSIGNAL"];
  for (const { word } of all) t.true([...known, "ENTRYPOINT", "CMD"].includes(word), word);
  const [first, ...later] = of("FROM");
  for (const image of of("FROM")) t.regex(image, /^[\w./-]+:[\w.-]+( AS \w+)?$/); // DL3006, DL3007
  t.is(first?.split(" ")[0], later[0], "both stages have the same Node and the same C library");
  const { engines } = JSON.parse(readFileSync("package.json", "utf8"));
  t.is(/node:(\d+)/.exec(first ?? "")?.[1], /(\d+)/.exec(engines.node)?.[1]);
  const stages = of("FROM").flatMap((image) => / AS (\w+)$/.exec(image)?.[1] ?? []);
  for (const copied of of("COPY")) {
    const stage = /^--from=(\S+)/.exec(copied)?.[1];
    t.true(stage === undefined || stages.includes(stage), copied); // DL3022
  }
  for (const run of of("RUN")) {
    t.notRegex(run, /\bsudo\b|\bcd \//); // DL3004, DL3003
    if (!run.includes("apt-get install")) continue;
    for (const part of ["-y", "--no-install-recommends", "rm -rf /var/lib/apt/lists"]) {
      t.true(run.includes(part), part); // DL3014, DL3015, DL3009
    }
  }
  for (const folder of of("WORKDIR")) t.true(folder.startsWith("/")); // DL3000
  for (const started of [...of("ENTRYPOINT"), ...of("CMD")]) {
    t.notThrows(() => JSON.parse(started), started); // DL3025
  }
  t.is(of("ENTRYPOINT").length + of("CMD").length, 2); // DL4003, DL4004
  t.is(of("USER").at(-1), "node", "and not root"); // DL3002
});

test.serial("the services of compose.yaml run commands that there are", async (t) => {
  const [compose] = documentsOf<{
    services: Record<
      string,
      { image: string; command: string[]; environment?: object; depends_on?: string[] }
    >;
    volumes: object;
  }>("deploy/compose.yaml");
  const services = Object.entries(compose?.services ?? {});
  t.is(services.filter(([name]) => name.startsWith("host")).length, 2);
  for (const [, { image, command, environment = {}, depends_on = [] }] of services) {
    if (image === "osiris") await checkCommand(t, command, Object.keys(environment));
    for (const other of depends_on) t.true(services.some(([name]) => name === other));
  }
});

test.serial("the objects of Kubernetes select, mount and run what there is", async (t) => {
  const folder = "deploy/kubernetes/";
  const [list] = documentsOf<KubernetesObject>(`${folder}kustomization.yaml`);
  const listed = (list?.resources ?? []).map((name) => folder + name);
  const there = files.filter((path) => path.startsWith(folder) && !path.endsWith("zation.yaml"));
  t.deepEqual([...listed].sort(), there);
  const objects = listed.flatMap((path) => documentsOf<KubernetesObject>(path));
  const named = (kind: string) =>
    objects.filter((one) => one.kind === kind).map(({ metadata }) => metadata.name);
  const workloads = objects.filter(({ kind }) => kind === "Deployment" || kind === "StatefulSet");
  t.is(workloads.length, 4);
  for (const { spec } of workloads) {
    const { metadata, spec: pod } = spec.template;
    t.deepEqual(spec.selector?.matchLabels, metadata.labels);
    const volumes = [
      ...(pod.volumes ?? []).map(({ name }) => name),
      ...(spec.volumeClaimTemplates ?? []).map((claim) => claim.metadata.name),
    ];
    for (const { persistentVolumeClaim } of pod.volumes ?? []) {
      t.true(named("PersistentVolumeClaim").includes(persistentVolumeClaim.claimName));
    }
    for (const { image, args = [], env = [], volumeMounts = [], ...net } of pod.containers) {
      const names = env.map(({ name }) => name);
      if (image === "osiris") await checkCommand(t, args, names);
      const probed = net.readinessProbe?.httpGet.port;
      const ports = net.ports?.map(({ containerPort }) => containerPort) ?? [];
      t.true(
        probed === undefined || ports.includes(probed),
        `${args[0]} is probed at a port it has`,
      );
      for (const { valueFrom } of env) {
        if (valueFrom !== undefined) t.is(valueFrom.secretKeyRef.name, "osiris");
      }
      for (const { name } of volumeMounts) t.true(volumes.includes(name), name);
    }
  }
  const labels = workloads.map(({ spec }) => spec.template.metadata.labels.app);
  for (const { spec } of objects.filter(({ kind }) => kind === "Service")) {
    t.true(labels.includes(spec.selector?.app as string));
  }
});

test.serial("the units of systemd are well formed and run commands that there are", async (t) => {
  for (const path of files.filter((one) => one.endsWith(".service"))) {
    const text = readFileSync(path, "utf8");
    const [, line = ""] = /^ExecStart=\/usr\/bin\/osiris (.+)$/m.exec(text) ?? [];
    await checkCommand(t, line.split(" "));
    for (const [, name = ""] of line.matchAll(/\$\{(\w+)\}/g)) {
      t.regex(text, new RegExp(`^Environment=${name}=\\S+$`, "m"), name);
    }
    const verified = spawnSync("systemd-analyze", ["verify", "--man=no", path], {
      encoding: "utf8",
    });
    if (verified.error !== undefined) {
      t.log("not verified: there is no systemd-analyze");
      continue;
    }
    // Neither osiris nor its user is installed here.
    const complaints = verified.stderr.split("\n").filter((one) => {
      return one.includes(path) && !/not executable|Unknown user|not found|No such file/.test(one);
    });
    t.deepEqual(complaints, []);
  }
});
