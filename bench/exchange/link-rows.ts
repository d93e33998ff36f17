// The rows `links` of the exchange bench: frames of 1 MiB over one direct link between two
// processes, beside a bare socket pair in C in the same rounds, in turn.

import { type ChildProcess, fork } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { type Measurement, together } from "../bench.ts";
import { limit } from "../limits/limits.ts";
import { rowOf } from "../row.ts";
import type { LinksHostData, LinksRound } from "./links-host.ts";

const frameBytes = 2 ** 20;
const roundBytes = 1024 * 2 ** 20;
const ways = ["tcp", "unix", "tls"] as const;

/** A row of the rate, and one of the bytes a second of processor time of both ends. */
export function linkMeasurements(rounds: number): readonly Measurement[] {
  return ways.map((way) => {
    const names = [`links.${way}`, `links.${way}.processor`];
    return together(names, 3 * (rounds + 1), async () => {
      const tokens = [0, 1].map(() => randomBytes(32).toString("hex"));
      const hosts = [0, 1].map((host) => startHost({ host, way, frameBytes, tokens }));
      const [sender, receiver] = hosts as [ChildProcess, ChildProcess];
      const [from, to] = await Promise.all(hosts.map(messageOf));
      await Promise.all([ask(sender, to), ask(receiver, from)]);
      const kind = way === "unix" ? "unix" : "tcp";
      const [rates, processor, bare, bareProcessor]: number[][] = [[], [], [], []];
      for (let round = -1; round < rounds; round++) {
        await ask(receiver, { frames: 1 });
        const sent = (await ask(sender, { frames: roundBytes / frameBytes })) as LinksRound;
        const taken = (await ask(receiver, { frames: 1 })) as LinksRound;
        if (round < 0) continue; // The first touches the memory.
        rates?.push(roundBytes / 1e6 / sent.ms);
        processor?.push(roundBytes / 1e6 / (sent.processorMs + taken.processorMs));
        bare?.push(limit("socket", kind, frameBytes, 0.5) / 1e9);
        bareProcessor?.push(limit("socketProcessor", kind, frameBytes, 0.5) / 1e9);
      }
      const exits = hosts.map((host) => once(host, "exit"));
      for (const host of hosts) host.send({});
      await Promise.all(exits);
      const limitIs = `bare ${kind} sockets in C, without checksums${way === "tls" ? " or TLS" : ""}`;
      const [name = "", processorName = ""] = names;
      return [
        rowOf({ name, unit: "GB/s", limitIs }, rates ?? [], bare ?? []),
        rowOf(
          { name: processorName, unit: "GB/s of one core", limitIs },
          processor ?? [],
          bareProcessor ?? [],
        ),
      ];
    });
  });
}

function startHost(data: LinksHostData): ChildProcess {
  return fork(new URL("./links-host.js", import.meta.url), [JSON.stringify(data)]);
}

async function messageOf(host: ChildProcess): Promise<object> {
  const [message] = await once(host, "message");
  return message;
}

function ask(host: ChildProcess, question: object | undefined): Promise<object> {
  const answer = messageOf(host);
  host.send(question ?? {});
  return answer;
}
