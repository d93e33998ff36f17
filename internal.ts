// Every name that the command line, the benches, the tests and the packages import of the core, by
// file. index.ts picks the public names; the others may change with any version.

// A cluster, and what it runs ----
export { Cluster } from "./actors/cluster/cluster.ts";
export type { ClusterOptions } from "./actors/cluster/cluster-options.ts";
export { DppWorker } from "./actors/client/dpp-worker.ts";
export { Host, type HostOptions } from "./actors/cluster/host-process.ts";
export { Client } from "./actors/client/client.ts";
export { Run, type LogRecord } from "./actors/client/run.ts";
export type { RunTimelines } from "./actors/client/run-timelines.ts";
export { chromeTrace, clocksOf } from "./actors/client/chrome-trace.ts";
export { connect, type ConnectionOptions } from "./actors/client/connect.ts";

export type { RunEvent, RunStatus } from "./actors/run/state/run-events.ts";
export type { RunResult, CutRecord } from "./actors/run/state/run-result.ts";
export { readRunLog } from "./storage/cluster/run-log.ts";

export type { HostRecord } from "./actors/host/membership.ts";
export type { NamedShard, RunLine, RunSummary } from "./actors/jobs/job-api.ts";
export type { IncidentRecord } from "./actors/run/state/incident-record.ts";
export type { Incident } from "./actors/runtime/incident.ts";
export type { ReaderReport } from "./actors/host/reader-report.ts";
export type { ShardReport } from "./actors/host/shard.ts";
export type { CacheReport, TierReport } from "./actors/host/tier-report.ts";
export type { ClusterReport, RunReport } from "./actors/observe/cluster-report.ts";
export type { ActorReport, ProcessReport } from "./actors/observe/process-report.ts";
export type { Wait } from "./actors/runtime/wait-graph.ts";
export type { LogOptions } from "./actors/observe/process-log.ts";
export type { ExchangeTimes, StepTimes, TierRates } from "./src/training/meters/step-meter.ts";
export type { TableTiers } from "./src/training/planning/tier-advice.ts";
export type { MissPoint } from "./src/planner/cost/miss-curve.ts";

// A job, as plain data ----
export * from "./src/model/model-builders.ts"; // dlrm, wukong, dcnV2: a function for each kind.
export { checkSynchronous } from "./src/job/check-asynchronous.ts";
export { type JobOptions, type JobSpec, resolveJob } from "./src/job/job.ts";
export { jobJsonSchema } from "./src/job/job-json-schema.ts";
export {
  adagrad,
  adam,
  adamW,
  ftrl,
  lamb,
  type ModelOptions,
  partialRowWiseAdam,
  partialRowWiseLamb,
  rowWiseAdagrad,
  sgd,
} from "./src/model/options.ts";
export { modelSize } from "./src/model/model-size.ts";
export { type Sweep, type SweptJob, sweepOf, sweptJobsOf } from "./src/job/sweep.ts";
export { type TransformedRow, transformedRows } from "./src/job/transformed-rows.ts";

// A model of the user's own, in a module that a job names ----
export * as blocks from "./src/model/custom/all-blocks.ts";
export { defineModel, type ModelDefinition } from "./src/model/custom/define-model.ts";
export type { GraphBuilder as ModelGraph, Value as GraphValue } from "./src/model/graph/graph.ts";
export type { TableOptions } from "./src/embedding/tables/options.ts";
export type { DataOptions } from "./src/data/options.ts";
export { idsOfFeature, meanIdsOf } from "./src/data/options.ts";
export { arrow, criteo, csv, jsonl, parquet, synthetic } from "./src/data/sources.ts";

// A trained model ----
export { allowModels } from "./src/model/custom/allowed-modules.ts";
export { type CalibrationChoice, loadModel, type LoadOptions } from "./storage/model/load-model.ts";
export type { EvaluationData } from "./src/job/evaluation-options.ts";
export { Model } from "./storage/model/model.ts";
export {
  featureImportance,
  type ImportanceReport,
} from "./storage/model/evaluation/feature-importance.ts";
export { sliceMetrics, type ColumnSlices } from "./storage/model/evaluation/slice-metrics.ts";
export {
  calibrateModel,
  removeCalibration,
  type CalibrateReport,
} from "./storage/model/calibrate-model.ts";

