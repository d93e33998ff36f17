// Machines that share nothing but a network: each has namespaces of its own for network, mounts and
// processes. Its /tmp, its home and its work directory are in memory and invisible to the other
// machines. The rest of the file system, which has the code, is read-only. A cable (veth) joins
// each machine to a switch.
//
//   machine 1 ── eth0 ══ cable 1 ──┐
//   machine 2 ── eth0 ══ cable 2 ──┼── switch (a bridge, in a namespace of its own)
//   machine 3 ── eth0 ══ cable 3 ──┘
//
// A bad cable, which delays and loses frames, goes through a program at the switch (bad-cable.py):
// many kernels lack netem.
//
// The test or bench stands outside of this network: it starts programs on the machines, and reads
// what they print.

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** The speed, delay and faults of a cable. */
export interface Cable {
  /** Bits a second, each way. */
  readonly bitsPerSecond: number;
  /** Delay of each frame, each way. @default none */
  readonly delayMs?: number;
  /** Share of the frames that is lost. @default none */
  readonly lossShare?: number;
  /** Largest packet in bytes. @default 1500 */
  readonly packetBytes?: number;
  /** Bytes that pass at once after a pause, faster than the cable. @default 1 MiB */
  readonly burstBytes?: number;
}

/** A cable of 1 Gb/s. */
export const gigabit: Cable = { bitsPerSecond: 1e9 };

export interface BareMachine {
  /** Its address in the network. */
  readonly address: string;
  /** The command prefix that runs another command on it. */
  readonly inside: readonly string[];
  /** Runs a command of a shell, and returns what it prints. */
  shell(command: string): string;
  /** Writes a file of its work directory. */
  write(name: string, text: string): void;
  /** Cuts its cable; `mend` joins it again. */
  cut(): void;
  mend(): void;
  /** Ends all of its processes at once; its memory and its disk are gone. */
  kill(): Promise<void>;
}

export interface BareNetwork {
  /**
   * Starts a machine, with an empty disk. `environment`: further variables of its programs;
   * `cores`: the cores that they may use, as `taskset` lists them.
   */
  machine(environment?: Readonly<Record<string, string>>, cores?: string): Promise<BareMachine>;
}

const workDirectory = "/mnt/work";

/**
 * A script that makes a machine of its namespaces: all mounts become read-only, and file systems in
 * memory cover the directories that programs write to.
 */
const becomeMachine = `
set -e
mount -t tmpfs -o mode=755 machine /mnt
mkdir /mnt/work /mnt/home
cut -d ' ' -f 5 /proc/self/mountinfo | grep -v -E '^/(proc|sys|dev|mnt)(/|$)' |
  while read -r place; do mount -o remount,bind,ro "$place"; done
for place in /tmp /dev/shm /var/tmp /run; do
  [ ! -d $place ] || mount -t tmpfs -o mode=1777 machine $place
done
ip link set lo up
echo ready
exec sleep 100000
`;

/** The reason, as a sentence, why this process cannot make machines; undefined: it can. */
export function lacksForMachines(): string | undefined {
  if (/^\/(tmp|dev\/shm|var\/tmp|run|mnt)\//.test(process.cwd())) {
    return "The code is in a temporary directory, which each machine replaces with its own.";
  }
  try {
    const script =
      "ip link add a0 type veth peer name b0 && ip link add s0 type bridge && echo yes";
    const args = [...namespaces, "sh", "-c", `mount -t tmpfs test /mnt && ${script}`];
    return execFileSync("unshare", args, { encoding: "utf8", stdio: "pipe" }).trim() === "yes"
      ? undefined
      : "Namespaces have no cables (veth) or switches (bridge).";
  } catch {
    return "This process may not make mount, network and process namespaces (`unshare`).";
  }
}

const namespaces = ["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"] as const;

/** A test or a bench, at whose end machines are removed. */
interface Teardown {
  teardown(end: () => void | Promise<void>): void;
}

