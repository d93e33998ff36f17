// The Open Inference Protocol (KServe v2) over HTTP: metadata and inference requests, in JSON, with
// optional binary tensors after it.
//
// Source: kserve/open-inference-protocol, its REST specification; Triton, binary tensor data.

import {
  packageVersion,
  RequestUnusableError,
  recordColumnsOf,
  shapesOf,
} from "../../../../internal.ts";
import type { ScoringCall, ScoringEngine } from "../models/engine.ts";
import type { ModelVersions } from "../models/model-versions.ts";
import type { Response } from "../models/request-router.ts";
import { jsonOf } from "./plain-json.ts";
import { callOf, encodedInputs } from "./tensor-inputs.ts";
import { tensorsOf } from "./tensors.ts";

/** Header with the length of the JSON, after which binary tensors begin. */
export const jsonLengthHeader = "inference-header-content-length";

const outputName = "predictions";

export function serverMetadata() {
  return { name: "osiris", version: packageVersion(), extensions: ["binary_tensor_data"] };
}

/** Model metadata: an input tensor per column, and the loaded versions. */
export function modelMetadata(model: ModelVersions, engine: ScoringEngine) {
  const { job, tasks, version } = engine;
  const datatypes = { number: "FP32", id: "BYTES", ids: "BYTES" } as const;
  const columns = recordColumnsOf(job.data, shapesOf(job.model));
  const inputs = columns.map(({ name, holds }) => {
    return { name, datatype: datatypes[holds], shape: holds === "ids" ? [-1, -1] : [-1, 1] };
  });
  const { failure, versions } = model;
  return {
    name: model.name,
    versions: versions.map(({ digest }) => digest),
    platform: "osiris_checkpoint",
    inputs,
    outputs: [{ name: outputName, datatype: "FP32", shape: [-1, tasks.length] }],
    parameters: {
      digest: version.digest,
      step: version.step,
      calibrated: version.calibrated === true,
      tasks: tasks.join(","),
      // The protocol allows text, numbers and booleans as parameters, but no lists.
      encoded_inputs: encodedInputs(job.model)
        .flatMap((name) => [name, name.replace(/\.(rows|ids)$/, ".lengths")])
        .join(","),
      ...(failure === undefined ? {} : { failure }),
    },
  };
}

/** An inference request. */
export interface InferRequest {
  readonly call: ScoringCall;
  readonly id: string | undefined;
  readonly deadlineMs: number | undefined;
  readonly key: string | undefined;
  readonly isBinary: boolean;
}

/**
 * Parses a request. `jsonBytes`: the header with the length of its JSON; undefined: all of the
 * body.
 * @throws RequestUnusableError, RequestTooLargeError
 */
export function readInfer(
  body: Uint8Array,
  jsonBytes: string | undefined,
  { job }: Pick<ScoringEngine, "job">,
  samplesMax: number,
): InferRequest {
  const length = jsonBytes === undefined ? body.length : Number(jsonBytes);
  if (!(Number.isSafeInteger(length) && length > 0 && length <= body.length)) {
    const wanted = `an integer from 1 to the body's length, ${body.length}`;
    throw new RequestUnusableError(`Expected the header \`${jsonLengthHeader}\` to be ${wanted}`);
  }
  const given = jsonOf(body.subarray(0, length), samplesMax);
  const { id, parameters = {}, inputs, outputs } = given;
  if (id !== undefined && typeof id !== "string") {
    throw new RequestUnusableError("Expected `id` to be text");
  }
  if (typeof parameters !== "object" || parameters === null) {
    throw new RequestUnusableError("Expected `parameters` to be an object");
  }
  const { timeout, osiris_key: key, binary_data_output: all } = parameters as Parameters;
  if (timeout !== undefined && !(typeof timeout === "number" && timeout >= 0)) {
    throw new RequestUnusableError("Expected the parameter `timeout` to be microseconds >= 0");
  }
  return {
    call: callOf(tensorsOf(inputs, body.subarray(length)), job, samplesMax),
    id,
    // As in Triton, in µs; 0 means no timeout of its own.
    deadlineMs: typeof timeout === "number" && timeout > 0 ? timeout / 1000 : undefined,
    key: key === undefined ? undefined : String(key),
    isBinary: isBinaryOutput(outputs, all === true),
  };
}

interface Parameters {
  readonly timeout?: unknown;
  readonly osiris_key?: unknown;
  readonly binary_data_output?: unknown;
}

/** Whether the client requests binary predictions. @throws RequestUnusableError */
function isBinaryOutput(outputs: unknown, all: boolean): boolean {
  if (outputs === undefined) return all;
  if (!Array.isArray(outputs)) throw new RequestUnusableError("Expected `outputs` to be a list");
  let isBinary = all;
  for (const output of outputs as unknown[]) {
    const { name, parameters } = (output ?? {}) as { name?: unknown; parameters?: unknown };
    if (name !== outputName) {
      const got = typeof name === "string" ? name.slice(0, 100) : typeof name;
      throw new RequestUnusableError(`Expected the output \`${outputName}\`, got \`${got}\``);
    }
    const { binary_data: requested } = (parameters ?? {}) as { binary_data?: unknown };
    if (typeof requested === "boolean") isBinary = requested;
  }
  return isBinary;
}

/** The body of an answer with scores (B,T), and the length of its JSON if binary data follows. */
export function inferAnswer(
  { model, tasks, scores, version }: Response,
  { id, isBinary }: Pick<InferRequest, "id" | "isBinary">,
): { readonly body: string | Uint8Array; readonly jsonBytes?: number } {
  const about = {
    name: outputName,
    datatype: "FP32",
    shape: [scores.length / tasks.length, tasks.length],
  };
  const answer = {
    model_name: model,
    model_version: version.digest,
    ...(id === undefined ? {} : { id }),
    parameters: { step: version.step, calibrated: version.calibrated === true },
  };
  if (!isBinary) {
    return { body: JSON.stringify({ ...answer, outputs: [{ ...about, data: [...scores] }] }) };
  }
  const bytes = new Uint8Array(4 * scores.length);
  const view = new DataView(bytes.buffer);
  for (const [i, score] of scores.entries()) view.setFloat32(4 * i, score, true);
  const parameters = { binary_data_size: bytes.length };
  const json = Buffer.from(JSON.stringify({ ...answer, outputs: [{ ...about, parameters }] }));
  return { body: Buffer.concat([json, bytes]), jsonBytes: json.length };
}
