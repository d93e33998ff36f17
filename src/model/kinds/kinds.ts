// The options of every kind of model. A new kind is a file with its graph and a file with its
// options in this folder, a row of this table, a row in ../model.ts, and a builder in
// ../model-builders.ts.

import type { z } from "zod";
import { customOptions, customProblems } from "../custom/custom-options.ts";
import type { Problem } from "./common-options.ts";
import { crossProblems, dcnV2Options, gdcnOptions } from "./cross-network-options.ts";
import { dlrmOptions, dlrmProblems } from "./dlrm-options.ts";
import { autoIntOptions, fieldProblems, xDeepFmOptions } from "./field-layers-options.ts";
import { finalNetOptions, finalNetProblems } from "./final-net-options.ts";
import {
  deepFmOptions,
  firstOrderProblems,
  fmOptions,
  lrOptions,
  wideAndDeepOptions,
} from "./first-order-options.ts";
import { finalMlpOptions, gateProblems, maskNetOptions } from "./gates-options.ts";
import {
  esmmOptions,
  mmoeOptions,
  multiTaskProblems,
  pleOptions,
  sharedBottomOptions,
} from "./multi-task-options.ts";
import { bstOptions, dinOptions, sequenceProblems } from "./sequences-options.ts";
import { wukongOptions, wukongProblems } from "./wukong-options.ts";

/** A kind of model with options of the type `Spec`. */
export interface ModelKind<Spec> {
  /** Schema of the options; its `kind` is the name in the table. */
  readonly options: z.ZodType;
  /** Finds options that contradict each other. */
  problems(spec: Spec): Problem[];
}

/** All kinds, in the order of the documentation. */
export const kinds = {
  dlrm: { options: dlrmOptions, problems: dlrmProblems },
  lr: { options: lrOptions, problems: firstOrderProblems },
  fm: { options: fmOptions, problems: firstOrderProblems },
  wideAndDeep: { options: wideAndDeepOptions, problems: firstOrderProblems },
  deepFm: { options: deepFmOptions, problems: firstOrderProblems },
  dcnV2: { options: dcnV2Options, problems: crossProblems },
  gdcn: { options: gdcnOptions, problems: crossProblems },
  autoInt: { options: autoIntOptions, problems: fieldProblems },
  xDeepFm: { options: xDeepFmOptions, problems: fieldProblems },
  maskNet: { options: maskNetOptions, problems: gateProblems },
  finalMlp: { options: finalMlpOptions, problems: gateProblems },
  finalNet: { options: finalNetOptions, problems: finalNetProblems },
  din: { options: dinOptions, problems: sequenceProblems },
  bst: { options: bstOptions, problems: sequenceProblems },
  wukong: { options: wukongOptions, problems: wukongProblems },
  sharedBottom: { options: sharedBottomOptions, problems: multiTaskProblems },
  mmoe: { options: mmoeOptions, problems: multiTaskProblems },
  ple: { options: pleOptions, problems: multiTaskProblems },
  esmm: { options: esmmOptions, problems: multiTaskProblems },
  custom: { options: customOptions, problems: customProblems },
} as const;
