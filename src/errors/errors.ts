// All error classes of Osiris, by subject. Other folders import errors from this file.
// docs/errors.md lists them.

export * from "./access.ts";
export * from "./chaos.ts";
export * from "./checkpoints.ts";
export * from "./cluster.ts";
export * from "./ingest.ts";
export * from "./input.ts";
export * from "./requests.ts";
export * from "./runs.ts";
export * from "./step.ts";
export * from "./tiers.ts";
export * from "./training-error.ts";
export * from "./wire.ts";
