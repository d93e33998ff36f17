// The ops by name. docs/data.md has a table of them.

import { cartesian, idListTransform, nGram } from "./cross-ops.ts";
import { enumerate, firstX, hashText, mapId, positiveModulus, sigridHash } from "./id-ops.ts";
import {
  boxCox,
  bucketize,
  clamp,
  fill,
  getLocalHour,
  log,
  logit,
  onehot,
  scale,
} from "./number-ops.ts";
import type { Op, OpName } from "./op.ts";
import {
  cosine,
  hasOverlap,
  jaccard,
  maxCount,
  overlapCount,
  scoreMax,
  scoreMin,
  scoreSum,
} from "./score-ops.ts";

/** Every op that makes columns, which is every op except sampling. */
export const ops: { readonly [Name in Exclude<OpName, "sampling">]: Op<Name> } = {
  ...{ bucketize, onehot, getLocalHour },
  ...{ log, boxCox, logit, scale, clamp, fill },
  ...{ sigridHash, positiveModulus, firstX, enumerate, hashText, mapId },
  ...{ nGram, cartesian, idListTransform },
  ...{ hasOverlap, overlapCount, maxCount, jaccard, cosine, scoreSum, scoreMin, scoreMax },
};
