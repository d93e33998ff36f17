// Two processes, each with one or two devices, connected by a broker. Unlike the simulated hosts,
// this tests real memory, threads and connections, and the death of a process.

import { type ChildProcess, fork } from "node:child_process";
import type { ExecutionContext } from "ava";
import { startBrokerThread } from "../../src/wire/broker/broker-thread.ts";
import { startNatsServer } from "../helpers/nats/nats.ts";
import { natsServer, testAll, testIf } from "../helpers/needs.ts";
import type { HostReport, HostTask } from "./bridged-process.ts";

const pairs = [0, 0, 1, 1];
const placements = { "two devices each": pairs, "one device each": [0, 1] };

type Ended = Extract<HostReport, { type: "ended" }>;

interface Host {
  readonly process: ChildProcess;
  readonly ready: Promise<void>;
  readonly done: Promise<void>;
  readonly ended: Promise<Ended>;
}

function startHost(t: ExecutionContext, task: HostTask): Host {
  const child = fork(new URL("bridged-process.js", import.meta.url), [JSON.stringify(task)]);
  t.teardown(() => child.kill("SIGKILL"));
  const told = <Type extends string>(type: Type) => {
    const report = new Promise<unknown>((resolve, reject) => {
      child.on("message", (report: { type: string }) => {
        if (report.type === type) resolve(report);
      });
      const lost = () => reject(new Error(`host ${task.host} ended before it was ${type}`));
      child.once("disconnect", lost).once("error", reject); // Its messages come before.
    });
    report.catch(() => {}); // The test kills some hosts.
    return report;
  };
  return {
    process: child,
    ready: told("ready") as Promise<void>,
    done: told("done") as Promise<void>,
    ended: told("ended") as Promise<Ended>,
  };
}

async function startHosts(
  t: ExecutionContext,
  options: Omit<HostTask, "host">,
): Promise<[Host, Host]> {
  const hosts: [Host, Host] = [
    startHost(t, { ...options, host: 0 }),
    startHost(t, { ...options, host: 1 }),
  ];
  await Promise.all(hosts.map(({ ready }) => ready));
  for (const { process } of hosts) process.send("begin");
  return hosts;
}

async function startServer(kind: "broker" | "nats-server") {
  if (kind === "nats-server") {
    const server = await startNatsServer();
    return { broker: { servers: server.url }, stop: () => server[Symbol.asyncDispose]() };
  }
  const server = await startBrokerThread();
  const login = server.auth === "open" ? {} : server.auth;
  return { broker: { servers: server.url, ...login }, stop: () => server.close() };
}

// `npm test` runs each placement on one of the two servers, and kills one process.
const onEveryChange = ["two devices each, broker", "one device each, nats-server"];

for (const kind of ["broker", "nats-server"] as const) {
  const server = kind === "nats-server" ? [natsServer] : [];
  for (const [title, hostOf] of Object.entries(placements)) {
    const needs = onEveryChange.includes(`${title}, ${kind}`) ? server : [...server, testAll];
    testIf(...needs).serial(
      `two processes, ${title}, exchange the right bytes over a ${kind}`,
      async (t) => {
        const { broker, stop } = await startServer(kind);
        const hosts = await startHosts(t, { broker, hostOf, rounds: 40, deadlineMs: 300_000 });
        await Promise.all(hosts.map(({ done }) => done));
        for (const { process } of hosts) process.send("end");
        for (const { devices, bridge, traffic } of await Promise.all(
          hosts.map((one) => one.ended),
        )) {
          t.is(bridge, null);
          for (const { wrong, error } of devices) t.deepEqual([wrong, error], [[], undefined]);
          // Bridges send exactly the bytes that devices give them.
          const sums = Object.fromEntries(
            Object.keys(traffic.bytes).map((name) => [
              name,
              devices.reduce((sum, { sent }) => sum + (sent?.[name as "ids"]?.wire ?? 0), 0),
            ]),
          );
          t.deepEqual(sums, traffic.bytes);
        }
        await stop();
      },
    );
  }

  testIf(...(kind === "broker" ? [] : [...server, testAll])).serial(
    `a killed process is named after half of the deadline, over a ${kind}`,
    async (t) => {
      const { broker, stop } = await startServer(kind);
      // Long enough for a busy machine, where a live process could be silent for half of it.
      const deadlineMs = 4000;
      const [left, lost] = await startHosts(t, {
        broker,
        hostOf: pairs,
        rounds: 1_000_000,
        deadlineMs,
      });
      lost.process.kill("SIGKILL");
      const { devices, bridge } = await left.ended;
      t.is(bridge?.message, "Lost host:1: no frame for 2000 ms, half the step deadline");
      t.deepEqual(
        devices.map(({ error }) => error?.code),
        ["GENERATION_ABORTED", "GENERATION_ABORTED"],
      );
      await stop();
    },
  );
}