export type { Calibration, StoredCalibration } from "./storage/model/calibration.ts";

export type { EncodedBatch } from "./src/data/batch-rows.ts";
export type { RecordColumn, RecordValue, SampleRecord } from "./src/data/records.ts";

// Tables of a checkpoint, as files and from files ----

export type { ProgressOptions } from "./storage/disk/progress.ts";

// Tables of Parquet files ----

// Streams of messages, joined into such tables ----

// The checkpoints of a directory ----
export {
  historyCsv,
  runHistory,
  type HistoryFigures,
  type HistoryPoint,
} from "./storage/checkpoints/run-history.ts";
export {
  listCheckpoints,
  type CheckpointList,
  type CheckpointRecord,
} from "./storage/checkpoints/list-checkpoints.ts";
export { verifyCheckpoints, type VerifyReport } from "./storage/checkpoints/verify-checkpoints.ts";
export {
  diffCheckpoints,
  type CheckpointDifference,
} from "./storage/checkpoints/diff-checkpoints.ts";
export {
  restoreCheckpoint,
  planRestore,
  type RestoreReport,
} from "./storage/checkpoints/restore-checkpoint.ts";
export { verifyRun, type RunProof } from "./actors/verify/verify-run.ts";

// Metrics ----
export { evaluate, type Metrics } from "./src/training/loop/metrics.ts";

// A plan: which shard goes where, and why ----
export { briefSize, measureRates, type RateOptions } from "./actors/calibration/measure-rates.ts";
export { countedStatistics } from "./src/training/planning/counted-statistics.ts";

export {
  type JobPlan,
  checkPlannable,
  planJob,
  type PlanSource,
  planningJob,
  withWireBytes,
} from "./src/training/planning/plan-job.ts";

export { type CostSearchModule, searchPlansWith } from "./actors/threads/data/cost-files.ts";

export { type Paused, untilDone } from "./src/planner/paused.ts";
export {
  type PlacementSpec,
  placementKinds,
  plainPlacement,
  serversOf,
  slicesBeside,
} from "./src/planner/placement.ts";
export { schemes, type Plan, type PlacedShard, type Scheme } from "./src/planner/shards.ts";
export { machineConstants, measuredDevices } from "./actors/calibration/machine-constants.ts";
export { tryJob } from "./actors/calibration/try-job.ts";
export { chooseDevices, type DeviceChoice } from "./src/training/planning/choose-devices.ts";

export type { PlanReport } from "./src/training/planning/plan-report.ts";
export { rowStateOf } from "./src/embedding/tables/row-state.ts";
export type { MachineConstants } from "./src/planner/cost/constants.ts";
export type { MeasuredLinks } from "./src/planner/fleet.ts";
export { type Stage, stages } from "./src/planner/cost/cost.ts";

// Errors: compare `code`, never the message ----
export * from "./src/errors/errors.ts";

// Chaos: ways to break a cluster, and the oracle that says whether it mattered ----
export { breakableLauncher, type BreakableLauncher } from "./chaos/faults/breakable-launcher.ts";
export { killAt, throwIn, type Target } from "./chaos/faults/kill-at.ts";
export { compareWithReference } from "./chaos/trials/oracle.ts";
export { Chaos, chaos, type ChaosOptions } from "./chaos/chaos.ts";
export { soak } from "./chaos/trials/soak.ts";
export type { ThreadFault } from "./chaos/faults/breaking-cells.ts";
export type { FaultKind, Schedule } from "./chaos/faults/schedule.ts";
export type { ReferenceRun } from "./chaos/trials/verdict.ts";
export type { Trial } from "./chaos/trials/trial.ts";
export {
  type ChaosFigures,
  figuresOf,
  type LossFigures,
  type Spread,
} from "./chaos/trials/figures.ts";

// Simulation: whole clusters in one thread and virtual time ----
export { drawScenario, type Scenario, type SimulatedFault } from "./chaos/simulation/scenario.ts";
export {
  simulate,
  type Failure as SimulationFailure,
  type SimulationVerdict,
} from "./chaos/simulation/simulate.ts";
export type { SeedsSummary } from "./chaos/simulation/seeds.ts";

