// A live cluster that an honest and a hostile tenant share: a nats-server with the accounts that
// `osiris nats-config` writes, and the processes `osiris up` and `osiris metrics`. They end with
// the process that started them, even if it is killed.

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import {
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { type Client, connect, type JobOptions } from "../../index.ts";
import { tokenFor } from "../../src/wire/http/access.ts";
import { startNatsServer } from "../helpers/nats/nats.ts";

export interface TenantPlace {
  /** Ports of the nats-server, the dashboard and the metrics. */
  readonly ports: Readonly<Record<"nats" | "page" | "metrics", number>>;
  /** The hostile tenant's token for the dashboard. */
  readonly hostileToken: string;
  readonly honest: Client;
  readonly hostile: Client;
  /** The honest tenant's job in a new directory, which `forget` removes. */
  honestJob(name: string): JobOptions;
  forget(name: string): void;
  /** The digest of the honest tenant's model, trained while the hostile tenant is idle. */
  readonly quietDigest: string;
  /** Why the cluster no longer serves; undefined: it serves. */
  ended(): string | undefined;
  /** Resident bytes of `osiris up`. */
  memory(): number;
  /** Paths outside the hostile tenant's directories that were written, changed or removed. */
  changes(): readonly string[];
  /** Restores the hostile tenant's directories. */
  renew(): void;
  close(): Promise<void>;
}

/**
 * Part of the names of the honest tenant's job and data: nothing that the hostile tenant receives
 * may contain it.
 */
export const secretName = "private-harvest";

/** The login of the hostile tenant. */
export const hostileLogin = { user: "hostile.mallory", pass: "hostile-password" };
const honestLogin = { user: "honest.hanna", pass: "honest-password" };

const tenantsFile = `
honest: { users: { hanna: { pass: ${honestLogin.pass} } } }
hostile:
  users: { mallory: { pass: ${hostileLogin.pass} } }
  devicesMax: 1
  runningMax: 1
  queuedMax: 4
  priorityMax: 0
`;

const program = resolve("dist", "cli", "main.js");

/** A command prefix that makes the system kill a process when its parent ends. */
const endsWithUs = ["setpriv", "--pdeathsig", "KILL"] as const;

/** Whether this system has the command that ties processes to their parent. */
export function canHoldProcesses(): boolean {
  try {
    const [command, ...args] = endsWithUs;
    execFileSync(command, [...args, "true"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

/** Starts the cluster and its tenants in a directory. */
export async function openTenantPlace(directory: string): Promise<TenantPlace> {
  const at = (...parts: string[]) => join(directory, ...parts);
  for (const name of ["cluster", "tmp", "home"]) mkdirSync(at(name), { recursive: true });
  writeFileSync(at("tenants.yaml"), tenantsFile);
  const env = environmentIn(directory);
  const flags = ["--tenants", "tenants.yaml", "--jetstream", at("store")];
  const written = { cwd: directory, env, stdio: "ignore" } as const;
  execFileSync(process.execPath, [program, "nats-config", ...flags], written);
  layHonestData(at("cluster", "data", "honest"));
  const renew = () => layHostileData(at("cluster"));
  renew();
  const started: Started[] = [];
  const server = await startNatsServer(["-c", at("nats", "nats-server.conf")], endsWithUs);
  const start = (command: string, nkey: string, ...more: string[]) => {
    const over = ["--nats", server.url, "--nkey", at("nats", nkey), "--json"];
    const one = startHeld([command, ...over, ...more], at("cluster"), env);
    started.push(one);
    return one;
  };
  const shared = ["--tenants", at("tenants.yaml"), "--state", "state", "--finished", "20"];
  const page = ["--dashboard-port", "0", "--dashboard-allow", "control"];
  const up = start("up", "root.nk", ...shared, ...page);
  const { dashboard } = await up.report("up");
  const { url: figures } = await start("metrics", "metrics.nk", "--port", "0").report("metrics");
  const link = new URL(String(dashboard));
  const honest = await connect({ nats: server.url, ...honestLogin, tenant: "honest" });
  const hostile = await connect({ nats: server.url, ...hostileLogin, tenant: "hostile" });
  const quiet = await honest.submit(honestJob("quiet"));
  const { digest: quietDigest } = await quiet.result();
  const before = listingOf(directory);
  const portOf = (url: URL) => Number(url.port);
  return {
    ...{ honest, hostile, honestJob, quietDigest, renew },
    ports: {
      nats: portOf(new URL(server.url)),
      page: portOf(link),
      metrics: portOf(new URL(String(figures))),
    },
    hostileToken: tokenFor(link.searchParams.get("token") ?? "", "dashboard of tenant hostile"),
    forget: (name) => rmSync(at("cluster", "checkpoints", "honest", name), { recursive: true }),
    ended: () => started.map((one) => one.ended()).find((why) => why !== undefined),
    memory: () => memoryOf(up.pid),
    changes: () => changesBetween(before, listingOf(directory)),
    async close() {
      for (const one of started) await one.kill();
      await server.kill();
      await Promise.all([honest, hostile].map((one) => one[Symbol.asyncDispose]()));
      rmSync(directory, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

/** The environment of the cluster's processes, without the sanitizers of the fuzzer's process. */
function environmentIn(directory: string): NodeJS.ProcessEnv {
  const { LD_PRELOAD: _, ASAN_OPTIONS: _asan, UBSAN_OPTIONS: _ubsan, ...env } = process.env;
  const own = { TMPDIR: join(directory, "tmp"), HOME: join(directory, "home") };
  return { ...env, ...own, OSIRIS_CONSTANTS: "v100" };
}

interface Started {
  readonly pid: number;
  /** Resolves to the JSON report of this name from the process's output. */
  report(name: string): Promise<Readonly<Record<string, unknown>>>;
  ended(): string | undefined;
  kill(): Promise<void>;
}

function startHeld(args: readonly string[], cwd: string, env: NodeJS.ProcessEnv): Started {
  const [command, ...flags] = endsWithUs;
  const all = [...flags, process.execPath, program, ...args];
  const child: ChildProcess = spawn(command, all, { cwd, env, stdio: ["ignore", "pipe", "pipe"] });
  let why: string | undefined;
  let errors = "";
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    errors = `${errors}${text}`.slice(-4000);
  });
  const exited = new Promise<void>((done) => {
    child.once("close", (code, signal) => {
      why = `\`osiris ${args[0]}\` ended by ${signal ?? `exit code ${code}`}\n${errors}`;
      done();
    });
  });
  const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream });
  return {
    pid: child.pid ?? 0,
    report: (name) =>
      new Promise((done, fail) => {
        lines.on("line", (line) => {
          const report = JSON.parse(line) as Readonly<Record<string, unknown>>;
          if (report.report === name) done(report);
        });
        void exited.then(() => fail(new Error(why)));
      }),
    ended: () => why,
    async kill() {
      child.kill("SIGKILL");
      await exited;
    },
  };
}

/** Resident bytes of a process; 0: it has ended. */
function memoryOf(pid: number): number {
  try {
    return Number(readFileSync(`/proc/${pid}/statm`, "utf8").split(" ")[1]) * 4096;
  } catch {
    return 0;
  }
}

const header = "label,price,item,tags";

function rowsOf(count: number): string {
  const rows = Array.from({ length: count }, (_, i) => `${i % 2},${i % 7}.5,n${i % 13},t${i % 5}`);
  return `${[header, ...rows].join("\n")}\n`;
}

function layHonestData(directory: string): void {
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, `${secretName}.csv`), rowsOf(320));
}

/**
 * Writes the hostile tenant's data, with links, pipes and directories through which a job might
 * escape.
 */
function layHostileData(cluster: string): void {
  const own = join(cluster, "data", "hostile");
  const checkpoints = join(cluster, "checkpoints", "hostile");
  for (const one of [own, checkpoints]) {
    rmSync(one, { recursive: true, force: true, maxRetries: 5 });
    mkdirSync(one, { recursive: true });
    symlinkSync("../honest", join(one, "beside"));
    symlinkSync("/etc", join(one, "system"));
  }
  writeFileSync(join(own, "clicks.csv"), rowsOf(100));
  const line = '{"label":1,"price":0.5,"item":"n1","tags":"t1"}\n';
  writeFileSync(join(own, "clicks.jsonl"), line.repeat(100));
  writeFileSync(join(own, "words.txt"), "n1\nn2\nn3\n");
  symlinkSync("/dev/zero", join(own, "zero.txt"));
  execFileSync("mkfifo", [join(own, "pipe.csv")]);
  mkdirSync(join(own, "part-00000-0123456789abcdef.csv.d"));
}

function honestJob(name: string): JobOptions {
  return {
    name: secretName,
    model: {
      kind: "dlrm",
      dense: 1,
      tables: ["item", "tags"].map((table) => ({ name: table, rows: 50, dim: 4 })),
      bottom: [4],
      top: [4, 1],
    },
    data: {
      ...{ kind: "csv", paths: [`${secretName}.csv`], label: "label", dense: ["price"] },
      ...{ categorical: ["item", "tags"], batchSize: 32, epochs: 2 },
    },
    checkpoint: { directory: name },
    devices: 1,
  };
}

/**
 * Paths that may change: the cluster's own state, the hostile tenant's directories, and current
 * runs.
 */
const otherwise =
  /^(store|tmp|cluster\/state|cluster\/(data|checkpoints)\/hostile|cluster\/checkpoints\/honest\/case)/;

/** Every file, directory and link below a directory, with a hash of its contents. */
function listingOf(root: string, below = ""): Map<string, string> {
  const found = new Map<string, string>();
  for (const name of readdirSync(join(root, below)).sort()) {
    const path = join(below, name);
    if (otherwise.test(path)) continue;
    const whole = join(root, path);
    const stat = lstatSync(whole);
    if (stat.isDirectory()) {
      found.set(path, "a directory");
      for (const [inner, what] of listingOf(root, path)) found.set(inner, what);
    } else if (stat.isSymbolicLink()) found.set(path, `a link to ${readlinkSync(whole)}`);
    else if (!stat.isFile()) found.set(path, "another kind of file");
    else found.set(path, createHash("sha256").update(readFileSync(whole)).digest("hex"));
  }
  return found;
}

function changesBetween(
  before: ReadonlyMap<string, string>,
  after: ReadonlyMap<string, string>,
): string[] {
  const paths = new Set([...before.keys(), ...after.keys()]);
  return [...paths].filter((path) => before.get(path) !== after.get(path));
}
