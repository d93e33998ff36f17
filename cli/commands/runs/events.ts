// osiris events RUN: the events of a run from a sequence number on, as lines or JSON.

import type { Command } from "commander";
import { connect, type RunEvent } from "../../../internal.ts";
import {
  type CommonOptions,
  type ConnectionArguments,
  connectionOf,
  integerFrom,
  withClient,
  withCommon,
} from "../../support/arguments.ts";
import { exitCodes } from "../../support/failure.ts";
import { count } from "../../support/format.ts";
import { onInterrupt } from "../../support/interrupt.ts";
import { namedRun } from "../../support/named-run.ts";
import { openView } from "../../views/run-view.ts";

interface EventsOptions extends CommonOptions, ConnectionArguments {
  readonly since: number;
  readonly follow?: boolean;
}

export function addEvents(program: Command): void {
  const command = program
    .command("events")
    .argument("<run>", "a run or the name of its job, as `osiris ls` lists them")
    .description("print the events of a run")
    .option("--since <N>", "start at the event with this sequence number", integerFrom(0), 0)
    .option("-f, --follow", "wait for further events, until the run is over");
  withCommon(withClient(command), ["events r12-1", "events r12-1 --since 40 -f --json"]).action(
    async (name: string, options: EventsOptions) => {
      await using client = await connect(connectionOf(options));
      const run = await namedRun(client, name);
      const view = openView({ json: options.json === true });
      using _interrupt = onInterrupt(() => {
        view.close(); // Restores the terminal: the bar has disabled line wrapping.
        process.exit(exitCodes.cancelled);
      });
      try {
        const onSilence = (sentence: string) => view.say(`  ! ${sentence}`);
        const how = { ...options, onSilence };
        const events = options.follow === true ? run.events(how) : run.past(options);
        for await (const event of events) {
          view.show(event);
          const bound = options.json === true ? undefined : boundOf(event);
          if (bound !== undefined) view.say(bound);
        }
      } finally {
        view.close();
      }
    },
  );
}

/**
 * The line for an event that begins or ends a run. The view has no lines for these events, because
 * `osiris submit --follow` prints them in another form.
 */
function boundOf(event: RunEvent): string | undefined {
  switch (event.type) {
    case "run.queued":
      return `Queued: ${event.name}`;
    case "run.finished": {
      const { status, step, digest } = event.result;
      return `${status} at step ${count(step)}, model ${digest}`;
    }
    case "run.failed":
      return `${event.error.code}: ${event.error.message}`;
    default:
      return undefined;
  }
}