// Before a run ----
export { checkJob } from "./actors/doctor/doctor-job.ts";
export { diagnose, type Diagnosis } from "./actors/doctor/doctor.ts";
export type { Check } from "./actors/doctor/doctor-checks.ts";

// The binary caches of data ----
export type { FeatureStatistics } from "./src/data/cache/feature-statistics.ts";
export {
  type CachedSource,
  type CacheList,
  type CacheRecord,
  type FileCount,
  listCaches,
  removeCaches,
} from "./src/data/cache/list-caches.ts";

// Further names that the command line uses ----
export type { Tenants } from "./src/wire/tenancy/tenants.ts";
export { startBroker } from "./src/wire/broker/broker.ts";
export {
  writeClickLines,
  writeSessionLines,
  writeSyntheticTsv,
} from "./src/data/synthetic/generated-lines.ts";

export { type ArrowIndex, openIndex } from "./src/data/arrow/messages.ts";
export type { ArrowField } from "./src/data/arrow/metadata.ts";
export { readArrow } from "./src/data/arrow/read-arrow.ts";
export { type ArrowLeaf, type ArrowShape, shapeOf } from "./src/data/arrow/shapes.ts";
export type { Column, NumberColumn } from "./src/data/columnar/column.ts";
export { dataColumnsOf } from "./src/data/text/match-features.ts";
export { formatsByEnding, type TableKind } from "./src/data/data-kinds.ts";
export { murmurHash3, mix32 } from "./src/data/murmur-hash.ts";
export { leafKey, readFooter, type Footer } from "./src/data/parquet/footer.ts";
export { openParquet } from "./src/data/parquet/open-columns.ts";
export { parquetWriter } from "./src/data/parquet/parquet-writer.ts";
export { mayHaveWanted } from "./src/data/parquet/prune.ts";
export { storedColumn } from "./src/data/parquet/stored-columns.ts";
export { StoredLeaves } from "./src/data/parquet/stored-leaf.ts";
export { isPattern, shownPath } from "./src/data/remote/addresses.ts";
export { factsOfAll } from "./src/data/remote/file-facts.ts";
export { s3FilesOf } from "./src/data/remote/s3-list.ts";
export { keyColumnOf } from "./src/data/split-keys.ts";
export { batchName } from "./src/data/tables/asked-columns.ts";
export {
  openFrom,
  openRanges,
  type RangeReader,
  plannedReads,
} from "./src/data/tables/byte-ranges.ts";
export { unusableAt } from "./src/data/tables/damage.ts";
export { filesOf, partitionsOf, tableFilesOf } from "./src/data/files.ts";
export { isInWanted } from "./src/data/tables/table-file.ts";
export { decodeText, show, sentenceOf } from "./src/data/text/faults.ts";
export { objectIn } from "./src/data/text/json-lines.ts";
export { splitLine } from "./src/data/text/line-decoder.ts";
export { isNumber, momentOf } from "./src/data/columnar/exact-values.ts";
export { readLines } from "./src/data/text/text-lines.ts";
export { shapesOf } from "./src/model/features.ts";
export { expected, checkAll, checkOptions } from "./src/ports/check-options.ts";
export { type Cancel, type Clock, realClock, type NextTurn, nextTurn } from "./src/ports/clock.ts";
export { diskCode } from "./src/ports/disk-refusals.ts";
export { type Disk, realDisk, type DiskFile } from "./src/ports/disk.ts";
export { shownJson, membersOf } from "./src/ports/json/exact-json.ts";
export type { Written } from "./src/ports/written.ts";
export {
  openStreamSource,
  type StreamSource,
  type StoredMessage,
  type StreamFacts,
} from "./src/wire/jetstream/stream-reader.ts";
export type { Credentials } from "./src/wire/transports/credentials.ts";
export {
  onDisk,
  readWhole,
  replaceDurably,
  makeDurableDirectory,
  temporarySuffix,
  isFileName,
  isPathBelow,
  noFileName,
  writeWhole,
} from "./storage/disk/durable-files.ts";
export { progressOf } from "./storage/disk/progress.ts";
export { seal, unsealAs } from "./storage/disk/sealed-json.ts";
export { temporaryHome } from "./storage/disk/temporary-home.ts";

