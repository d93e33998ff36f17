// Checks deployment files by reading them, as they cannot run in a test: they are well formed, name
// only existing things, and call commands with options that the commands have.

import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { connect } from "../index.ts";
import { jobOf } from "./cli/jobs.ts";
import { startDirectory } from "./data/data-files.ts";
import { checkCommand, documentsOf } from "./helpers/deploy-files.ts";
import { startNatsServer } from "./helpers/nats/nats.ts";
import { natsServer, testAll, testIf } from "./helpers/needs.ts";
import { runCli } from "./helpers/processes/cli.ts";
import { lastJson, startCli } from "./helpers/processes/start-cli.ts";
import { listTree } from "./helpers/tree.ts";

const files = listTree().filter((path) => path.startsWith("deploy/"));

test.serial("the Dockerfile copies existing files, and calls scripts of package.json", (t) => {
  const text = readFileSync("deploy/Dockerfile", "utf8");
  for (const [, from = ""] of text.matchAll(/^COPY (?!--)(.+) \S+$/gm)) {
    for (const path of from.split(" ")) t.true(existsSync(path), path);
  }
  const { bin, scripts } = JSON.parse(readFileSync("package.json", "utf8"));
  t.true(text.includes(`/osiris/${bin.osiris} /usr/local/bin/osiris`));
  for (const [, script = ""] of text.matchAll(/npm run (\S+)/g)) t.truthy(scripts[script], script);
});

test.serial("the Dockerfile follows the rules of hadolint", (t) => {
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
  t.is(first?.split(" ")[0], later[0], "both stages have the same image: one Node, one C library");
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
  t.is(of("USER").at(-1), "node", "the last user is not root"); // DL3002
});

interface Service {
  readonly image: string;
  readonly command: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly depends_on?: readonly string[];
  readonly volumes: readonly string[];
}

function servicesOf(path: string): Map<string, Service> {
  const [compose] = documentsOf<{ readonly services: Record<string, Service> }>(path);
  return new Map(Object.entries(compose?.services ?? {}));
}

test.serial("the services of compose.yaml run commands that exist", async (t) => {
  const [compose] = documentsOf<{ readonly volumes: object }>("deploy/compose.yaml");
  const services = servicesOf("deploy/compose.yaml");
  t.is([...services.keys()].filter((name) => name.startsWith("host")).length, 2);
  for (const {
    image,
    command,
    environment = {},
    depends_on = [],
    volumes = [],
  } of services.values()) {
    const names = Object.keys(environment).filter((name) => name.startsWith("OSIRIS_"));
    if (image === "osiris-train") await checkCommand(t, command, names);
    for (const other of depends_on) t.true(services.has(other));
    for (const volume of volumes) {
      t.true(Object.hasOwn(compose?.volumes ?? {}, volume.split(":")[0] ?? ""), volume);
    }
  }
});

// On every change, the test above checks the commands of these services, and
// test/chaos/processes/nats-lease.test.ts kills a leader on a nats-server, and another takes over.
testIf(testAll, natsServer).serial(
  "run as processes, the services of compose.yaml train a job, even if the leader restarts",
  async (t) => {
    const directory = startDirectory(t);
    const services = servicesOf("deploy/compose.yaml");
    const token = "correct-horse";
    // Replaces the paths in the container by local ones.
    const here = (word: string) =>
      word
        .replace(/^\$\{OSIRIS_TOKEN\}$/, token)
        .replace(/^\/data$/, join(directory, "data"))
        .replace(/^s3:\/\/osiris\/leader$/, join(directory, "leader"));
    await using server = await startNatsServer(services.get("nats")?.command.map(here));
    const start = (name: string, more: readonly string[] = []) => {
      const { command = [], environment = {} } = services.get(name) ?? {};
      const given = { OSIRIS_NATS: server.url, OSIRIS_TOKEN: token };
      const names = Object.keys(environment).filter((one) => one.startsWith("OSIRIS_"));
      t.deepEqual(names, Object.keys(given));
      const env = Object.entries(given).map(([key, value]) => `${key}=${value}`);
      const process = startCli([...command.map(here), ...more], directory, ["env", ...env]);
      t.teardown(() => process.kill("SIGKILL"));
      return process;
    };
    const hosts = ["host-1", "host-2"].map((name) => start(name));
    const metrics = start("metrics", ["--port", "0"]);
    const root = start("root");
    await root.line((line) => line.includes("leads cluster"));
    const samples = 8000;
    await using client = await connect({ nats: server.url, token });
    const run = await client.submit(jobOf("checkpoints", samples));
    for await (const { type } of run.events()) if (type === "run.checkpointed") break;
    root.kill("SIGKILL");
    await root.ended;
    const again = start("root");
    const { status, digest } = await run.result();
    t.is(status, "finished");

    const served = await metrics.line((line) => line.startsWith("Serving "));
    const [url = ""] = /http:\S+\d+/.exec(served) ?? [];
    const figures = await (await fetch(`${url.replace("0.0.0.0", "127.0.0.1")}/metrics`)).text();
    t.true(figures.includes(`run="${run.run}"`), figures);
    for (const process of [metrics, ...hosts, again]) {
      process.kill("SIGTERM"); // As when a container stops.
      const { code, stderr } = await process.ended;
      t.is(code, 0, stderr);
    }
    writeFileSync(join(directory, "alone.json"), JSON.stringify(jobOf("alone", samples)));
    const alone = await runCli(["train", "alone.json", "--devices", "1", "--json"], directory);
    t.like(lastJson(alone), { status, digest }, "as trained by one process");
  },
);

test.serial("systemd units are well formed and run commands that exist", async (t) => {
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
    // Ignores that neither osiris nor its user is installed on this machine.
    const complaints = verified.stderr.split("\n").filter((one) => {
      return one.includes(path) && !/not executable|Unknown user|not found|No such file/.test(one);
    });
    t.deepEqual(complaints, []);
  }
});