/** Starts a network without machines. The network and its machines end with `t`. */
export async function startBareNetwork(t: Teardown, cable: Cable = gigabit): Promise<BareNetwork> {
  const box = await startNamespaces(t, "ip link add s0 type bridge\nip link set s0 up\n");
  const atSwitch = (...args: readonly string[]) => {
    run(["nsenter", "--target", box.pid, "--net", "ip", ...args]);
  };
  /** Starts the program that carries frames between a bad cable and a port of the switch. */
  const carryFrames = async (number: number, pid: string) => {
    const [port, far] = [`port${number}`, `far${number}`];
    atSwitch("link", "add", port, "type", "veth", "peer", "name", far);
    for (const one of [port, far]) atSwitch("link", "set", one, "up");
    atSwitch("link", "set", port, "master", "s0");
    run(["nsenter", "--target", pid, "--net", "python3", badCable, "whole", "eth0"]);
    const { delayMs = 0, lossShare = 0 } = cable;
    const inBox = ["nsenter", "--target", box.pid, "--net", "--pid", "python3", badCable];
    const args = [`${delayMs}`, `${lossShare}`, `cable${number}:${far}`];
    const [command = "", ...rest] = [...inBox, ...args];
    const carrier = spawn(command, rest, { stdio: ["ignore", "pipe", "pipe"], env });
    t.teardown(() => void carrier.kill("SIGKILL"));
    await said(carrier, "carrying");
  };
  let machines = 0;
  return {
    async machine(environment = {}, cores) {
      const number = ++machines;
      const address = `10.99.0.${number}`;
      const own = await startNamespaces(t, becomeMachine);
      const target = ["nsenter", "--target", own.pid, "--mount", "--net", "--pid"];
      const ip = (...args: readonly string[]) => {
        run(["nsenter", "--target", own.pid, "--net", "ip", ...args]);
      };
      const far = ["type", "veth", "peer", "name", "eth0", "netns", own.pid];
      atSwitch("link", "add", `cable${number}`, ...far);
      atSwitch("link", "set", `cable${number}`, "up");
      if (isBad(cable)) await carryFrames(number, own.pid);
      else atSwitch("link", "set", `cable${number}`, "master", "s0");
      ip("addr", "add", `${address}/24`, "dev", "eth0");
      if (cable.packetBytes !== undefined) {
        ip("link", "set", "eth0", "mtu", `${cable.packetBytes}`);
        for (const one of isBad(cable) ? ["cable", "port", "far"] : ["cable"]) {
          atSwitch("link", "set", `${one}${number}`, "mtu", `${cable.packetBytes}`);
        }
      }
      ip("link", "set", "eth0", "up");
      const { bitsPerSecond, burstBytes = 2 ** 20 } = cable;
      const rate = ["rate", `${bitsPerSecond}bit`, "burst", `${burstBytes}`, "latency", "50ms"];
      for (const [pid, device] of [
        [own.pid, "eth0"],
        [box.pid, `cable${number}`],
      ] as const) {
        const tc = ["nsenter", "--target", pid, "--net", "tc"];
        run([...tc, "qdisc", "add", "dev", device, "root", "tbf", ...rate]);
      }
      const { PATH } = env;
      const variables = { PATH, HOME: "/mnt/home", TMPDIR: "/tmp", ...environment };
      const pairs = Object.entries(variables).map(([name, value]) => `${name}=${value}`);
      const pinned = cores === undefined ? [] : ["taskset", "-c", cores];
      const inside = [...target, `--wdns=${workDirectory}`, "env", ...pairs, ...pinned];
      return {
        address,
        inside,
        shell: (command) => run([...inside, "sh", "-c", command]),
        write: (name, text) => void run([...inside, "tee", name], text),
        cut: () => atSwitch("link", "set", `cable${number}`, "down"),
        mend: () => atSwitch("link", "set", `cable${number}`, "up"),
        kill: own.kill,
      };
    },
  };
}

/** Runs a command, with `input` as its standard input, and returns what it printed. */
function run([command = "", ...args]: readonly string[], input = ""): string {
  return execFileSync(command, args, { encoding: "utf8", stdio: "pipe", env, input });
}

/** Debian installs network tools and nats-server in /usr/sbin, which only root's PATH contains. */
const env = { ...process.env, PATH: `${process.env.PATH ?? ""}:/usr/sbin` };

/** Starts namespaces, which `script` prepares, and which last until they are killed. */
async function startNamespaces(
  t: Teardown,
  script: string,
): Promise<{ readonly pid: string; readonly kill: () => Promise<void> }> {
  const whole = script.includes("exec sleep") ? script : `${script}echo ready\nexec sleep 100000`;
  const holder = spawn("unshare", [...namespaces, "sh", "-c", whole], {
    stdio: ["ignore", "pipe", "pipe"],
    env,
  });
  const exited = new Promise<void>((resolve) => holder.once("exit", () => resolve()));
  const kill = async () => {
    holder.kill("SIGKILL");
    await exited;
  };
  t.teardown(kill);
  await said(holder, "ready");
  // The first process of the namespaces: the kernel ends all others in them when it ends.
  const [pid = ""] = readFileSync(`/proc/${holder.pid}/task/${holder.pid}/children`, "utf8").split(
    " ",
  );
  return { pid, kill };
}

const badCable = fileURLToPath(new URL("../../../bench/machines/bad-cable.py", import.meta.url));

function isBad({ delayMs = 0, lossShare = 0 }: Cable): boolean {
  return delayMs > 0 || lossShare > 0;
}

/** Resolves once a process has printed a word. */
function said({ stdout, stderr }: ChildProcess, word: string): Promise<void> {
  return new Promise((resolve, reject) => {
    let errors = "";
    stderr?.on("data", (text) => {
      errors += text;
    });
    stdout?.on("data", (text) => {
      if (`${text}`.includes(word)) resolve();
    });
    stdout?.on("close", () => reject(new Error(`It ended before it was ${word}: ${errors}`)));
  });
}