export type { Means } from "./src/data/cache/cache-format.ts";
export type { CategoricalField } from "./src/data/columnar/named-columns.ts";
export { transformsOf, isTable, namesColumns } from "./src/data/data-kinds.ts";
export { mix64Low } from "./src/data/murmur-hash.ts";
export type { ResolvedFileOptions, ResolvedTextOptions, TableShape } from "./src/data/options.ts";
export { columnsOf, createRecordEncoder, type RecordEncoder } from "./src/data/records.ts";
export { Sample } from "./src/data/sample.ts";
export { slackBytes } from "./src/data/tables/byte-ranges.ts";
export { areNumeric, labelsOf } from "./src/data/targets.ts";
export { decimal, decodeEntry } from "./src/data/text/line-decoder.ts";
export { weightedOf, categoricalOf, feeds } from "./src/data/text/match-features.ts";
export type { TransformOf } from "./src/data/transforms/op.ts";
export { outputsOf } from "./src/data/transforms/order.ts";
export { planOf, type Source } from "./src/data/transforms/plan.ts";
export type { Transform, TransformInput } from "./src/data/transforms/transform-options.ts";
export { readVocabulary } from "./src/data/transforms/vocabulary.ts";
export {
  idLeavesOfPart,
  joinIds,
  encodeNewIds,
} from "./src/embedding/checkpoint/ids-part.ts";
export { encodeRows } from "./src/embedding/checkpoint/rows-part.ts";
export { blockOf } from "./src/embedding/dynamic-ids/shard-ids.ts";
export { LocalRows, wholeId } from "./src/embedding/lookup/ids-to-rows.ts";
export {
  addSum,
  leavesOfSums,
  rowHashing,
  tableDigest,
} from "./src/embedding/rows/digest.ts";
export type { RowRecords } from "./src/embedding/rows/row-records.ts";
export { createRowSet, type RowSet } from "./src/embedding/rows/row-set.ts";
export { rowBirthOf } from "./src/embedding/rows/shard-rows.ts";
export type { TableSpec, SparseOptimizerSpec } from "./src/embedding/tables/options.ts";
export { rowDecayOf } from "./src/embedding/tables/row-decay.ts";
export { initialRowState } from "./src/embedding/tables/row-state.ts";
export { blockRowsOf, type Shard, shardsOf } from "./src/embedding/tables/shards.ts";
export { jobIdentity } from "./src/job/job.ts";
export {
  type Kernels,
  type StateShape,
  takesMean,
  takesTrust,
} from "./src/kernels/contract/kernels.ts";
export {
  decode,
  createCodes,
  createExponents,
  decodeRow,
  encodeRow,
  packedBytes,
  type Precision,
  weightBytes,
} from "./src/kernels/contract/precision.ts";
export { slicesOf, sliceStart } from "./src/kernels/contract/slices.ts";
export { openKernels } from "./src/kernels/index.ts";
export { applyDense, createDenseState } from "./src/model/dense-optimizer.ts";
export { featuresOf, type Feature, type Lookup, lookupsOf } from "./src/model/features.ts";
export {
  type Block,
  type Graph,
  GraphBuilder,
  type Memory,
  type Node,
  type Pass,
  reshape,
  sizeOf,
} from "./src/model/graph/graph.ts";
export {
  backwardEarly,
  backwardLate,
  createNetwork,
  dLogitsOf,
  forwardEarly,
  forwardLate,
  gradientsAt,
  logitsOf,
  type Network as GraphNetwork,
  vectorsOf,
} from "./src/model/graph/network.ts";
export {
  layoutParameters,
  type ParameterLayout,
  parameterIn,
} from "./src/model/graph/parameters.ts";
export {
  type Name,
  withAxis,
  type Attribute,
  type Translation,
} from "./src/model/graph/translation.ts";
export { graphOf } from "./src/model/model.ts";
export type { DenseOptimizerSpec, ModelSpec } from "./src/model/options.ts";
export { RandomStream, keyOf } from "./src/ports/random.ts";
export { type Fields, isSection } from "./src/ports/written.ts";
export { Scorer, type ServedTable } from "./src/serving/scorer.ts";
export {
  densePart,
  digestOf,
  idsPartNameOf,
  partNameOf,
  tableOfPart,
  wholeTable,
} from "./src/training/checkpoint/part-names.ts";
export { decodeDense, denseHeaderBytes, encodeDense } from "./src/training/checkpoint/parts.ts";
export { averagesOf, rowAverageIn } from "./storage/checkpoints/table-rows.ts";
export { cursorOf, mergeUntil, type RowCursor } from "./storage/checkpoints/merged-rows.ts";
export { checkEmpty, newCheckpoint } from "./storage/checkpoints/new-checkpoint.ts";
export {
  type OpenCheckpoint,
  openModel,
  openCheckpoint,
} from "./storage/checkpoints/open-checkpoint.ts";
export { idsOfTable, type TableIds } from "./storage/checkpoints/part-ids.ts";
export { type Manifest, bytesToRead } from "./storage/checkpoints/store/checkpoint-store.ts";
export { partsByName, partsOfTable } from "./storage/checkpoints/store/part-index.ts";
export { needState } from "./storage/checkpoints/store/file-checkpoint-store.ts";
export {
  chunkBytes,
  finishModelFile,
  hashOf,
  pageBytes,
  proofName,
} from "./storage/checkpoints/store/model-file.ts";
export {
  type StoredTable,
  storedTables,
  rowsOfTable,
  storedTable,
  type RowRun,
  withIds,
} from "./storage/checkpoints/table-rows.ts";
export type { Progress } from "./storage/disk/progress.ts";
export {
  type Making,
  unfinishedBytes,
  unfinishedSuffix,
  writeResumable,
  type Unfinished,
} from "./storage/disk/resumable-file.ts";
export { readZip, type ZipEntry, zipMagic } from "./storage/disk/read-zip.ts";
export { zipDirectory, zipEnd, zipHeader, zipPlaceAt } from "./storage/disk/write-zip.ts";

