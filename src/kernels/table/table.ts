// The table of kernels: the parameters of each kernel, with their shapes, in the language of
// describe.ts. The checks of a kernel's arguments, and its call of the addon, follow from its row.
// native/table.h is the same table in C++. The contract (kernels.ts) says what a kernel computes;
// the letters of sizes are those of the contract.

import type { Kernels } from "../contract/kernels.ts";
import { size } from "./asserts.ts";
import * as conditions from "./conditions.ts";
import type { Row } from "./describe.ts";

/** A row for each kernel with arguments to check; `Given`: the kernel's own parameters. */
type Table = {
  readonly [name in keyof Kernels]?: Kernels[name] extends (...given: infer Given) => unknown
    ? Row<Given>
    : never;
};

export const table: Table = {
  // Random numbers ----

  uniform: { takes: "t=n key purpose first scale", native: "t n key purpose first scale" },
  dropout: { takes: "x=B:C key purpose step firstSample rate", also: conditions.isRate },

  // Dense layers ----

  linear: {
    takes: "out=B*O x=B:I w=(O,I) b=O relu precision",
    native: "out x w b B I O relu",
    bfloat16: "linearBfloat16",
  },
  linearPacked: {
    takes: "out=B*O x=B:I packed=(O,I) b=O relu",
    native: "out x packed b B I O relu",
  },
  dRelu: { takes: "d=n out=n", native: "d out n" },
  dLinearInput: {
    takes: "dX=B*I dOut=B:O w=(O,I) precision plus=16{B*I} above=B*I?",
    native: "dX dOut w B I O plus above",
    bfloat16: "dLinearInputBfloat16",
  },
  dLinearWeight: {
    takes: "dW=[(O,I)] dB=[O] dOut=B:O x=B:I slices(B) precision",
    native: "dW dB dOut x I O slices",
    bfloat16: "dLinearWeightBfloat16",
  },
  interact: {
    takes: "out=. x=(B,F,D) copied dots",
    native: "out x B F D copied dots",
    also: conditions.hasInteractions,
  },
  dInteract: {
    takes: "dX=B*F*D dOut=. x=(B,F,D) copied dots",
    native: "dX dOut x B F D copied dots",
    also: (_, dOut, x, copied, dots) => conditions.hasInteractions(dOut, x, copied, dots),
  },
  loss: {
    takes:
      "losses dLogits=B*K logits=(B,K) labels=(B,L) terms batchSize slices(B) weights=B? labelled",
    also: conditions.hasTerms,
  },

  // Elements ----

  add: { takes: "out=n a=n b=n", native: "out a b n" },
  addBeside: {
    takes: "out=R:C values={.} other=R*C",
    native: "out values other R",
    also: conditions.areBeside,
  },
  multiply: { takes: "out=n a=n b=n", native: "out a b n" },
  dMultiply: { takes: "dA=n dB=n dOut=n a=n b=n", native: "dA dB dOut a b n" },
  multiplyAdd: { takes: "out=n a=n b=n c=n", native: "out a b c n" },
  relu: { takes: "out=n x=n", native: "out x n" },
  scale: { takes: "out=n x=n factor", native: "out x n factor" },
  leakyRelu: { takes: "out=n x=n slope", native: "out x n slope" },
  dLeakyRelu: { takes: "d=n out=n slope", native: "d out n slope" },
  sigmoid: { takes: "out=n x=n", native: "out x n" },
  dSigmoid: { takes: "d=n out=n", native: "d out n" },
  jointLogit: { takes: "out=n a=n b=n" },
  dJointLogit: { takes: "dA=n dB=n dOut=n a=n b=n" },
  softmax: { takes: "out=R*D x=(R,D)", native: "out x R D" },
  dSoftmax: { takes: "dX=R*D dOut=R*D out=(R,D)", native: "dX dOut out R D" },

  // Products of vectors ----

  pairs: { takes: "out=B*M*N*D a=(B,M,D) b=(B,N,D)", native: "out a b B M N D" },
  dPairsLeft: { takes: "dA=(B,M,D) dOut=B*M*N*D b=(B,N,D)", native: "dA dOut b B M N D" },
  dPairsRight: { takes: "dB=(B,N,D) dOut=B*M*N*D a=(B,M,D)", native: "dB dOut a B M N D" },
  products: { takes: "out=(B,M,N) a=. b=. form plus=16{B*M*N}", also: conditions.areFactors },
  dShared: {
    takes: "dA=[M*K] dOut=(B,M,N) b=(B,K,N) slices(B)",
    native: "dA dOut b M N K slices",
  },
  rankProducts: {
    takes: "out=B*N*K y=(B,K,D) x=(B,N,D) w=K*N",
    native: "out y x w B N D K",
  },
  dRankProducts: {
    takes:
      "dX=B*N*D dW=[K*N] dOut=B*N*K operands.x=(B,N,D) operands.y=(B,K,D) operands.w=K*N " +
      "slices(B) plus=16{B*N*D}",
    native: "dX dW dOut x y w B N D K slices plus",
  },
  pairSum: { takes: "out=B x=(B,F,D)", native: "out x B F D" },
  dPairSum: { takes: "dX=B*F*D dOut=B x=(B,F,D)", native: "dX dOut x B F D" },

  // Normalisation ----

  layerNorm: {
    takes: "out=R*D saved=2*R x=R*D gain=D bias=D epsilon",
    native: "out saved x gain bias R D epsilon",
  },
  dLayerNorm: {
    takes:
      "dX=R*D? dGain=[D] dBias=[D] dOut=R*D operands.saved=2*R operands.x=R*D operands.gain=D " +
      "slices(R)",
    native: "dX dGain dBias dOut saved x gain D slices",
  },
  batchMoments: {
    takes: "sums=[2*C] x=B*C shift=C slices(B)",
    native: "sums x shift C slices",
  },
  wholeBatchStatistics: {
    takes: "columns.mean=C columns.unit=C running.mean=C running.variance=C sums=2*C numbers",
  },
  batchStatistics: { takes: "columns.mean=C columns.unit=C mean=C variance=C epsilon" },
  batchNorm: {
    takes: "out=B*C x=B:C columns.mean=C columns.unit=C columns.gain=C columns.bias=C relu",
    native: "out x mean unit gain bias B C relu",
  },
  dBatchNormWeights: {
    takes:
      "dGain=[C] dBias=[C] dOut=B*C x=B:C columns.mean=C columns.unit=C columns.gain=C " +
      "columns.bias=C slices(B)",
    native: "dGain dBias dOut x mean unit gain bias C slices",
  },
  dBatchNorm: {
    takes:
      "dX=B*C dOut=B*C x=B:C columns.mean=C columns.unit=C columns.gain=C columns.bias=C " +
      "dMean=C dSlope=C",
    native: "dX dOut x mean unit gain bias dMean dSlope B C",
  },

  // Embedding bags ----

  born: {
    takes: "rows key purpose scale",
    native: "rows key purpose scale",
    also: conditions.hasNoNames,
  },
  pool: {
    takes: "out=count*width tables bags first=range(count<samples) count average",
    native: "out tables - bags first count average",
  },
  poolAt: {
    takes: "out=n*width tables bags places=#n",
    native: "out tables - bags places",
    unless: "n",
    also: (_out, _tables, { samples }, places) => conditions.areWithin("places", places, samples),
  },
  collidingBags: {
    takes: "out tables next=bags() current=bags()",
    native: "out tables - next current",
  },
  updateRows: {
    takes: "tables bags dPooled=samples*width slices(samples) rules completed order",
    native: "tables rules bags dPooled slices completed order",
    also: conditions.areUpdated,
  },
  rowSquares: {
    takes:
      "tables bags dPooled=(samples,V) first=range(width<V) slices(samples) rules counts order",
    native: "tables rules bags dPooled first V slices counts order",
    also: conditions.haveSquares,
  },
  rowNorms: {
    takes:
      "tables bags dPooled=(samples,V) first=range(width<V) slices(samples) rules means counts",
    native: "tables rules bags dPooled first V slices means counts",
    also: conditions.haveNorms,
  },
  dRows: {
    takes:
      "dRows=[R*D] counts=[R] tables bags dPooled=(samples,V) first=range(width<V) slices(samples)",
    native: "dRows counts tables - bags dPooled first V slices",
    also: (...[, , tables]) => conditions.isOneTable(tables),
  },
  applyRows: {
    takes: "rows dRows=R*D counts=R rule whole",
    native: "rows rule dRows counts whole",
  },
  rowMeans: {
    takes: "squares quanta dim",
    also: (squares, quanta) => conditions.areRuns(squares, quanta, 1),
  },
  rowTrust: {
    takes: "norms quanta",
    also: (norms, quanta) => conditions.areRuns(norms, quanta, 2),
  },

  // Columns of vectors, for the exchange ----

  copyColumns: {
    takes: "out=B:V outFirst=range(columns<V) from=B:W fromFirst=range(columns<W) columns",
    native: "out outFirst V from fromFirst W B columns",
    unless: "B",
  },
  copyRuns: {
    takes: "out=B:V from=B:W runs",
    native: "out V from W B runs",
    unless: "B",
    also: conditions.areColumns,
  },
  foldPooled: {
    takes:
      "out=B:V outFirst=range(columns<V) parts blocks columns lengths=#B? precision scale=power(2)",
    unless: "B",
    also: conditions.areParts,
  },
  shareColumns: {
    takes:
      "out=B:V outFirst=range(columns<V) from=B:W fromFirst=range(columns<W) columns lengths=#B",
    native: "out outFirst V from fromFirst W B columns lengths",
    unless: "B",
  },
  expandColumns: {
    takes:
      "out=B:V outFirst=range(columns<V) from=U:W fromFirst=range(columns<W) columns inverse=#B " +
      "used=#U?",
    native: "out outFirst V from fromFirst W inverse used B columns",
    unless: "B",
    also: (...[, , from, , columns, inverse, used]) =>
      conditions.areLists(from, columns, inverse, used),
  },
  dExpandColumns: {
    takes:
      "dFrom=U:W fromFirst=range(columns<W) dOut=B:V outFirst=range(columns<V) columns " +
      "inverse=#B used=#U?",
    native: "dFrom fromFirst W U dOut outFirst V inverse used B columns",
    unless: "B",
    also: (...[dFrom, , , , columns, inverse, used]) =>
      conditions.areLists(dFrom, columns, inverse, used),
  },
  placeColumns: {
    takes:
      "out=U:V outFirst=range(columns<V) from=n:W fromFirst=range(columns<W) columns places=#n",
    native: "out outFirst V from fromFirst W places n columns",
    unless: "n",
    also: (out, ...[, , , , places]) => conditions.areWithin("places", places, out.shape[0] ?? 0),
  },
  packColumns: {
    takes:
      "to=packed(B*columns) from=B:W fromFirst=range(columns<W) columns precision scale=power(2)",
    native: "to from fromFirst W B columns precision scale",
    unless: "B",
  },
  unpackColumns: {
    takes:
      "out=B:V outFirst=range(columns<V) from=packed(B*columns) columns precision scale=power(2)",
    native: "out outFirst V from B columns precision scale",
    unless: "B",
  },
  selectLargest: {
    takes: "selected.indices=#k selected.codes=#k residual=n sum=n",
    native: "indices codes k residual sum n",
    also: conditions.isSome,
  },
  addSelected: {
    takes: "out=n selected.indices=#k selected.codes=#k",
    native: "out indices codes k",
    also: (out, { indices }) => conditions.areWithin("indices", indices, size(out)),
  },
  foldSubtrees: {
    takes: "out=n parts={n} trees slices",
    native: "out parts trees n",
    also: conditions.areComplete,
  },

  // Dense optimizers ----

  clipNorm: { takes: "out=n g=n normMax" },
  clipValues: { takes: "out=n g=n most" },
  average: { takes: "average=n w=n decay" },
  swap: { takes: "a=n b=n" },
  applyFlat: { takes: "w=n slots={n} g=n rule=any()", also: conditions.hasSlots },

  // Caches and records ----

  rowCache: { takes: "spec", also: conditions.hasPlaces },
  placeRows: { takes: "cache places=#n ids=#n tick memory", also: conditions.isLater },
  releaseRows: { takes: "cache placed", also: conditions.arePinned },
  gatherRecords: {
    takes: "out rows places=#n",
    native: "out rows places n",
    also: conditions.areGathered,
  },
  scatterRecords: {
    takes: "rows places=#n records at",
    native: "rows places n records at",
    also: conditions.areScattered,
  },
  bornAt: {
    takes: "rows places=#n ids=#n key purpose scale initialState",
    native: "rows places ids n key purpose scale initialState",
    also: (rows, places) => conditions.areWithin("places", places, rows.rows),
  },
  moveRecords: {
    takes: "to toAt from fromAt count bytes",
    native: "to toAt from fromAt count bytes",
    also: conditions.areMoved,
  },
  keepRows: { takes: "log tiles ids ranges=#n", also: conditions.areUndone },
};
