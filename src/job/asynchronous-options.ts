// The options of asynchronous training (`mode: "async"`). Trainers read and write rows on servers
// that apply each update when it arrives. Results therefore depend on timing, whatever the options:
// equal bits are not promised.

import { z } from "zod";

/** Schema of `JobOptions.async`. */
export const asynchronousOptions = z.strictObject({
  threads: z
    .int()
    .min(1)
    .max(64)
    .default(1)
    .describe(
      "Hogwild threads of a trainer: they share its dense weights, and add to them without locks.",
    ),
  servers: z
    .int()
    .min(0)
    .max(1024)
    .default(0)
    .describe("Servers of rows, at most one for each device. 0: one for each host."),
  elastic: z
    .strictObject({
      every: z
        .int()
        .min(1)
        .max(1_000_000)
        .default(10)
        .describe(
          "Batches of a trainer between two exchanges with the center (elastic averaging).",
        ),
      share: z
        .number()
        .gt(0)
        .max(1)
        .optional()
        .describe(
          "Share of its distance from the center that an exchange takes from a trainer, and gives to the center. Left out: 0.5 divided by the number of trainers.",
        ),
    })
    .prefault({})
    .describe("Elastic averaging of the trainers' dense weights with a center on a server."),
  prefetch: z
    .int()
    .min(0)
    .max(16)
    .default(2)
    .describe("Batches whose rows a thread reads ahead. More hide latency, but read older rows."),
  pushes: z
    .int()
    .min(1)
    .max(64)
    .default(4)
    .describe("Most updates of a thread that servers have not confirmed; further updates wait."),
});

/** The section `async` after its checks. */
export type AsynchronousSpec = z.output<typeof asynchronousOptions>;
