// All error classes of Osiris; a file here is a section of docs/errors.md. Other folders import
// errors from this file.

export * from "./checkpoints.ts";
export * from "./cluster.ts";
export * from "./data.ts";
export * from "./disks.ts";
export * from "./runs.ts";
export * from "./serving.ts";
export * from "./training.ts";
export * from "./training-error.ts";
