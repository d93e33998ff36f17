// Link probe: measures the links between the hosts of a generation, before it is assembled, on a
// thread of each host (actors/threads/link-program.ts). It answers repeated requests from what it
// has measured, until the generation is assembled or released.
//
// Takes   host.measure, through host.ts
// Emits   host.measured

import { fromCallback } from "xstate";
import { linksMs } from "../../src/ports/deadlines.ts";
import type { Launcher } from "../../src/ports/launcher.ts";
import { type MessageEvent, type Network, openMailbox, type RunScope } from "../runtime/mailbox.ts";
import type { LinkTask, ProbedLinks } from "../threads/link-program.ts";
import { threadFile } from "../threads/thread-file.ts";

export interface LinkProbeInput {
  readonly network: Network;
  readonly launcher: Launcher;
  readonly host: number;
  /** The received request. */
  readonly question: MessageEvent<"host.measure">;
}

/** The id of a generation's link probe among the children of a host. */
export function linkProbeId({ run, generation }: RunScope): string {
  return `links:${run}:${generation}`;
}

export const probingLinks = fromCallback<{ type: string }, LinkProbeInput>(
  ({ input: { network, launcher, host, question }, receive }) => {
    const { run, generation, body } = question;
    const { cluster, connection, clock, hostLinks } = network;
    const mailbox = openMailbox(network, question, { role: "host", index: host });
    const place = { hosts: body.hosts.length, index: body.hosts.indexOf(host) };
    const task: LinkTask = {
      ...{ program: "links", run, generation, cluster, connection, ...place },
      direct: body.isDirect === true ? (hostLinks ?? { linkEncryption: "auto" }) : undefined,
      deadlineMs: linksMs,
    };
    const isLast = ({ links, direct }: ProbedLinks) =>
      task.direct === undefined || direct !== undefined || typeof links === "string";
    /** The measured broker links, while direct links are still being measured. */
    let partial: ProbedLinks | undefined;
    let links: ProbedLinks | undefined;
    const answer = (found: ProbedLinks) => {
      links ??= found;
      const own = { command: body.command, host, ...links };
      mailbox.send({ role: "coordinator", index: 0 }, "host.measured", own);
    };
    const thread = launcher.start<never, ProbedLinks>(threadFile, task, "links");
    const forgetDeadline = clock.after(linksMs, () => {
      if (links !== undefined) return;
      stopped(`it did not finish within ${linksMs / 1000} s`);
      thread.kill();
    });
    let isStopped = false;
    const stopped = (why: string) =>
      answer(partial === undefined ? { links: why } : { ...partial, direct: why });
    thread.onReport((report) => {
      partial = report;
      if (isLast(report)) answer(report);
    });
    void thread.ended.then((end) => {
      forgetDeadline();
      if (links !== undefined || isStopped) return;
      if (end.kind === "failed") stopped(end.error.message);
      else stopped(end.kind === "lost" ? end.reason : "its thread reported no measurement");
    });
    receive(() => {
      if (links !== undefined) answer(links);
    });
    return () => {
      isStopped = true;
      forgetDeadline();
      thread.kill();
    };
  },
);