export {
  type CostProbeReport,
  type CostProbeTask,
  costProbeShape,
  type SetTask,
} from "./actors/threads/costs/cost-probe-program.ts";
export {
  costTableOf,
  exchangeProbe,
  type ProbeLimits,
  setProbe,
} from "./actors/threads/costs/cost-probes.ts";
export { quietest, type SampleTimes, timeSteps } from "./actors/calibration/time-steps.ts";
export { prepareData } from "./actors/threads/data/prepare-data.ts";
export type { DataPlan } from "./actors/threads/generation-spec.ts";
export {
  gainMin,
  type OwnVerdict,
  ownCostsPath,
  type VerdictFile,
  verdictPathOf,
  verdictSentence,
} from "./actors/threads/data/own-costs.ts";
export { type MachineKey, machineKeyOf } from "./actors/threads/kept-constants.ts";
export { measureOnThread, measureOnThreads } from "./actors/threads/measuring.ts";
export { createAtomicCells, sleepTurning } from "./src/exchange/atomic-cells.ts";
export { createBridge } from "./src/exchange/bridge.ts";
export { ringSlots } from "./src/exchange/batch-ring.ts";
export { type ChannelName, insideHost, isGather, leavesAhead } from "./src/exchange/exchange.ts";
export { flownChannels } from "./src/exchange/flights.ts";
export { waitedFor, waitOf } from "./src/training/meters/step-meter.ts";
export {
  type StepChannel,
  type StepFacts,
  type StepPlace,
  type StepTaskName,
  stepFactsOf,
  stepGraph,
  stepPlaces,
  stepTasks,
} from "./src/training/step/step-graph.ts";
export { cellWords, abortCells } from "./src/exchange/cells.ts";
export { layoutOf } from "./src/exchange/layout.ts";
export type { Tensor } from "./src/kernels/contract/kernels.ts";
export { type CostTable, reuseBins, weightBytesOf, isHalvable } from "./src/planner/reuse.ts";
export {
  costOf,
  loadOf,
  placeBytesOf,
  reserveOf,
  type Setting,
  stepCostsIn,
} from "./src/planner/cost/cost.ts";
export { checkConstants, constantsSchema } from "./src/planner/cost/constants.ts";
export { distinctOfTile, distinctRows } from "./src/planner/cost/distinct-rows.ts";
export { distinctIds, missRatioAt, sumOverRanks } from "./src/planner/cost/miss-curve.ts";
export { packageFile } from "./src/ports/entry-file.ts";
export { nearestName } from "./src/ports/nearest-name.ts";
export { type Quantity, quantityExpected, quantityIn } from "./src/ports/quantities.ts";
export { rowShare } from "./src/planner/cost/row-shares.ts";
export { reuseOf, sharesOf, windowSamples } from "./src/planner/reuse.ts";
export { roomOf } from "./src/planner/search.ts";
export {
  type PlannedTable,
  quantumColumns,
  tableQuanta,
  tileColumns,
  tileRows,
  type Tier,
  type Tile,
  deviceCount,
} from "./src/planner/shards.ts";
export { withServers } from "./src/planner/placement-kinds.ts";
export { fillCaches, lacksOf, withCurves, withLeastCaches } from "./src/planner/size-caches.ts";
export { type Launcher, workerLauncher } from "./src/ports/launcher.ts";
export { memoryOfProcess } from "./src/ports/process-memory.ts";
export { hasProcessorTime } from "./src/ports/processor-time.ts";
export { purposes } from "./src/ports/random.ts";
export {
  type PlannableJob,
  type WorkloadOptions,
  workloadOf,
} from "./src/training/planning/workload.ts";
export { aheadTables } from "./src/training/topology/ahead-tables.ts";
export { distinctIn } from "./src/training/topology/lookups.ts";
export { treesOf } from "./src/training/topology/shard-groups.ts";
export { exactExchange, tableOf, topologyOf } from "./src/training/topology/topology.ts";
export { sliceRunsOf } from "./src/planner/placement.ts";
export { assessPlan, readSeconds } from "./src/planner/assess.ts";
export {
  deviceCostNames,
  measuredSlices,
  noStepCosts,
  readCostNames,
  type StepCosts,
} from "./src/planner/cost/step-costs.ts";
export { allReduceSeconds, gradientShare } from "./src/planner/cost/all-reduce.ts";
export type { Workload } from "./src/planner/shards.ts";
export { startBrokerThread } from "./src/wire/broker/broker-thread.ts";
export { connectNats, type ConnectOptions } from "./src/wire/transports/nats-transport.ts";

export { type Answer, publishAnswer, refusalAnswer } from "./actors/jobs/service-answers.ts";
export { openDiscovery, type ServiceEndpoint } from "./actors/jobs/service-discovery.ts";
export { openProcessLog } from "./actors/observe/process-log.ts";
export { actorClock, defineActor } from "./actors/runtime/define-actor.ts";
export {
  clusterScope,
  type Mailbox,
  type Network,
  type Role,
  orderFault,
} from "./actors/runtime/mailbox.ts";
export { supervisorMachine } from "./actors/runtime/supervisor.ts";
export { packageVersion } from "./src/ports/entry-file.ts";
export { type RowBatch, textsAt } from "./src/data/columnar/column.ts";
export { createRowEncoder, type RowEncoder } from "./src/data/columnar/row-encoder.ts";
export type { ResolvedColumnOptions, ResolvedTableOptions } from "./src/data/options.ts";
export { recordColumnsOf } from "./src/data/records.ts";
export { openTable } from "./src/data/tables/open-table.ts";
export { wantedRows } from "./src/data/tables/table-file.ts";
export { targetColumnsOf } from "./src/data/targets.ts";
export {
  type Columns,
  criteoColumns,
  csvColumns,
  fieldsOf,
  headerNames,
  jsonColumns,
  wideOf,
} from "./src/data/text/columns.ts";
export { hasKey, withMembers } from "./src/data/text/json-lines.ts";
export { LineBatch, linesOf } from "./src/data/text/line-batch.ts";
export { type LineChunk, lineBytesMax } from "./src/data/text/text-lines.ts";
export { transformsFor } from "./src/data/transforms/compile.ts";
export { mergeFiles } from "./src/embedding/checkpoint/incremental-files.ts";
export { decodeRows } from "./src/embedding/checkpoint/rows-part.ts";
export { cacheShapesOf, indexBytes } from "./src/embedding/rows/cache-sizes.ts";
export { filesNamed } from "./src/job/job-files.ts";
export type { Rows } from "./src/kernels/contract/kernels.ts";
export { recordBytesOf } from "./src/kernels/contract/records.ts";
export {
  cacheWays,
  createPlacedMemory,
  findPlace,
  type Placed,
  type RowCache,
} from "./src/kernels/contract/row-cache.ts";
export { namesMax, parseExactly } from "./src/ports/json/exact-json.ts";
export { type Log, silentLog } from "./src/ports/log.ts";
export { collectAlone } from "./src/ports/launcher.ts";
export type { Key } from "./src/ports/random.ts";
export { type ServedLookups, type LookupSet, lookupSet } from "./src/serving/lookups.ts";
export { batchSamplesMax } from "./src/serving/scorer.ts";
export { BagMaker, type RowPlaces } from "./src/serving/served-bags.ts";
export { type IdRow, ServedIds } from "./src/serving/served-ids.ts";
export {
  type TableMemory,
  servedStateWidth,
  createServedMemory,
} from "./src/serving/served-memory.ts";
export { isLoopback, bearerOf, isForLoopback, isSameToken } from "./src/wire/http/access.ts";
export { answering, guarded } from "./src/wire/http/answering.ts";
export { closeServer, listenAt } from "./src/wire/http/listen.ts";
export { connectionsWithin } from "./src/wire/http/open-files.ts";
export { decodeBody } from "./src/wire/messages/body.ts";
export { isInbox, servingSubject } from "./src/wire/messages/subjects.ts";
export type { Frame, Transport } from "./src/wire/messages/transport.ts";
export { credentialOptions } from "./src/wire/transports/credentials.ts";
export { isObjectAddress } from "./src/ports/object-store.ts";
export { isModelFile } from "./storage/checkpoints/store/file-checkpoint-store.ts";
export { manifestName, pathsOf } from "./storage/checkpoints/store/store-paths.ts";
export { calibrationPath } from "./storage/checkpoints/store/stored-calibration.ts";
export { type Pack, packOf, type PackedEnding, packedEndingOf } from "./storage/disk/packing.ts";
export { piecesOf, checkBatch } from "./storage/model/encoded-batch.ts";
export {
  calibrationsOf,
  type OpenedModel,
  openForPredictions,
} from "./storage/model/load-model.ts";
export {
  type Calibrations,
  type Piece,
  Predictor,
  scorerOf,
  type PredictingVersion,
  probabilityOf,
} from "./storage/model/predictor.ts";
export { sealOf } from "./storage/tiers/records/record-file.ts";
export { refusal } from "./storage/tiers/records/ledger.ts";

export { transportTo } from "./actors/client/connect.ts";
export type { Dashboard, DashboardSource } from "./actors/cluster/cluster-options.ts";
export type { ReceivedMessage } from "./actors/observe/received-messages.ts";
export type { ActorOverview, OverviewReport, ProcessOverview } from "./actors/observe/overview.ts";
export { stepTimes } from "./actors/run/state/run-result.ts";
export { shownOptions } from "./src/job/shown-job.ts";
export { longAsText } from "./src/ports/json/exact-json.ts";
export { tokenFor, cookieOf } from "./src/wire/http/access.ts";
export { addressOf, serverOfFew } from "./src/wire/http/answering.ts";
export { eventsPatterns } from "./src/wire/messages/subjects.ts";
export { CorruptFile } from "./src/data/tables/damage.ts";
export type { LineFault } from "./src/data/text/faults.ts";

export { BatchRows } from "./src/data/batch-rows.ts";
export { denseOf } from "./src/data/text/columns.ts";
export { columnTexts } from "./src/data/file-rows.ts";

export type { ProbePorts } from "./actors/calibration/time-steps.ts";
export type { TimelineRecord } from "./src/ports/timeline.ts";
export type { ExchangeSpec } from "./src/exchange/options.ts";
